//! The routes of the gateway with a registry and a vault behind them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod available_skills;
mod execute;
mod log;
mod panicking_store;
mod secrets;
mod skills;
mod sync;
mod test_gateway;
