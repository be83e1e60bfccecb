//! The HTTP listener over real sockets, with routes and limits of the tests.
//!
//! - `test_server`: a server with routes that wait, panic, read and stream
//! - `mounting`: surfaces mounted on the listener
//! - `route_groups`: route groups with their own policy
//! - `limits`, `connections`, `shutdown`: overload and shutdown

#![allow(clippy::disallowed_methods, reason = "the rule is for work that requests cause")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod connections;
mod limits;
mod mounting;
mod route_groups;
mod shutdown;
mod test_server;
