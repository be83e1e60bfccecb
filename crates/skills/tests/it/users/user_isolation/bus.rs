//! On the bus.

use serde_json::{Value, json};
use skills_testkit::Worker;

use super::{ABSENT, EXISTING, IsolationFixture, TEXT, normalized, other_callers, with_name};

async fn answers(
    worker: &Worker,
    key: Option<&str>,
    function: &str,
    data: &Value,
) -> (String, String) {
    let mut output = vec![];
    for word in [EXISTING, ABSENT] {
        let mut data = with_name(word, data);
        data["key"] = json!(key);
        let answer = worker.call(function, data).await;
        output.push(normalized(&format!("{answer:?}"), word));
    }
    (output.remove(0), output.remove(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_users_entries_look_absent_on_the_bus() {
    let fixture = IsolationFixture::new().await;
    let worker = Worker::connect(&fixture.server.process.url).await;
    let requests: &[(&str, Value)] = &[
        ("skills::resolve", json!({ "id": "@_plan", "explain": true })),
        ("skills::resolve", json!({ "id": "@_plan", "tier": "private" })),
        ("skills::files", json!({ "id": "@-note" })),
        ("skills::catalog", json!({ "ids": ["@-note", "@_plan"] })),
        ("skills::search", json!({ "query": "@" })),
        ("skills::search", json!({ "query": "@-not", "tier": "private" })),
        ("skills::resources-read", json!({ "uri": "iii://@_plan" })),
        ("skills::resources-read", json!({ "uri": "skill://private/@-note/SKILL.md" })),
        ("skills::resources-read", json!({ "uri": "iii://@_plan%401" })),
        ("skills::resolve", json!({ "id": "@_plan%401" })),
        ("skills::history", json!({ "id": "@_plan" })),
        ("skills::history", json!({ "id": "@_plan", "tier": "private" })),
        ("skills::diff", json!({ "id": "@_plan", "from": 1, "to": 1 })),
        ("skills::label", json!({ "id": "@_plan", "label": "a", "version": 1 })),
        ("skills::rollback", json!({ "id": "@_plan", "to": 1, "tier": "private" })),
        ("skills::log", json!({ "id": "@_plan" })),
        ("prompts::history", json!({ "name": "@-prompt" })),
        ("skills::execute", json!({ "id": "@_plan", "arguments": {} })),
        ("prompts::mcp-get", json!({ "name": "@-prompt" })),
        ("prompts::yank", json!({ "name": "@-prompt", "version": 1, "reason": "r" })),
        ("skills::unregister", json!({ "id": "@-note", "tier": "private" })),
        ("prompts::unregister", json!({ "name": "@-prompt", "tier": "private" })),
    ];
    let before = fixture.entries_of_ann();
    for (who, key) in other_callers(&fixture.bob) {
        for (function, data) in requests {
            let (hers, nobodys) = answers(&worker, key, function, data).await;
            assert_eq!(hers, nobodys, "{who} {function} {data}");
            assert!(!hers.contains(TEXT), "{who} {function} {data}: {hers}");
        }
        for (function, data) in [
            ("skills::list", json!({})),
            ("skills::resources-list", json!({})),
            ("skills::available", json!({})),
            ("skills::catalog", json!({ "layers": "all" })),
            ("skills::catalog", json!({ "tier": "private" })),
            ("prompts::list", json!({})),
            ("prompts::mcp-list", json!({})),
        ] {
            let with = |key: Option<&str>| {
                let mut data = data.clone();
                data["key"] = json!(key);
                worker.ok(function, data)
            };
            let output = with(key).await.to_string();
            assert!(
                !output.contains(EXISTING) && !output.contains(TEXT),
                "{who} {function}: {output}"
            );
            let output = with(Some(&fixture.ann)).await.to_string();
            assert!(output.contains(EXISTING), "{function} {data} would show it to ann: {output}");
        }
    }
    assert_eq!(fixture.entries_of_ann(), before, "nothing of hers was changed");
    for (function, data) in requests {
        let (hers, nobodys) = answers(&worker, Some(&fixture.ann), function, data).await;
        assert_ne!(hers, nobodys, "{function} {data} shows nothing");
    }
}
