//! Transports of a session, and the credentials they carry.

use std::net::IpAddr;

use serde::Serialize;
use skills_core::Caller;

/// Transport of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ConnectionMode {
    /// A WebSocket.
    #[serde(rename = "ws")]
    WebSocket,
    /// Plain requests that poll for messages.
    #[serde(rename = "http-loop")]
    HttpLoop,
}

impl ConnectionMode {
    /// Returns the name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WebSocket => "ws",
            Self::HttpLoop => "http-loop",
        }
    }
}

/// Result of checking the credentials of a request or a handshake. The credentials themselves are not stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransportAuth {
    /// The request has credentials.
    pub has_auth: bool,
    /// The credentials allow a registration.
    pub is_authorized: bool,
    /// Caller that the HTTP server identified.
    pub caller: Caller,
    /// Network address of the client; `None` without a connection, as in tests.
    pub address: Option<IpAddr>,
}
