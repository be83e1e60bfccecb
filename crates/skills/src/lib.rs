//! The binary's parts.
//!
//! - [`cli`]: the command line, as data
//! - [`config`]: the configuration file
//! - [`attach`]: a worker of an iii engine
//! - [`serve`]: the server: hub, registry and HTTP in one process
//! - `connect`: which registry a command talks to
//! - `commands`: what each command does
//! - `output`: what it prints
//! - `failure`: how an error is shown
//! - `manifest`: `--manifest`

pub mod attach;
pub mod cli;
mod commands;
pub mod config;
mod connect;
mod failure;
mod manifest;
mod output;
pub mod serve;

pub use commands::run;
pub use failure::Failure;
