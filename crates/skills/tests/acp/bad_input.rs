//! What no client should send: it gets an error and harms nothing else.

use serde_json::{Value, json};

use crate::{
    client::Client,
    support::{Home, register},
};

async fn error(client: &mut Client, line: &str) -> Value {
    client.send_line(line).await;
    client.message().await
}

#[tokio::test]
async fn lines_that_are_no_messages() {
    let home = Home::new();
    register(&home.worker().await, "a", "# A\n\nText.\n").await;
    let (mut client, session) = Client::session(&home).await;
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
async fn who_has_not_greeted_gets_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let place = ["--data-dir", dir.path().to_str().unwrap()];
    let mut client = Client::silent(&place);
    let new = json!({ "cwd": "/", "mcpServers": [] });
    assert_eq!(client.fails("session/new", new).await, -32600);
    // Any version is answered with the one that is spoken.
    for version in [0, 1, 2, 65_535] {
        let params = json!({ "protocolVersion": version });
        let greeting = client.ok("initialize", params).await;
        assert_eq!(greeting["protocolVersion"], 1);
        assert_eq!(greeting["agentInfo"]["name"], "skills");
        let ours = &greeting["agentCapabilities"]["_meta"]["agentskills.io"];
        assert_eq!(ours["availableSkillsUpdate"], true);
    }
    client.open().await;
}

#[tokio::test]
async fn messages_of_many_megabytes() {
    let home = Home::new();
    let worker = home.worker().await;
    register(&worker, "a", "# A\n\nText.\n").await;
    let (mut client, session) = Client::session(&home).await;
    client.command("a").await;
    let long = "x".repeat(2 << 20);
    assert!(client.turn(&session, &long).await.contains("`/a`"));
    assert!(client.turn(&session, &format!("/{long}")).await.len() < 300);
    assert!(client.turn(&session, &format!("/a {long}")).await.contains("longer than 1024 KiB"));
    // Longer than any message may be.
    let answer = error(&mut client, &format!("{{\"x\":\"{}\"}}", "x".repeat(17 << 20))).await;
    assert_eq!(answer["error"]["code"], -32600);
    assert_eq!(client.turn(&session, "/a").await, "# A\n\nText.\n");
}

#[tokio::test]
async fn somebody_who_says_nothing_or_goes_away() {
    let dir = tempfile::tempdir().unwrap();
    let place = ["--data-dir", dir.path().to_str().unwrap()];
    assert_eq!(Client::silent(&place).end().await, (vec![], true));
    let mut client = Client::greeted(&place, json!({})).await;
    client.open().await;
    assert!(client.end().await.1);
}
