//! MCP over standard input and output, with and without sessions.

use serde_json::json;
use skills_testkit::{ServerProcess, Worker};

use crate::support::{
    BINARY, TestServer,
    mcp_clients::{Client, Pipe, SESSIONS, STATELESS, initialize, request, stateless_request},
    register,
};

/// Creates a data directory with one skill that no server uses.
async fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(BINARY, dir.path());
    register(&Worker::connect(&server.url).await, "brain", "# Brain\n\nThinks.\n").await;
    let (code, _, said) = server.stop();
    assert_eq!(code, Some(0), "{said}");
    dir
}

async fn check_every_revision(place: &[&str]) {
    for version in SESSIONS {
        let mut client = Client::Pipe(Pipe::session(place, version).await);
        assert_eq!(client.ok("ping", json!({})).await, json!({}), "{version}");
        let list = client.ok("resources/list", json!({})).await;
        assert_eq!(list["resources"][1]["uri"], "iii://brain", "{version}");
        assert!(list["ttlMs"].is_null() && list["resultType"].is_null(), "{version}");
        assert_eq!(client.read("iii://brain").await, "# Brain\n\nThinks.\n");
        let refused = client.fails("resources/read", json!({ "uri": "iii://nobody" })).await;
        assert_eq!(refused.code, -32002, "{version}");
        assert_eq!(client.fails("no/such", json!({})).await.code, -32601);
        assert_eq!(client.fails("resources/read", json!({})).await.code, -32602);
    }
    let mut client = Client::Pipe(Pipe::stateless(place));
    let found = client.ok("server/discover", json!({})).await;
    assert!(found["supportedVersions"].as_array().unwrap().contains(&json!(STATELESS)));
    let list = client.ok("resources/list", json!({})).await;
    assert_eq!(list["resources"][1]["uri"], "iii://brain");
    assert_eq!(list["resultType"], "complete");
    assert!(list["ttlMs"].is_u64() && list["cacheScope"].is_string(), "{list}");
    assert_eq!(client.read("iii://brain").await, "# Brain\n\nThinks.\n");
    let refused = client.fails("resources/read", json!({ "uri": "iii://nobody" })).await;
    assert_eq!(refused.code, -32602);
    for method in ["ping", "resources/subscribe", "logging/setLevel", "no/such"] {
        let refused = client.fails(method, json!({ "uri": "iii://a", "level": "error" })).await;
        assert_eq!(refused.code, -32601, "{method}");
    }
}

#[tokio::test]
async fn mcp_over_stdio_serves_a_registry_on_a_bus() {
    let server = TestServer::new();
    register(&server.worker().await, "brain", "# Brain\n\nThinks.\n").await;
    check_every_revision(&["--url", &server.process.url]).await;
}

#[tokio::test]
async fn mcp_over_stdio_serves_a_data_directory() {
    let dir = directory().await;
    check_every_revision(&["--data-dir", dir.path().to_str().unwrap()]).await;
}

#[tokio::test]
async fn versions_are_negotiated_over_stdio() {
    let dir = directory().await;
    let place = ["--data-dir", dir.path().to_str().unwrap()];
    let mut pipe = Pipe::spawn(Pipe::command(&place));
    pipe.send(&initialize("1999-01-01")).await;
    assert_eq!(pipe.message().await["result"]["protocolVersion"], "2025-11-25");
    drop(pipe);
    let mut pipe = Pipe::stateless(&place);
    let mut other = stateless_request(1, "resources/list", &json!({}));
    other["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("1999-01-01");
    pipe.send(&stateless_request(0, "server/discover", &json!({}))).await;
    pipe.answer(0).await;
    pipe.send(&other).await;
    assert_eq!(pipe.answer(1).await["error"]["code"], -32022);
    pipe.send(&request(2, "resources/list", &json!({}))).await;
    assert_eq!(pipe.answer(2).await["error"]["code"], -32602);
}

#[tokio::test]
async fn closing_stdin_still_answers_pending_requests() {
    let server = TestServer::new();
    register(&server.worker().await, "brain", "# Brain\n").await;
    let mut pipe = Pipe::session(&["--url", &server.process.url], "2025-06-18").await;
    for id in 1..=20 {
        pipe.send(&request(id, "resources/read", &json!({ "uri": "iii://brain" }))).await;
    }
    pipe.hang_up();
    let (code, said) = pipe.ended().await;
    assert_eq!(code, Some(0));
    let mut ids: Vec<_> = said.iter().filter_map(|answer| answer["id"].as_i64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=20).collect::<Vec<_>>());
}

/// Opens a client whose stream 7 has sent a notification.
async fn listening(server: &TestServer) -> Pipe {
    let mut pipe = Pipe::stateless(&["--url", &server.process.url]);
    let filter = json!({ "notifications": { "promptsListChanged": true } });
    pipe.send(&stateless_request(7, "subscriptions/listen", &filter)).await;
    assert_eq!(pipe.message().await["method"], "notifications/subscriptions/acknowledged");
    let prompt = json!({ "name": "p", "description": "d", "function_id": "a::b" });
    server.worker().await.ok("prompts::register", prompt).await;
    assert_eq!(pipe.message().await["method"], "notifications/prompts/list_changed");
    pipe
}

#[tokio::test]
async fn closing_stdin_while_listening_ends_the_process() {
    let server = TestServer::new();
    let mut pipe = listening(&server).await;
    pipe.hang_up();
    let (code, said) = pipe.ended().await;
    assert_eq!(code, Some(0));
    let last = said.last().unwrap();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(7), &json!("complete")));
}

#[tokio::test]
async fn a_signal_ends_the_process_cleanly() {
    let server = TestServer::new();
    let pipe = listening(&server).await;
    let pid = pipe.pid().to_string();
    let killed = std::process::Command::new("kill").args(["-s", "TERM", &pid]).status();
    assert!(killed.unwrap().success());
    let (code, said) = pipe.ended().await;
    assert_eq!(code, Some(0));
    let last = said.last().expect("the stream has a result");
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(7), &json!("complete")));
}

#[tokio::test]
async fn errors_are_not_printed_on_standard_output() {
    if skills_testkit::needs_embedded_store("damages the file") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    // The store is unusable, and standard input stays open.
    std::fs::write(dir.path().join("skills.db"), "no database").unwrap();
    let mut command = Pipe::command(&["--data-dir", dir.path().to_str().unwrap()]);
    command.stderr(std::fs::File::create(&log).unwrap());
    let (code, said) = Pipe::spawn(command).ended().await;
    assert_eq!((code, said), (Some(1), vec![]));
    let complaint = std::fs::read_to_string(log).unwrap();
    assert!(complaint.starts_with("error: "), "{complaint}");
}
