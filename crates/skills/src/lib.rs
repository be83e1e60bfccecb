//! The binary's parts.
//!
//! - [`cli`]: the command line, as data
//! - [`config`]: the configuration file
//! - [`attach`]: a worker of an iii engine
//! - [`serve`]: the server: hub, registry and HTTP in one process
//! - `connect`: which registry a command talks to
//! - `events`: being told of things on a bus
//! - `keys`: whom the keys of users stand for
//! - `follow`: a registry behind a bus, kept in step, for surfaces that stay
//! - `late`: a registry that is still being opened
//! - `open`: which registry a surface that stays is given
//! - `people`: what a server knows of people
//! - `system`: what a server asks of the system for itself
//! - `commands`: what each command does
//! - `output`: what it prints
//! - `work`: what waits for disks and cores
//! - `failure`: how an error is shown
//! - `manifest`: `--manifest`
//! - `mdp`: the Model Drive Protocol: its settings, and where its routes are

pub mod attach;
pub mod cli;
mod commands;
pub mod config;
mod connect;
mod events;
pub mod exempt;
mod failure;
mod follow;
mod keys;
mod late;
mod manifest;
mod mdp;
mod open;
mod output;
mod people;
pub mod serve;
mod state_events;
mod system;
mod work;

pub use commands::run;
pub use failure::Failure;
