//! The HTTP door of the real binary: who is let in, and how it bears those who are not.
//!
//! - `hosts`, `origins`, `tokens`: who may ask, whatever is asked for
//! - `settings`: flags, variables and the configuration file
//! - `pressure`: too large, too many, and the end

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod hosts;
mod origins;
mod pressure;
mod settings;
#[path = "../support/mod.rs"]
mod support;
mod tokens;

/// Every kind of address: health, what a surface has or will have, and what nobody has.
const PATHS: [&str; 6] = ["/healthz", "/readyz", "/mcp", "/", "/nothing", "/%2e%2e/x?y=z"];
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT"];
