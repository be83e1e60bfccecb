//! A host of the Model Drive Protocol.

mod auth;
mod config;
mod directory;
mod error;
mod host;
pub mod http;
pub mod path;
mod stored;
pub mod trie;
pub mod wire;

pub use config::{Config, Limits, Times};
pub use error::{CallError, Close, Refused};
pub use host::{
    Answer, Call, Catalog, Client, Host, Mode, Next, Params, Roster, Session, Transport,
};

/// The id of the built-in client, which has what is stored.
pub const REGISTRY: &str = "registry";
