//! Many people on one server: administrators are let in, users are kept apart, and the documentation says how.
//!
//! - `site`: the program with administrators' secrets, and asking it as somebody
//! - `doors`: who is let in to administer; `lifecycle`: keys from their beginning to their end
//! - `drive`: what they see of the built-in client of the Model Drive Protocol
//! - `apart`: what one user learns of another, on every surface
//! - `revoked`: who hears nothing more
//! - `page`: the examples of docs/gateway.md, run

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "borrowed from the tests of ACP")]
#[path = "../acp/client.rs"]
mod acp;
mod apart;
#[allow(dead_code, unused_imports, reason = "borrowed from the tests of MCP")]
#[path = "../mcp/clients/mod.rs"]
mod clients;
mod doors;
mod drive;
mod lifecycle;
mod page;
mod revoked;
mod site;
#[path = "../support/mod.rs"]
mod support;
