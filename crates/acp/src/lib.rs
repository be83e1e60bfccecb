//! ACP agent for the registry: an editor's slash commands are its prompts and skills.
//!
//! - [`stdio`]: the transport, which bounds its input and detects a client that does not read
//! - `agent`: the methods of the protocol, and the state of a connection
//! - `sessions`: sessions and their turns
//! - `turn`: the response to a message
//! - `arguments`: parsing of command arguments
//! - `messages`: responses that are not rendered content: help and errors
//! - `chunks`: splitting of a text into streamed chunks
//! - `commands`: the commands of one catalog snapshot
//! - `advertise`: command lists for sessions, at their start and after every change
//! - `send_queue`: flow control of outgoing updates
//! - `write_backpressure`: flow control of incoming requests
//! - [`proposal`]: the wire form of the skills list, which is not part of ACP
//!
//! The crate knows the registry by its trait alone: not where it lives, how it stores, or what a bus is.

mod advertise;
mod agent;
mod arguments;
mod chunks;
mod commands;
mod messages;
pub mod proposal;
mod send_queue;
mod sessions;
pub mod stdio;
mod turn;
mod write_backpressure;

pub use proposal::SkillsUpdate;

/// Returns whether a log event only repeats an error response: the SDK warns of each one.
#[must_use]
pub fn is_noise(event: &tracing::Metadata<'_>) -> bool {
    event.target().starts_with("agent_client_protocol")
}
