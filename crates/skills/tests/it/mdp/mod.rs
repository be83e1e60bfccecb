//! The Model Drive Protocol on the HTTP port of the real binary.
//!
//! - `reading`: live and stored skills, read over HTTP
//! - `access`: tokens, cookies and origins
//! - `faults`: clients that do not answer, answer for others, are replaced or killed; shutdown

mod access;
mod faults;
mod reading;

use serde_json::{Value, json};
use skills_testkit::{
    Request, Response,
    mdp::{Client, skill},
};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::support::TestServer;

/// WebSocket address for clients.
fn ws(server: &TestServer) -> String {
    server.process.http.replace("http://", "ws://")
}

/// Descriptors of one skill.
fn paths() -> Value {
    json!([skill("/a/skill.md")])
}

/// Connects and registers a client with paths.
async fn client(server: &TestServer, id: &str, paths: Value) -> Client {
    Client::connect_registered(&ws(server), id, paths).await
}

/// Starts a request.
fn ask(server: &TestServer, request: Request) -> JoinHandle<Response> {
    let address = server.process.http.clone();
    spawn_blocking(move || request.send(&address))
}

pub(crate) async fn get(server: &TestServer, target: &str) -> Response {
    ask(server, Request::get(target)).await.unwrap()
}

async fn post(server: &TestServer, target: &str, body: impl Into<Vec<u8>>) -> Response {
    ask(server, Request::new("POST", target).body(body)).await.unwrap()
}

pub(crate) fn text(answer: &Response) -> &str {
    std::str::from_utf8(&answer.body).unwrap()
}
