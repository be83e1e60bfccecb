//! Connections before any protocol: the parts that every listener and every client of this process shares.
//!
//! - [`Listener`]: accept loop with a connection limit ([`ConnectionLimits`]), on TCP or a Unix socket
//! - [`HttpServer`]: HTTP/1 on one connection, with limits for the head of a request, and graceful shutdown
//! - [`FailedCredentials`]: delay and log of refused credentials
//! - [`check_host`]: host names that requests may have
//! - [`websocket`]: the handshake, and closing without losing the close frame
//! - [`tls`]: TLS configuration of clients
//! - [`socket_owner`]: user of the process at the other end of a loopback connection
//!
//! It knows no routes, checks no credentials and reads no messages.

mod connection_limiter;
mod failed_credentials;
mod host_rule;
mod http_server;
mod listener;
mod peer_user;
pub mod socket_owner;
pub mod tls;
pub mod websocket;

pub use connection_limiter::{ConnectionLimits, ConnectionSlot, host_network};
pub use failed_credentials::{CredentialClient, FailedCredentials};
pub use host_rule::{HostError, check_host, is_allowed_host};
pub use http_server::{HeadLimits, HttpServer};
pub use listener::{Accept, AcceptedConnection, ConnectionAddresses, Listener, Overflow};
pub use peer_user::PeerUsers;
