//! The console over real sockets, as a browser without scripts uses it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod browser;
mod csrf;
mod hostile;
mod identities;
mod large_registry;
mod pages;
mod people;
mod publishing;
mod shares;
mod test_console;
mod versions;
