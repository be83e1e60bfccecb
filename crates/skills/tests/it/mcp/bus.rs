//! `skills mcp --url` on a bus that starts late or restarts.

use std::path::Path;

use serde_json::json;
use skills_testkit::{ServerProcess, Worker};

use crate::support::{
    BINARY, free_address,
    mcp_clients::{Client, Pipe},
    register, serve_at,
    wait::eventually,
};

/// Stores a skill in a directory that no server uses.
async fn store(data_dir: &Path, id: &str) {
    let server = serve_at("127.0.0.1:0", data_dir);
    register(&Worker::connect(&server.url).await, id, "# X\n").await;
    let (code, _, output) = server.stop();
    assert_eq!(code, Some(0), "{output}");
}

fn is_list_changed(message: &serde_json::Value) -> bool {
    message["method"] == "notifications/resources/list_changed"
}

/// Waits for a notification after which a skill is listed.
async fn wait_for_notification_of(pipe: &mut Pipe, uri: &str) {
    loop {
        let received = pipe.message().await;
        if !is_list_changed(&received) {
            continue;
        }
        let list = pipe.ask("resources/list", &json!({})).await;
        let rows = list["result"]["resources"].as_array();
        if rows.is_some_and(|rows| rows.iter().any(|row| row["uri"] == uri)) {
            return;
        }
    }
}

#[tokio::test]
async fn the_bus_may_start_later() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), "a").await;
    let address = free_address().to_string();
    let url = format!("ws://{address}");
    // `initialize` works without a bus.
    let mut pipe = Pipe::session(&["--url", &url], "2025-06-18").await;
    assert_eq!(pipe.ask("ping", &json!({})).await["result"], json!({}));
    let _server = serve_at(&address, dir.path());
    wait_for_notification_of(&mut pipe, "iii://a").await;
    let mut client = Client::Pipe(pipe);
    assert_eq!(client.read("iii://a").await, "# X\n");
}

#[tokio::test]
async fn changes_during_a_disconnect_notify_after_reconnecting() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), "a").await;
    let address = free_address().to_string();
    let server = serve_at(&address, dir.path());
    let mut pipe = Pipe::session(&["--url", &server.url], "2025-06-18").await;
    let list = pipe.ask("resources/list", &json!({})).await;
    assert_eq!(list["result"]["resources"].as_array().unwrap().len(), 2);
    let (code, _, output) = server.stop();
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(pipe.ask("ping", &json!({})).await["result"], json!({}), "it stays meanwhile");
    store(dir.path(), "b").await;
    let server = serve_at(&address, dir.path());
    wait_for_notification_of(&mut pipe, "iii://b").await;
    // Later changes notify as before.
    let worker = Worker::connect(&server.url).await;
    register(&worker, "c", "# X\n").await;
    wait_for_notification_of(&mut pipe, "iii://c").await;
}

#[tokio::test]
async fn the_bus_token_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
    let server = ServerProcess::spawn(command.args(["--token", "s3cret-of-16-bytes"]));
    let mut command = Pipe::command(&["--url", &server.url]);
    command.env("III_TOKEN", "s3cret-of-16-bytes");
    let mut pipe = Pipe::spawn(command);
    pipe.begin("2025-06-18").await;
    let mut client = Client::Pipe(pipe);
    eventually("the token is the right one", async || {
        client.ask("resources/list", json!({})).await["error"].is_null()
    })
    .await;
}
