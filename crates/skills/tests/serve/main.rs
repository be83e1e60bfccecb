//! The server as whoever runs it sees it: where it listens, whom it lets in, how it stops, and what it says
//! when the machine does not play along.

#![allow(clippy::print_stderr, reason = "a test may say what it saw")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod addresses;
mod disk;
mod stopping;
#[path = "../support/mod.rs"]
mod support;
mod tokens;
