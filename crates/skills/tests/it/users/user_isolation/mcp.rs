//! Over MCP, with HTTP and with pipes.

use serde_json::{Value, json};

use super::{ABSENT, EXISTING, IsolationFixture, TEXT, normalized, other_callers, with_name};

use crate::support::mcp_clients::{Client, Session, pipe_with_catalog};

const VERSION: &str = "2025-11-25";

async fn over_http(fixture: &IsolationFixture, key: Option<&str>) -> Client {
    Client::Session(Session::open_as(&fixture.server.process.http, VERSION, key).await)
}

async fn over_pipe(fixture: &IsolationFixture, key: Option<&str>) -> Client {
    let mut arguments = vec!["--url", &fixture.server.process.url];
    arguments.extend(key.into_iter().flat_map(|key| ["--key", key]));
    pipe_with_catalog(&arguments, VERSION).await
}

fn requests() -> Vec<(&'static str, Value)> {
    let tool = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let template = json!({ "type": "ref/resource", "uri": "iii://{id}" });
    let typed = json!({ "name": "id", "value": "@" });
    vec![
        ("resources/read", json!({ "uri": "iii://@_plan" })),
        ("resources/read", json!({ "uri": "iii://@-note" })),
        ("resources/read", json!({ "uri": "skill://@-note/SKILL.md" })),
        ("resources/read", json!({ "uri": "skill://private/@_plan/SKILL.md" })),
        ("resources/read", json!({ "uri": "skill://private/@-note" })),
        ("tools/call", tool("@_plan", json!({}))),
        ("tools/call", tool("read_skill", json!({ "uri": "iii://@-note" }))),
        ("tools/call", tool("read_skill", json!({ "uris": ["iii://@_plan", "iii://@-note"] }))),
        ("tools/call", tool("search_skills", json!({ "query": "@" }))),
        ("prompts/get", json!({ "name": "@-prompt" })),
        ("completion/complete", json!({ "ref": template, "argument": typed })),
    ]
}

async fn answers(client: &mut Client, method: &str, params: &Value) -> (String, String) {
    let mut output = vec![];
    for word in [EXISTING, ABSENT] {
        let mut answer = client.ask(method, with_name(word, params)).await;
        answer["id"] = Value::Null;
        output.push(normalized(&answer.to_string(), word));
    }
    (output.remove(0), output.remove(0))
}

async fn check_isolation(what: &str, client: &mut Client) {
    for (method, params) in requests() {
        let (hers, nobodys) = answers(client, method, &params).await;
        assert_eq!(hers, nobodys, "{what} {method} {params}");
        assert!(!hers.contains(TEXT), "{what} {method} {params}: {hers}");
    }
    let tools = client.tools().await;
    assert!(tools.iter().any(|name| name == "shared_plan"), "{what}: {tools:?}");
    for listing in ["resources/list", "tools/list", "prompts/list", "skills/list"] {
        let output = client.ask(listing, json!({})).await.to_string();
        assert!(!output.contains(EXISTING) && !output.contains(TEXT), "{what} {listing}: {output}");
    }
    let index = client.read("iii://skills").await;
    assert!(!index.contains(EXISTING), "{what}: {index}");
}

async fn check_owner_sees_difference(what: &str, client: &mut Client) {
    for (method, params) in requests() {
        let (hers, nobodys) = answers(client, method, &params).await;
        assert_ne!(hers, nobodys, "{what} {method} {params} shows nothing");
    }
    for listing in ["resources/list", "tools/list", "prompts/list", "skills/list"] {
        let output = client.ask(listing, json!({})).await.to_string();
        assert!(output.contains(EXISTING), "{what} {listing}: {output}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_users_entries_look_absent_over_mcp() {
    let fixture = IsolationFixture::new().await;
    for (who, key) in other_callers(&fixture.bob) {
        check_isolation(&format!("{who}, HTTP"), &mut over_http(&fixture, key).await).await;
        check_isolation(&format!("{who}, stdio"), &mut over_pipe(&fixture, key).await).await;
    }
    check_owner_sees_difference("HTTP", &mut over_http(&fixture, Some(&fixture.ann)).await).await;
    check_owner_sees_difference("stdio", &mut over_pipe(&fixture, Some(&fixture.ann)).await).await;
}
