//! A host of the Model Drive Protocol: clients connect, say which skills, prompts and endpoints they have at
//! which paths, and are asked for them.
//!
//! - [`path`], [`trie`]: the rules of paths, and finding the pattern for one
//! - [`wire`]: the messages
//! - [`Host`]: sessions, registrations and calls, without a transport; [`Config`], [`Limits`], [`Times`]
//! - `directory`: what hosts ask, on [`Host`]: [`list_clients`](Host::list_clients),
//!   [`list_paths`](Host::list_paths), [`call_path`](Host::call_path), [`call_paths`](Host::call_paths)
//! - `stored`: the built-in client [`REGISTRY`], which has what the registry has stored
//! - `auth`: the token, and the signed cookie that stands for it
//! - [`http`]: WebSockets, the HTTP loop, and skills over plain HTTP
//!
//! A server starts a [`Host`], mounts [`http::routes`] among its routes and [`http::rest`] behind all of them.
//! Another surface takes snapshots of who is there with [`Host::roster`], hears of changes by
//! [`Host::changes`], and asks with [`Host::call`].
//!
//! What a live client has is never stored, and gone when the client goes. Which hosts and which pages may ask,
//! and how large and how many requests are, is the business of the listener that the routes are mounted on.

mod auth;
mod config;
mod directory;
mod error;
mod host;
pub mod http;
pub mod live;
pub mod path;
mod stored;
pub mod trie;
pub mod wire;

pub use config::{Config, Limits, Times};
pub use error::{CallError, Close, Refused};
pub use host::{
    Answer, Call, Catalog, Client, Host, Mode, Next, Params, Roster, Session, Transport,
};

/// The id of the built-in client.
pub const REGISTRY: &str = "registry";
