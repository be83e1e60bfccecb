//! Over MCP, with HTTP and with pipes.

use serde_json::{Value, json};

use super::{HERS, NOBODYS, TEXT, Town, of, same, strangers};
use crate::clients::{Client, Pipe, Session};

const VERSION: &str = "2025-11-25";

async fn over_http(town: &Town, key: Option<&str>) -> Client {
    Client::Session(Session::open_as(&town.site.server.http, VERSION, key).await)
}

async fn over_pipe(town: &Town, key: Option<&str>) -> Client {
    let mut arguments = vec!["--url", &town.site.server.url];
    arguments.extend(key.into_iter().flat_map(|key| ["--key", key]));
    Client::Pipe(Pipe::session(&arguments, VERSION).await)
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
    let mut said = vec![];
    for word in [HERS, NOBODYS] {
        let mut answer = client.ask(method, of(word, params)).await;
        answer["id"] = Value::Null;
        said.push(same(&answer.to_string(), word));
    }
    (said.remove(0), said.remove(0))
}

async fn is_apart(what: &str, client: &mut Client) {
    for (method, params) in requests() {
        let (hers, nobodys) = answers(client, method, &params).await;
        assert_eq!(hers, nobodys, "{what} {method} {params}");
        assert!(!hers.contains(TEXT), "{what} {method} {params}: {hers}");
    }
    let tools = client.tools().await;
    assert!(tools.iter().any(|name| name == "shared_plan"), "{what}: {tools:?}");
    for listing in ["resources/list", "tools/list", "prompts/list", "skills/list"] {
        let said = client.ask(listing, json!({})).await.to_string();
        assert!(!said.contains(HERS) && !said.contains(TEXT), "{what} {listing}: {said}");
    }
    let index = client.read("iii://skills").await;
    assert!(!index.contains(HERS), "{what}: {index}");
}

async fn is_hers(what: &str, client: &mut Client) {
    for (method, params) in requests() {
        let (hers, nobodys) = answers(client, method, &params).await;
        assert_ne!(hers, nobodys, "{what} {method} {params} shows nothing");
    }
    for listing in ["resources/list", "tools/list", "prompts/list", "skills/list"] {
        let said = client.ask(listing, json!({})).await.to_string();
        assert!(said.contains(HERS), "{what} {listing}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_elses_is_like_nobodys() {
    let town = Town::new().await;
    for (who, key) in strangers(&town.bob) {
        is_apart(&format!("{who}, HTTP"), &mut over_http(&town, key).await).await;
        is_apart(&format!("{who}, stdio"), &mut over_pipe(&town, key).await).await;
    }
    is_hers("HTTP", &mut over_http(&town, Some(&town.ann)).await).await;
    is_hers("stdio", &mut over_pipe(&town, Some(&town.ann)).await).await;
}
