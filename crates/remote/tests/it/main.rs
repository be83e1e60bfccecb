//! The client and the mirror of a registry behind a bus.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod remote_registry;
