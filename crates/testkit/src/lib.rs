//! Fixtures for tests and benchmarks: protocol clients written by hand, and processes.
//!
//! Nothing here depends on the code under test: it is seen as users see it, over sockets. Nothing sleeps: every wait
//! is for a frame or a condition, with a deadline.
//!
//! - [`ServerProcess`]: a running `skills serve`; [`Process`], [`program`], [`run`]: any other command
//! - [`Worker`]: a bus connection that serves and calls functions; [`Peer`]: a raw bus connection
//! - [`Request`], [`Response`]: HTTP
//! - [`select_store`]: the store of a command, a PostgreSQL if `SKILLS_TEST_STORE` names one
//! - [`SelfSignedTls`]: TLS of a server that no system trusts
//! - [`published_schema`]: an input schema without additions to the contract
//! - [`mdp::Client`]: a client of the Model Drive Protocol
//! - [`ReservedPort`]: a port for a server that stops and starts again
//! - [`ProcessMemory`]: current and peak memory of a process
//! - [`thread_cpu_time`]: processor time of a thread
//! - [`Random`]: reproducible randomness

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests print what they leave out")]

mod contract;
mod cpu_time;
mod http;
pub mod mdp;
mod memory;
mod peer;
mod port;
mod process;
mod random;
mod server;
mod store;
mod tls;
mod worker;

pub use contract::published_schema;
pub use cpu_time::thread_cpu_time;
pub use http::{Request, Response, exchange};
pub use memory::ProcessMemory;
pub use peer::Peer;
pub use port::ReservedPort;
pub use process::{
    CommandOutput, Process, Transcript, program, run, run_with_input, unprivileged_program,
};
pub use random::{Random, SEED_VARIABLE};
pub use server::ServerProcess;
pub use store::{
    STORE_VARIABLE, execute_sql, in_schema, needs_embedded_store, select_store, shared_store,
    store_url,
};
pub use tls::SelfSignedTls;
pub use worker::{CallFailure, Handler, Worker, next};

use std::time::Duration;

/// Deadline of every wait.
pub const DEADLINE: Duration = Duration::from_secs(60);
