//! The Model Drive Protocol on the port of the real binary: live clients behind the guard, beside all else that is
//! served there.
//!
//! - `live`: skills of clients and of the registry, read over HTTP
//! - `access`: tokens, cookies and origins
//! - `faults`: clients that do not answer, answer for others, are replaced, are killed; and the end

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod access;
mod faults;
mod live;
#[path = "../support/mod.rs"]
mod support;

use serde_json::{Value, json};
use skills_testkit::{
    Answer, Request,
    mdp::{Client, skill},
};
use support::Home;
use tokio::task::{JoinHandle, spawn_blocking};

/// What clients connect to.
fn ws(home: &Home) -> String {
    home.server.http.replace("http://", "ws://")
}

/// One skill.
fn paths() -> Value {
    json!([skill("/a/skill.md")])
}

/// A client with paths that is registered when this returns.
async fn client(home: &Home, id: &str, paths: Value) -> Client {
    Client::registered(&ws(home), id, paths).await
}

/// Starts a request.
fn ask(home: &Home, request: Request) -> JoinHandle<Answer> {
    let address = home.server.http.clone();
    spawn_blocking(move || request.send(&address))
}

async fn get(home: &Home, target: &str) -> Answer {
    ask(home, Request::get(target)).await.unwrap()
}

async fn post(home: &Home, target: &str, body: impl Into<Vec<u8>>) -> Answer {
    ask(home, Request::new("POST", target).body(body)).await.unwrap()
}

fn text(answer: &Answer) -> &str {
    std::str::from_utf8(&answer.body).unwrap()
}
