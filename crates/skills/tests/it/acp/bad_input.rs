//! Invalid input gets an error and affects nothing else.

use serde_json::{Value, json};

use crate::support::{TestServer, acp_client::Client, register};

async fn error(client: &mut Client, line: &str) -> Value {
    client.send_line(line).await;
    client.message().await
}

#[tokio::test]
async fn invalid_lines_get_a_parse_error() {
    let server = TestServer::new();
    register(&server.worker().await, "a", "# A\n\nText.\n").await;
    let (mut client, session) = Client::session(&server).await;
    client.command("a").await;
    for (line, code) in [
        ("not JSON", -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,", -32700),
        ("\u{0}", -32700),
        ("[]", -32600),
        ("17", -32600),
        ("{\"id\":1}", -32600),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}]", -32600),
    ] {
        let answer = error(&mut client, line).await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&Value::Null, &json!(code)),
            "{line}"
        );
        assert!(answer.to_string().len() < 500, "{answer}");
    }
    client.send_line("").await;
    client.notify("no/such", json!({})).await;
    assert_eq!(client.fails("no/such", json!({})).await, -32601);
    assert_eq!(client.fails("session/prompt", json!({ "prompt": [] })).await, -32602);
    assert_eq!(client.fails("session/load", json!({ "sessionId": session })).await, -32601);
    assert_eq!(client.turn(&session, "/a").await, "# A\n\nText.\n");
    assert!(client.end().await.1);
}

#[tokio::test]
async fn requests_before_initialize_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let place = ["--data-dir", dir.path().to_str().unwrap()];
    let mut client = Client::spawn(&place);
    let new = json!({ "cwd": "/", "mcpServers": [] });
    assert_eq!(client.fails("session/new", new).await, -32600);
    // Any version is answered with the supported one.
    for version in [0, 1, 2, 65_535] {
        let params = json!({ "protocolVersion": version });
        let greeting = client.ok("initialize", params).await;
        assert_eq!(greeting["protocolVersion"], 1, "{version}");
        assert_eq!(greeting["agentInfo"]["name"], "skills", "{version}");
        let ours = &greeting["agentCapabilities"]["_meta"]["agentskills.io"];
        assert_eq!(ours["availableSkillsUpdate"], true, "{version}");
    }
    client.open().await;
}

#[tokio::test]
async fn oversized_messages_are_refused() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "a", "# A\n\nText.\n").await;
    let (mut client, session) = Client::session(&server).await;
    client.command("a").await;
    let long = "x".repeat(2 << 20);
    assert!(client.turn(&session, &long).await.contains("`/a`"));
    assert!(client.turn(&session, &format!("/{long}")).await.len() < 300);
    assert!(client.turn(&session, &format!("/a {long}")).await.contains("longer than 1024 KiB"));
    // Longer than the message limit.
    let answer = error(&mut client, &format!("{{\"x\":\"{}\"}}", "x".repeat(17 << 20))).await;
    assert_eq!(answer["error"]["code"], -32600);
    assert_eq!(client.turn(&session, "/a").await, "# A\n\nText.\n");
}

#[tokio::test]
async fn a_silent_client_and_a_closed_pipe_end_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let place = ["--data-dir", dir.path().to_str().unwrap()];
    assert_eq!(Client::spawn(&place).end().await, (vec![], true));
    let mut client = Client::initialized(&place, json!({})).await;
    client.open().await;
    assert!(client.end().await.1);
}
