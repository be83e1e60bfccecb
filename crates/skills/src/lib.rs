//! The binary: command line, configuration, composition of the server.
//!
//! - [`cli`]: the command line as data; `commands`: one module per command
//! - [`config`], `environment`, `token_rules`: settings
//! - [`serve`]: the server; [`attach`]: a worker of an iii engine; `composition`: the parts of both, in order of start-up
//! - `retention`: removal of old versions; `memory`, `writer_watch`: other tasks of a server
//! - `accounts`, `authentication`, `key_watch`: the vault of a server, and callers by key
//! - `server_state`: the state of the process that the gateway and the console show
//! - `connect`: the registry of a command; `surface_registry`: the registry of a long-running surface
//! - `data_dir`, `registry_socket`, `store_host`: the data directory, its socket, and a process that owns its store
//! - `default_bus`, `server_file`: proof of the server at the default address; `console_link`: one-time link of the console
//! - `pending_registry`: a registry that is still opening; `remote_mirror`: a registry behind a bus
//! - `sources`: imports of the configured sources
//! - `fetch`: sources of skills, on this machine and elsewhere; `interrupt`: Ctrl-C
//! - `output`, `terminal`, `failure`, `progress`: text, JSON and errors for the user

mod accounts;
pub mod attach;
mod authentication;
mod blocking;
pub mod cli;
mod commands;
mod composition;
pub mod config;
mod connect;
mod console_link;
mod data_dir;
pub mod database;
mod default_bus;
mod environment;
mod failure;
mod fetch;
mod index_watch;
mod interrupt;
mod key_watch;
mod listener;
mod manifest;
mod mdp;
mod memory;
mod output;
mod pending_registry;
mod presence;
mod private_file;
mod process_limits;
mod progress;
mod publication_batch;
mod registry_copy;
mod registry_socket;
mod remote_mirror;
mod retention;
mod search_miss_log;
mod search_model;
pub mod serve;
mod server_file;
mod server_state;
mod sources;
mod starting_database;
mod store_host;
mod store_watch;
mod surface_registry;
mod terminal;
mod token_rules;
mod vault_location;
mod writer_watch;

pub use commands::run;
pub use failure::Failure;
pub use output::use_json_stderr;
