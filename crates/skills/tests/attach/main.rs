//! Attached mode: the real binary as a worker of an engine.
//!
//! No engine can be installed, so the tests play one with this project's own hub and its `state::*`
//! functions, without the contract. Between the two a proxy can make the network as bad as it gets.
//!
//! - `engine`, `proxy`, `attached`: the engine, the network, and the process under test
//! - `contract`, `records`, `foreign`, `instances`, `import`, `live`: content; `gateway`: the same for people with keys
//! - `lifecycle`, `stopping`, `settings`, `refusals`, `handshake`: the process
//! - `faults`, `restarts`, `late`, `size`, `state_worker`, `unlisted`: under bad conditions

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it has measured"
)]

mod attached;
mod contract;
mod engine;
mod faults;
mod foreign;
mod gateway;
mod handshake;
mod import;
mod instances;
mod late;
mod lifecycle;
mod live;
mod proxy;
mod records;
mod refusals;
mod restarts;
mod settings;
mod size;
mod state_worker;
mod stopping;
#[path = "../support/mod.rs"]
mod support;
mod unlisted;
#[allow(dead_code, reason = "borrowed from the tests of the gateway")]
#[path = "../gateway/upstream.rs"]
mod upstream;
