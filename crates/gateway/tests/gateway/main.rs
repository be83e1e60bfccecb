//! The routes, asked as a client asks them, with a registry and a vault behind them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod execute;
mod house;
mod log;
mod secrets;
mod skills;
mod sync;
