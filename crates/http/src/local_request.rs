//! Requests of a person at this machine, as far as a server can tell.

use std::net::IpAddr;

use axum::http::{Version, header, request::Parts};
use skills_core::origin::WebHost;

use crate::{client_shares::peer_address, is_proxy_header};

/// Sender of a request, as far as the server can tell without a credential: every user of a machine can connect to its
/// loopback addresses, so the user of the peer's socket counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalPeer {
    /// The user of this process, or root, on this machine.
    Owner,
    /// Another user of this machine.
    OtherUser,
    /// A program on this machine of a user that the operating system does not tell.
    Unknown,
    /// Another machine, or a proxy.
    Elsewhere,
}

/// Returns whether a request comes from this machine: over a loopback connection, to a local host name, and through no
/// proxy. The person behind a proxy may be anybody. A proxy with default settings adds no header; nginx then speaks
/// HTTP/1.0, which no browser does.
#[must_use]
pub fn is_local_request(parts: &Parts) -> bool {
    let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let is_local_host = host.and_then(WebHost::parse_authority).is_some_and(|(host, _)| {
        host.is_local() || matches!(host, WebHost::Ip(ip) if ip.is_loopback())
    });
    let is_forwarded = parts.headers.keys().any(|name| is_proxy_header(name.as_str()));
    let is_browser_version = parts.version > Version::HTTP_10;
    is_local_host
        && !is_forwarded
        && is_browser_version
        && is_loopback(peer_address(&parts.extensions))
}
