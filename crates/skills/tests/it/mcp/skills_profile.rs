//! The profile `skills`: files of skills as resources, for clients without the extension.

use serde_json::{Value, json};
use skills_core::Digest;
use skills_testkit::Request;

use crate::support::{
    TestServer,
    mcp_clients::{Client, Pipe, send, stateless_request},
    register,
};

/// Sends a request of the newest revision to `/mcp/skills`.
async fn ask(server: &TestServer, method: &str, params: &Value) -> Value {
    let mut request = Request::new("POST", "/mcp/skills")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", method);
    if let Some(uri) = params["uri"].as_str() {
        request = request.header("Mcp-Name", uri);
    }
    let request = request.body(stateless_request(1, method, params).to_string());
    let mut answer = send(&server.process.http, &request).await.json();
    assert!(answer["error"].is_null(), "{method}: {answer}");
    answer["result"].take()
}

fn uris(listed: &Value) -> Vec<&str> {
    let resources = listed["resources"].as_array().unwrap();
    resources.iter().map(|row| row["uri"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_skill_has_a_document_and_a_manifest() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let root = "---\nname: pdf\ndescription: Reads PDF.\n---\n# PDF\n";
    let files = json!({ "scripts/run.py": "print()" });
    worker.ok("skills::register", json!({ "id": "pdf", "skill": root, "files": files })).await;
    register(&worker, "a_b", "# A\n\nText.\n").await;
    let listed = ask(&server, "resources/list", &json!({})).await;
    let expected = [
        "skill://a_b/a-b/SKILL.md",
        "skill://a_b/a-b/_manifest",
        "skill://pdf/SKILL.md",
        "skill://pdf/_manifest",
    ];
    assert_eq!(uris(&listed), expected);
    assert_eq!(listed["resources"][2]["description"], "Reads PDF.");

    let arguments = ["--url", &server.process.url, "--profile", "skills"];
    let mut stdio = Client::Pipe(Pipe::session(&arguments, "2025-11-25").await);
    assert_eq!(uris(&stdio.ok("resources/list", json!({})).await), expected);
    for folder in ["a_b/a-b", "pdf"] {
        let manifest = stdio.read(&format!("skill://{folder}/_manifest")).await;
        let manifest: Value = serde_json::from_str(&manifest).unwrap();
        assert_eq!(manifest["skill"], folder, "{folder:?}");
        for file in manifest["files"].as_array().unwrap() {
            let uri = format!("skill://{folder}/{}", file["path"].as_str().unwrap());
            let text = stdio.read(&uri).await;
            assert_eq!(file["size"], text.len(), "{uri}");
            let hash = format!("sha256:{}", Digest::of(text.as_bytes()));
            assert_eq!(file["hash"], hash, "{uri}");
        }
    }
    assert_eq!(stdio.read("skill://pdf/SKILL.md").await, root);
}

#[tokio::test]
async fn a_stored_file_called_manifest_is_served_as_it_is() {
    let server = TestServer::new();
    let files = json!({ "_manifest": "mine" });
    let bundle = json!({ "id": "odd", "skill": "# Odd\n", "files": files });
    server.worker().await.ok("skills::register", bundle).await;
    let params = json!({ "uri": "skill://odd/_manifest" });
    let read = ask(&server, "resources/read", &params).await;
    assert_eq!(read["contents"][0]["text"], "mine");
}

#[tokio::test]
async fn every_skill_is_on_one_page() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let skill = |number: usize| json!({ "id": format!("s{number:03}"), "skill": "# S\n\nText.\n" });
    super::many(&worker, "skills::register", (0..120).map(skill)).await;
    let (mut seen, mut params) = (0, json!({}));
    loop {
        let page = ask(&server, "resources/list", &params).await;
        let listed = uris(&page).len();
        assert!(listed <= 100, "{listed}");
        seen += listed;
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        params["cursor"] = json!(cursor);
    }
    assert_eq!(seen, 240);
}
