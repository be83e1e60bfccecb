//! Request ids and access lines of the running server.

use serde_json::{Value, json};
use skills_testkit::{Request, ServerProcess};

use crate::support::{
    BINARY, TestServer,
    mcp_clients::{Listener, Stateless, send, session, stateless_request},
    register,
};

fn access_lines(log: &str, surface: &str) -> Vec<Value> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_access =
        |line: &Value| line["target"] == "access" && line["fields"]["surface"] == surface;
    lines.filter(is_access).collect()
}

fn server_with_log(filter: &str) -> TestServer {
    let dir = tempfile::tempdir().unwrap();
    let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
    command.args(["--log-format", "json"]).env("RUST_LOG", filter);
    TestServer::from_parts(ServerProcess::spawn(&mut command), dir)
}

#[test]
fn every_request_gets_one_json_access_line_at_level_info() {
    let server = server_with_log("info");
    let http = &server.process.http;
    let credential = "Bearer hidden-credential";
    for (path, id) in [("/v1/skills/none?token=hidden", "e2e-1"), ("/nowhere/hidden", "e2e-2")] {
        let request = Request::get(path).header("X-Request-Id", id);
        let answer = request.header("Authorization", credential).send(http);
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.header("X-Request-Id").as_deref(), Some(id), "{path}");
    }
    for (path, pointer) in
        [("/v1/skills/none", "/request_id"), ("/.well-known/skills/none/a.md", "/error/request_id")]
    {
        let body = Request::get(path).header("X-Request-Id", "e2e-3").send(http).json();
        assert_eq!(body.pointer(pointer), Some(&Value::from("e2e-3")), "{body}");
    }
    server.process.stderr.wait_for("e2e-2");
    let log = server.process.stderr.contents();
    for (id, route) in [("e2e-1", "/v1/skills/{id}"), ("e2e-2", "*")] {
        let lines = access_lines(&log, "http");
        let lines: Vec<&Value> = lines.iter().filter(|line| line["fields"]["id"] == id).collect();
        assert_eq!(lines.len(), 1, "{log}");
        let fields = &lines[0]["fields"];
        assert_eq!(fields["method"], "GET", "{id:?}");
        assert_eq!(fields["route"], route, "{id:?}");
        assert_eq!(fields["status"], 404, "{id:?}");
        assert_eq!(fields["code"], "not_found", "{fields}");
        assert_eq!(fields["caller"], "anonymous", "{id:?}");
        assert!(fields["duration_ms"].is_number(), "{fields}");
    }
    assert!(!log.contains("hidden"), "{log}");
}

#[tokio::test]
async fn every_mcp_request_gets_one_line_of_its_own_at_level_debug() {
    let server = server_with_log("info,access=debug");
    // A read of the fast path, one that fails, and one that rmcp handles.
    for (id, method, params, code) in [
        ("mcp-1", "resources/read", json!({ "uri": "iii://skills" }), "ok"),
        ("mcp-2", "resources/read", json!({ "uri": "iii://nothing" }), "not_found"),
        ("mcp-3", "tools/list", json!({}), "ok"),
    ] {
        let request = Stateless::post(&stateless_request(1, method, &params));
        send(&server.process.http, &request.header("X-Request-Id", id)).await;
        // The line of the HTTP request has the same id and may come first.
        server.process.stderr.wait_for(&format!("\"id\":\"{id}\",\"surface\":\"mcp\""));
        let lines = access_lines(&server.process.stderr.contents(), "mcp");
        let lines: Vec<&Value> = lines.iter().filter(|line| line["fields"]["id"] == id).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let fields = &lines[0]["fields"];
        assert_eq!((&fields["method"], &fields["code"]), (&json!(method), &json!(code)), "{id:?}");
        assert_eq!(fields["caller"], "anonymous", "{id:?}");
        assert!(fields["duration_ms"].is_number(), "{fields}");
    }
}

#[test]
fn no_access_lines_are_written_at_the_default_level() {
    let server = TestServer::new();
    let answer = Request::get("/healthz").send(&server.process.http);
    assert!(answer.header("X-Request-Id").is_some_and(|id| !id.is_empty()));
    assert!(!server.process.stderr.contents().contains("access"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mcp_pings_and_listen_streams_have_access_lines() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
    command.args(["--log-format", "json"]).env("RUST_LOG", "access=debug");
    let server = TestServer::from_parts(ServerProcess::spawn(&mut command), dir);
    session(&server).await.ok("ping", json!({})).await;
    let mut listener = Listener::stream(&server, &[]).await;
    // The acknowledgement comes before the request runs; a notification proves that it does.
    register(&server.worker().await, "a", "# A\n").await;
    listener.next().await;
    drop(listener);
    for method in ["ping", "subscriptions/listen"] {
        let line = format!("\"surface\":\"mcp\",\"method\":\"{method}\"");
        server.process.stderr.wait_for(&line);
    }
}
