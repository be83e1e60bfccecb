//! Search quality on the fixture corpus, and guarantees of the ranking.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints what it measured"
)]

mod corpus;
mod deletions;
mod guarantees;
mod large_results;
mod quality;
