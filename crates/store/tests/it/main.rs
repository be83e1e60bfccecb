//! Stores: the contract of all of them, and the database on disk.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod contract;
mod import_records;
mod migration;
mod model;
mod postgres;
mod sqlite;
mod versions;
