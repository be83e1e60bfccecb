//! The registry as an ACP agent: an editor's slash commands are its prompts and skills.
//!
//! - [`stdio`]: the transport, which bounds what comes in and notices who does not read
//! - `agent`: the methods, and what a connection remembers
//! - `sessions`: sessions and their turns
//! - `turn`: what is said in answer to a message
//! - `arguments`: what was typed behind a command
//! - `answers`: the sentences that are said when there is nothing to render
//! - `pieces`: streaming a text
//! - `menu`: what is on offer, from one snapshot of the catalog
//! - `live`: telling sessions what is on offer, now and after every change
//! - `gather`: taking news together
//! - `pace`: sending no faster than the client reads
//! - `backlog`: reading no faster than it reads
//! - [`proposal`]: the wire form of the skills list, which is not part of ACP
//!
//! It knows the registry by its trait alone: not where it lives, how it stores, or what a bus is.

mod agent;
mod answers;
mod arguments;
mod backlog;
mod gather;
mod live;
mod menu;
mod pace;
mod pieces;
pub mod proposal;
mod sessions;
pub mod stdio;
mod turn;

pub use proposal::SkillsUpdate;

/// Whether a log event only repeats what a client was told: the SDK warns of every error it answers with.
#[must_use]
pub fn is_noise(event: &tracing::Metadata<'_>) -> bool {
    event.target().starts_with("agent_client_protocol")
}
