//! The listener over real sockets, with routes and limits of the tests' own.
//!
//! - `house`: a server with routes that wait, panic, read and stream
//! - `mounting`: what a surface's routes get from the door; `wings`: those that declare terms of their own
//! - `limits`, `connections`, `stopping`: what it does when it is asked for too much, or to end

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod connections;
mod house;
mod limits;
mod mounting;
mod stopping;
mod wings;
