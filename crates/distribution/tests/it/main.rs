//! Integration tests of the git remotes, over the routes that a server mounts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bad_input;
mod clawhub;
mod clone;
mod collections;
mod fetch;
mod marketplace;
mod support;
mod versions;
