//! Attached mode: `EngineBus` on a hub or a fake engine, and content in the state of an engine.

#![allow(clippy::disallowed_methods, reason = "the rule is for work that requests cause")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod calls;
mod concurrent_writes;
mod connection;
mod delivery;
mod observe;
mod state_bus;
mod state_store;
mod support;
#[path = "../../../bus/tests/it/test_hub.rs"]
#[allow(dead_code, reason = "the tests of the bus use the rest")]
mod test_hub;
mod triggers;
