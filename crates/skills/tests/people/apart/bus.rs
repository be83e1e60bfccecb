//! On the bus.

use serde_json::{Value, json};
use skills_testkit::Worker;

use super::{HERS, NOBODYS, TEXT, Town, of, same, strangers};

async fn answers(
    worker: &Worker,
    key: Option<&str>,
    function: &str,
    data: &Value,
) -> (String, String) {
    let mut said = vec![];
    for word in [HERS, NOBODYS] {
        let mut data = of(word, data);
        data["key"] = json!(key);
        let answer = worker.call(function, data).await;
        said.push(same(&format!("{answer:?}"), word));
    }
    (said.remove(0), said.remove(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_is_like_nobodys() {
    let town = Town::new().await;
    let worker = Worker::connect(&town.site.server.url).await;
    let requests: &[(&str, Value)] = &[
        ("skills::resolve", json!({ "id": "@_plan", "explain": true })),
        ("skills::resolve", json!({ "id": "@_plan", "tier": "private" })),
        ("skills::files", json!({ "id": "@-note" })),
        ("skills::catalog", json!({ "ids": ["@-note", "@_plan"] })),
        ("skills::resources-read", json!({ "uri": "iii://@_plan" })),
        ("skills::resources-read", json!({ "uri": "skill://private/@-note/SKILL.md" })),
        ("skills::execute", json!({ "id": "@_plan", "arguments": {} })),
        ("prompts::mcp-get", json!({ "name": "@-prompt" })),
        ("skills::unregister", json!({ "id": "@-note", "tier": "private" })),
        ("prompts::unregister", json!({ "name": "@-prompt", "tier": "private" })),
    ];
    let before = town.hers();
    for (who, key) in strangers(&town.bob) {
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
            let said = with(key).await.to_string();
            assert!(!said.contains(HERS) && !said.contains(TEXT), "{who} {function}: {said}");
            let said = with(Some(&town.ann)).await.to_string();
            assert!(said.contains(HERS), "{function} {data} would show it to ann: {said}");
        }
    }
    assert_eq!(town.hers(), before, "nothing of hers was changed");
    for (function, data) in requests {
        let (hers, nobodys) = answers(&worker, Some(&town.ann), function, data).await;
        assert_ne!(hers, nobodys, "{function} {data} shows nothing");
    }
}
