//! MCP answers are measured as sent, and a session keeps nothing of answered requests.

use std::fs;

use serde_json::{Value, json};
use skills_testkit::{Request, mdp::registration, program, run};

use crate::support::{
    BINARY, TestServer,
    mcp_clients::{Session, Stateless, request, send, stateless_request},
};

const MIB: usize = 1 << 20;
/// Memory of one request, including the server's copy of the file.
const ONE_REQUEST: usize = 96 * MIB;

/// Returns a memory field of the server process in bytes.
fn memory(server: &TestServer, field: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", server.process.pid()));
    let status = status.unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap_or_default() << 10
}

/// Stores a bundle with files of control characters, each of which takes six bytes as JSON.
fn add_control_characters(server: &TestServer) {
    let dir = server.dir().join("control");
    fs::create_dir_all(&dir).unwrap();
    let root = "---\nname: control\ndescription: Is large. Use when asked to.\n---\n# C\n";
    fs::write(dir.join("SKILL.md"), root).unwrap();
    fs::write(dir.join("large.txt"), vec![1; 8 * MIB]).unwrap();
    fs::write(dir.join("small.txt"), vec![1; MIB]).unwrap();
    let added =
        run(program(BINARY).args(["add", dir.to_str().unwrap(), "--url", &server.process.url]));
    assert_eq!(added.code, Some(0), "{added:?}");
}

/// Reads both files through `ask` and checks the memory that the large one took.
async fn check_large_refused_and_small_read(
    server: &TestServer,
    ask: impl AsyncFn(&str, Value) -> Value,
) {
    let _ = fs::write(format!("/proc/{}/clear_refs", server.process.pid()), "5");
    let idle = memory(server, "VmRSS:");
    let answer = ask("resources/read", json!({ "uri": "iii://control/large.txt" })).await;
    assert_eq!(answer["error"]["data"]["code"], "answer_too_large", "{}", answer["error"]);
    assert!(answer["error"]["data"]["hint"].as_str().unwrap().contains("HTTP"));
    let answer = ask("resources/read", json!({ "uri": "iii://control/small.txt" })).await;
    assert_eq!(answer["result"]["contents"][0]["text"].as_str().unwrap().len(), MIB);
    let tool = json!({ "name": "read_skill", "arguments": { "uri": "iii://control/small.txt" } });
    let answer = ask("tools/call", tool).await;
    let text = &answer["result"]["content"][0]["text"];
    assert_eq!(text.as_str().map(str::len), Some(MIB), "{}", answer["error"]);
    let peak = memory(server, "VmHWM:").saturating_sub(idle);
    assert!(peak < ONE_REQUEST, "{} MiB", peak / MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_control_characters_stays_within_one_requests_memory() {
    let server = TestServer::new();
    add_control_characters(&server);
    let http = &server.process.http;
    check_large_refused_and_small_read(&server, async |method, params| {
        send(http, &Stateless::post(&stateless_request(1, method, &params))).await.json()
    })
    .await;
    // Content refused as JSON is available as a plain file.
    let file = send(http, &Request::get("/.well-known/skills/control/large.txt")).await;
    assert_eq!((file.status, file.body.len()), (200, 8 * MIB));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_control_characters_stays_within_the_memory_of_a_session() {
    let server = TestServer::new();
    add_control_characters(&server);
    let session = Session::open(&server.process.http, "2025-06-18").await;
    check_large_refused_and_small_read(&server, async |method, params| {
        send(&server.process.http, &session.post(&request(7, method, &params))).await.json()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_an_id_in_flight_is_refused() {
    let server = TestServer::with_config("mdp:\n  timeouts:\n    answer_ms: 60000\n");
    let http = server.process.http.clone();
    let json_post =
        |target: &str| Request::new("POST", target).header("Content-Type", "application/json");
    // A live client keeps a call waiting until it answers.
    let paths = json!([{ "type": "endpoint", "path": "/sink", "method": "POST" }]);
    let connected = send(&http, &json_post("/mdp/http-loop/connect").body("{}")).await.json();
    let message = json!({ "message": registration("sink", paths) });
    let register = json_post("/mdp/http-loop/send")
        .header("X-Mdp-Session-Id", connected["sessionId"].as_str().unwrap())
        .body(message.to_string());
    assert_eq!(send(&http, &register).await.status, 202);

    let session = Session::open(&http, "2025-06-18").await;
    let arguments = json!({ "clientId": "sink", "method": "POST", "path": "/sink" });
    let params = json!({ "name": "callPath", "arguments": arguments });
    let call = session.post(&request(7, "tools/call", &params));
    let waiting = tokio::spawn(async move { send(&http, &call).await.json() });
    let http = &server.process.http;
    let ping = session.post(&request(7, "ping", &json!({})));
    // The call is in flight once the live client has received it.
    let id = connected["sessionId"].as_str().unwrap();
    let poll = Request::get(&format!("/mdp/http-loop/poll?sessionId={id}&waitMs=3000"));
    let received = loop {
        let polled = send(http, &poll).await;
        if polled.status == 200 && polled.json()["message"]["type"] == "callClient" {
            break polled.json()["message"].clone();
        }
        assert!(!waiting.is_finished(), "the call did not reach the client");
    };
    let refused = send(http, &ping).await.json();
    assert_eq!(refused["error"]["data"]["code"], "duplicate_request_id", "{refused}");
    // The first request gets its own answer, and its id is free afterwards.
    let result = json!({ "type": "callClientResult", "requestId": received["requestId"],
        "ok": true, "data": "done" });
    let done = json_post("/mdp/http-loop/send")
        .header("X-Mdp-Session-Id", id)
        .body(json!({ "message": result }).to_string());
    assert_eq!(send(http, &done).await.status, 202);
    let answer = waiting.await.unwrap();
    assert_eq!((&answer["id"], answer["result"].is_object()), (&json!(7), true), "{answer}");
    let answer = send(http, &ping).await.json();
    assert!(answer["result"].is_object(), "{answer}");
}
