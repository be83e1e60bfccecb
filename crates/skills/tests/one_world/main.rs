//! What live clients expose, on every surface of the real binary, beside what is stored.
//!
//! - `desk`: a live client with one of everything
//! - `registry`: lists, reading, rendering, over the bus and on the command line
//! - `tools`: the four tools about clients and paths, on all kinds of MCP clients
//! - `stored_only`: where only what is stored is shown
//! - `content`: resources, prompts and the skills extension of MCP, and news of changes

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, unused_imports, reason = "borrowed from the tests of MCP")]
#[path = "../mcp/clients/mod.rs"]
mod clients;
mod content;
mod desk;
mod registry;
mod stored_only;
#[path = "../support/mod.rs"]
mod support;
mod tools;
