//! The iii contract, over a real socket to the real server: what goes in, what comes out, and what is
//! said when something is wrong.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bodies;
mod prompts;
mod refusals;
mod sections;
mod skills;
#[path = "../support/mod.rs"]
mod support;
