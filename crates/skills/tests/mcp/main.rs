//! MCP of the real binary: over sockets and over pipes, on both generations of the protocol.
//!
//! - `clients`: clients by hand, raw JSON-RPC over HTTP and over pipes
//! - `sessions`, `stateless`, `stdio`: the two generations and the two transports
//! - `resources`, `pages`, `extension`, `prompts`, `completion`, `tools`, `worker_tools`: what is served
//! - `live`, `listen`, `bursts`: telling of changes
//! - `bus`, `other_make`, `engine_mode`: where the registry is; `attached` and `engine` are borrowed
//! - `security`, `bad_input`, `pressure`: those who mean harm, or know no better

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "borrowed from the tests of attached mode")]
#[path = "../attach/attached.rs"]
mod attached;
mod bad_input;
mod bursts;
mod bus;
mod clients;
mod completion;
#[allow(dead_code, reason = "borrowed from the tests of attached mode")]
#[path = "../attach/engine.rs"]
mod engine;
mod engine_mode;
mod extension;
mod listen;
mod live;
mod other_make;
mod pages;
mod pressure;
mod prompts;
mod resources;
mod security;
mod sessions;
mod stateless;
mod stdio;
#[path = "../support/mod.rs"]
mod support;
mod tools;
mod worker_tools;

use std::{
    net::{SocketAddr, TcpListener},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use serde_json::Value;
use skills_testkit::Worker;

/// How soon a client must hear of a change. It is a few milliseconds; machines that test are busy.
const SOON: Duration = Duration::from_secs(1);

/// Calls a function many times at once and waits for all answers.
async fn many(worker: &Worker, function_id: &str, inputs: impl Iterator<Item = Value>) {
    let calls: Vec<_> = inputs.map(|input| worker.start(function_id, &input)).collect();
    for call in calls {
        call.await.unwrap();
    }
}

/// An address that nobody listens at, and that nobody gets who asks for any: what is below the range that
/// the system gives from stays free until it is used.
fn free_address() -> SocketAddr {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 10_000).unwrap();
    let mut ports = (0..10_000).map(|_| {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        20_000 + (start + tried) % 10_000
    });
    let is_free = |port: u16| {
        let listener = TcpListener::bind(("127.0.0.1", port)).ok()?;
        Some(listener.local_addr().unwrap())
    };
    ports.find_map(is_free).unwrap()
}
