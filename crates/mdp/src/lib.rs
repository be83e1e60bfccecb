//! Host of the Model Drive Protocol (MDP): clients connect, register skills, prompts and endpoints at paths, and are
//! called for them.
//!
//! - `path`, `trie`: rules of paths, and lookup of the pattern for one
//! - [`wire`]: messages of the protocol
//! - [`MdpHost`]: sessions, registrations and calls, without a transport; [`Config`], [`MdpLimits`], [`MdpTimeouts`]
//! - `directory`: the four MDP tools, on [`MdpHost`]: [`list_clients`](MdpHost::list_clients),
//!   [`list_paths`](MdpHost::list_paths), [`call_path`](MdpHost::call_path), [`call_paths`](MdpHost::call_paths)
//! - `builtin_client`: the built-in client [`REGISTRY_CLIENT_ID`] with the stored content
//! - `auth`: the registration token, and the signed cookie that replaces it
//! - [`http`]: WebSockets, the HTTP loop, and skills over plain HTTP
//! - [`live`]: the clients as live entries of the registry
//!
//! A server starts an [`MdpHost`], mounts [`http::routes`] and, behind all other routes, [`http::fallback`]. Another
//! surface takes snapshots of the clients with [`MdpHost::client_table`], subscribes to changes with
//! [`MdpHost::changes`], and calls clients with [`MdpHost::call`].
//!
//! The content of a live client is never stored and disappears with the client. Hosts, origins, and the size and number
//! of requests are checked by the HTTP server that mounts the routes.

mod auth;
mod builtin_client;
mod config;
mod directory;
mod error;
mod host;
mod host_request;
pub mod http;
pub mod live;
mod path;
mod trie;
pub mod wire;

pub use config::{Config, MAX_UNAUTHENTICATED_MESSAGE_BYTES, MdpLimits, MdpTimeouts};
pub use error::{ClientCallError, CloseReason, SessionError};
pub use host::{
    ClientCall, ClientCatalog, ClientResponse, ClientTable, ConnectionMode, MdpHost, PathParams,
    QueuedMessage, RegisteredClient, Session, SessionOutput, TransportAuth,
};
pub use path::PathError;

pub use host_request::{CallPath, CallPaths, HostRequest, ListClients, ListPaths, PathCall};

/// Id of the built-in client.
pub const REGISTRY_CLIENT_ID: &str = "registry";
