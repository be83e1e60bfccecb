//! The registry as an MCP server.
//!
//! - [`server`]: [`Mcp`], what all connections share
//! - `handler`: what rmcp calls for each request
//! - `resources`, `prompts`, `tools`, `completion`: one part of the protocol each
//! - `skills_extension`: skills over MCP (SEP-2640), which rmcp has no types for
//! - `live`: telling clients of changes
//! - `cursor`: where a listing goes on
//! - `ending`: the end in good order
//! - `error`: the one mapping of the registry's errors
//! - [`http`], [`stdio`]: the two transports
//!
//! It knows the registry by its trait alone: not where it lives, how it stores, or what a bus is.

mod completion;
mod cursor;
mod ending;
mod error;
mod handler;
pub mod http;
mod live;
mod prompts;
mod resources;
pub mod server;
mod skills_extension;
pub mod stdio;
mod tools;

pub use server::{Mcp, Profile, Settings};

/// Whether a log event only repeats what a client was told: rmcp warns of every error it answers with.
#[must_use]
pub fn is_noise(event: &tracing::Metadata<'_>) -> bool {
    event.target().starts_with("rmcp")
}
