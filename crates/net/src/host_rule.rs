//! Allowed hosts of requests, as a defence against DNS rebinding.
//!
//! A page whose host name is made to resolve to this machine has the same origin as this server for the browser, which
//! then sends no `Origin`. Its requests still name its own host.

use std::net::IpAddr;

use axum::http::{HeaderMap, Uri, header};
use skills_core::origin::WebHost;

/// Reason for which the host of a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostError {
    /// The request names no host, or none that can be parsed.
    Invalid,
    /// The host is not one of this server.
    NotAllowed,
}

/// Returns whether requests may name a host on a server at an address. Rebinding needs a name, so a server that other
/// machines can reach accepts any IP address.
#[must_use]
pub fn is_allowed_host(host: &WebHost, address: IpAddr, listed: &[WebHost]) -> bool {
    let is_own_address = match host {
        WebHost::Name(_) => false,
        WebHost::Ip(ip) => {
            let address = address.to_canonical();
            *ip == address || !address.is_loopback()
        }
    };
    is_own_address || host.is_local() || listed.contains(host)
}

/// Checks every host of a request: that of the `Host` header, and that of an absolute request target.
///
/// # Errors
/// When a host is missing, invalid or not allowed.
pub fn check_host(
    uri: &Uri,
    headers: &HeaderMap,
    address: IpAddr,
    listed: &[WebHost],
) -> Result<(), HostError> {
    let mut values = headers.get_all(header::HOST).iter();
    let header = match (values.next(), values.next()) {
        (Some(header), None) => Some(header.to_str().map_err(|_| HostError::Invalid)?),
        (None, _) => None,
        (Some(_), Some(_)) => return Err(HostError::Invalid),
    };
    let target = uri.authority().map(|authority| authority.as_str());
    if header.is_none() && target.is_none() {
        return Err(HostError::Invalid);
    }
    for text in [header, target].into_iter().flatten() {
        let (host, _) = WebHost::parse_authority(text).ok_or(HostError::Invalid)?;
        if !is_allowed_host(&host, address, listed) {
            return Err(HostError::NotAllowed);
        }
    }
    Ok(())
}
