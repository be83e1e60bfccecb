//! The three tiers over real sockets: shadowing, visibility, resolution and notifications.
//!
//! - `fixture`: a server with the keys of two users
//! - `bus`, `mcp`, `discovery`, `cli`: the surfaces

mod bus;
mod cli;
mod discovery;
mod fixture;
mod mcp;
