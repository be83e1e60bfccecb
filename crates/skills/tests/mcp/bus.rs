//! `skills mcp` at the other end of a bus that comes late, goes and comes back.

use std::path::Path;

use serde_json::json;
use skills_testkit::{Server, Worker, program};

use crate::{
    clients::{Client, Pipe, eventually},
    free_address,
    support::{BINARY, register},
};

/// A server at a given address.
fn serve(bus: &str, data_dir: &Path) -> Server {
    let mut command = program(BINARY);
    command.args(["serve", "--bus", bus, "--http", "127.0.0.1:0", "--data-dir"]).arg(data_dir);
    Server::spawn(&mut command)
}

/// Puts a skill into a directory that no server uses.
async fn store(data_dir: &Path, id: &str) {
    let server = serve("127.0.0.1:0", data_dir);
    register(&Worker::connect(&server.url).await, id, "# X\n").await;
    let (code, _, said) = server.stop();
    assert_eq!(code, Some(0), "{said}");
}

fn is_list_changed(message: &serde_json::Value) -> bool {
    message["method"] == "notifications/resources/list_changed"
}

/// Waits for the news after which a skill is listed.
async fn hears_of(pipe: &mut Pipe, uri: &str) {
    loop {
        let heard = pipe.message().await;
        if !is_list_changed(&heard) {
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
async fn the_server_may_come_later() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), "a").await;
    let address = free_address().to_string();
    let url = format!("ws://{address}");
    // It greets without a bus.
    let mut pipe = Pipe::session(&["--url", &url], "2025-06-18").await;
    assert_eq!(pipe.ask("ping", &json!({})).await["result"], json!({}));
    let _server = serve(&address, dir.path());
    hears_of(&mut pipe, "iii://a").await;
    let mut client = Client::Pipe(pipe);
    assert_eq!(client.read("iii://a").await, "# X\n");
}

#[tokio::test]
async fn what_happened_without_a_connection_is_told_when_there_is_one() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path(), "a").await;
    let address = free_address().to_string();
    let server = serve(&address, dir.path());
    let mut pipe = Pipe::session(&["--url", &server.url], "2025-06-18").await;
    let list = pipe.ask("resources/list", &json!({})).await;
    assert_eq!(list["result"]["resources"].as_array().unwrap().len(), 2);
    let (code, _, said) = server.stop();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(pipe.ask("ping", &json!({})).await["result"], json!({}), "it stays meanwhile");
    store(dir.path(), "b").await;
    let server = serve(&address, dir.path());
    hears_of(&mut pipe, "iii://b").await;
    // It hears of what happens from then on as before.
    let worker = Worker::connect(&server.url).await;
    register(&worker, "c", "# X\n").await;
    hears_of(&mut pipe, "iii://c").await;
}

#[tokio::test]
async fn a_bus_that_asks_for_a_token_gets_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Server::command(BINARY, &dir.path().join("data"));
    let server = Server::spawn(command.args(["--token", "s3cret"]));
    let mut command = Pipe::command(&["--url", &server.url]);
    command.env("III_TOKEN", "s3cret");
    let mut pipe = Pipe::spawn(command);
    pipe.begin("2025-06-18").await;
    let mut client = Client::Pipe(pipe);
    eventually("the token is the right one", async || {
        client.ask("resources/list", json!({})).await["error"].is_null()
    })
    .await;
}
