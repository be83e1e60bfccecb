//! Versions of skills and prompts, through the real binary.
//!
//! - `bus`, `http`: the functions and the HTTP API
//! - `commands`: runs commands on a data directory, or on a server
//! - `cli`: the commands about versions; `diff`, `log_and_gc`, `prompts`: those with more to show
//! - `copies`: exports and folders of agents
//! - `crash`: random changes, restarts and kills, compared with a plain list of versions
//! - `mcp`: resources, tools and notifications; `acp`, `mdp`: the other clients
//! - `bus`, `http`: functions and routes

mod acp;
mod bus;
mod cli;
mod commands;
mod copies;
mod crash;
mod diff;
mod http;
mod log_and_gc;
mod mcp;
mod mdp;
mod prompts;
