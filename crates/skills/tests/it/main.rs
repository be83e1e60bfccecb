//! Integration tests of the real binary, over sockets and pipes: one module per feature, fixtures in `support`.

#![allow(clippy::disallowed_methods, reason = "the rule is for work that requests cause")]
#![allow(clippy::print_stderr, reason = "long tests print what they measured")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod acp;
mod attach;
mod backup;
mod bad_input;
mod bundles;
mod cli;
mod connect_client;
mod console;
mod contract;
mod database;
mod descriptions;
mod distribution;
mod docs;
mod durability;
mod gateway;
mod hardening;
mod http_server;
mod keys;
mod keyspace;
mod live_clients;
mod mcp;
mod mdp;
mod messages;
mod on_change;
mod request_tracing;
mod search;
mod serve;
mod set_up;
mod shared_store;
mod state;
mod support;
mod tiers;
mod users;
mod validate;
mod versions;
