//! ACP of the real binary over pipes, by hand and with the client of the protocol's own crate.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bad_input;
mod cancel;
mod client;
mod conversation;
mod drive;
mod live;
mod strict;
#[path = "../support/mod.rs"]
mod support;
