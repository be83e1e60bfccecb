//! HTTP server of the real binary: access checks and limits.
//!
//! - `hosts`, `origins`, `tokens`: access checks on every route
//! - `settings`: flags, variables and the configuration file
//! - `limits`: oversized requests, too many connections, shutdown

mod hosts;
mod limits;
mod origins;
mod settings;
mod tokens;

/// Paths of every kind: health, surfaces, and unknown.
const PATHS: [&str; 6] = ["/healthz", "/readyz", "/mcp", "/", "/nothing", "/%2e%2e/x?y=z"];
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT"];
