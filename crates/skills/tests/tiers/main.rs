//! Three tiers over real sockets: what shadows what, and who sees, reads, resolves and hears of what.
//!
//! - `site`: a server that knows the keys of two users
//! - `bus`, `mcp`, `discovery`, `commands`: each of the surfaces

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bus;
#[allow(dead_code, unused_imports, reason = "borrowed from the tests of MCP")]
#[path = "../mcp/clients/mod.rs"]
mod clients;
mod commands;
mod discovery;
mod mcp;
mod site;
#[path = "../support/mod.rs"]
mod support;
