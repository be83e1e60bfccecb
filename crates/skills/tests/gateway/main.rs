//! The gateway as its users meet it: the program itself, over sockets, with a server behind the tools.
//!
//! - `house`: a data directory with content and people in it, and the program that serves it
//! - `upstream`: the server that tools call

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../mcp/clients/mod.rs"]
#[allow(dead_code, unused_imports, reason = "borrowed from the tests of MCP")]
mod clients;
mod damaged;
mod errors;
mod execute;
mod house;
mod limits;
mod secrets;
#[path = "../support/mod.rs"]
mod support;
mod told;
mod tools;
mod upstream;
