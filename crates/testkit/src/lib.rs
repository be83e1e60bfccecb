//! For tests and benchmarks only: a worker that speaks the protocol by hand, and a server process.
//!
//! Nothing here knows the code under test; it sees it as users do, over a socket. Nothing sleeps: every
//! wait is for a frame or a condition, with a deadline.
//!
//! - [`Server`]: a running `skills serve`; [`Process`], [`program`], [`run`]: any other command
//! - [`Worker`]: a connection that serves and calls functions; [`Peer`]: one that reads only when told to
//! - [`Request`]: what is asked over HTTP, and its [`Answer`]
//! - [`as_published`]: the schema of an input as the contract has it
//! - [`mdp::Client`]: a client of the Model Drive Protocol
//! - [`Random`]: randomness that a failing test can name

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod contract;
mod http;
pub mod mdp;
mod peer;
mod process;
mod random;
mod server;
mod worker;

pub use contract::as_published;
pub use http::{Answer, Request, exchange};
pub use peer::Peer;
pub use process::{Process, Ran, Transcript, program, restricted, run, run_with_input};
pub use random::{Random, SEED_VARIABLE};
pub use server::Server;
pub use worker::{CallFailure, Handler, Worker, next};

use std::time::Duration;

/// How long anything may take before a test gives up on it.
pub const DEADLINE: Duration = Duration::from_secs(30);
