//! The MDP host over real sockets. Nothing sleeps: every wait is for a message or a condition.

#![allow(clippy::disallowed_methods, reason = "the rule is for work that requests cause")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod auth;
mod directory;
mod faults;
mod http_loop;
mod published_client;
mod skills;
mod stored_skills;
mod test_host;
mod websocket;
