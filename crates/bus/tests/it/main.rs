//! The bus over real sockets: the embedded hub and its clients.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backpressure;
mod bad_input;
mod builtins;
mod bus_client;
mod calls;
mod connection;
mod functions;
mod message_sizes;
mod numbered_calls;
mod observe;
mod properties;
mod test_hub;
mod triggers;
mod worker_client;
