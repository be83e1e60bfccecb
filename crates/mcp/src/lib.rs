//! MCP server for the registry.
//!
//! - [`server`]: [`Mcp`] and the state that all connections share
//! - `handler`: the methods that rmcp calls for each request
//! - `fast_path`: frequent reads over HTTP, without rmcp
//! - `resources`, `prompts`, `tools`, `completion`: one part of the protocol each
//! - `skills_extension`: skills over MCP (SEP-2640), which rmcp has no types for
//! - `notifications`: change notifications
//! - `subscriptions`: the URIs that clients have subscribed to
//! - `budget`: memory reservations of responses
//! - `cursor`: pagination
//! - `shutdown`: grace period of open streams
//! - `error`: mapping from registry errors to MCP errors
//! - [`http`], [`stdio`]: the two transports
//!
//! The crate knows the registry by its trait alone: not where it lives, how it stores, or what a bus is.

mod budget;
mod completion;
mod cursor;
mod error;
mod fast_path;
mod handler;
pub mod http;
mod notifications;
mod prompts;
mod resources;
pub mod server;
mod shutdown;
mod skills_extension;
pub mod stdio;
mod subscriptions;
mod tools;

pub use server::{Mcp, McpProfile, Settings};

/// Returns whether a log event only repeats an error response: rmcp warns of each one.
#[must_use]
pub fn is_noise(event: &tracing::Metadata<'_>) -> bool {
    event.target().starts_with("rmcp")
}
