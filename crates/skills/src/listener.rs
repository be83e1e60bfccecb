//! Addresses of the server: resolution, the token rule, and bind errors with a hint.

use std::net::SocketAddr;

use skills_core::Code;
use tokio::net::{TcpListener, lookup_host};

use crate::Failure;

/// Names of a listener's settings, for errors.
pub(crate) struct ListenerSettings {
    /// Flag or setting of the address.
    pub(crate) flag: &'static str,
    /// Flags and variables of the token.
    pub(crate) token: &'static str,
    /// Set if the listener requires a token.
    pub(crate) has_token: bool,
}

/// Resolves an address. Without a token it must be a loopback address.
async fn resolve(address: &str, settings: &ListenerSettings) -> Result<Vec<SocketAddr>, Failure> {
    let flag = settings.flag;
    let addresses = lookup_host(address).await.map(Iterator::collect::<Vec<_>>);
    let addresses = addresses.ok().filter(|found| !found.is_empty()).ok_or_else(|| {
        Failure::new(Code::BadAddress, format!("{flag} {address} is not an address")).hint(format!(
            "give an address such as {flag} 127.0.0.1:49134; port 0 picks a free one"
        ))
    })?;
    if !settings.has_token && addresses.iter().any(|address| !address.ip().is_loopback()) {
        let message = format!("{address} is reachable from other machines, and no token is set");
        let hint = format!("give one with {}, or listen on 127.0.0.1", settings.token);
        return Err(Failure::new(Code::TokenNeeded, message).hint(hint));
    }
    Ok(addresses)
}

/// Binds a listener.
///
/// # Errors
/// When the address is invalid, in use, or reachable from other machines without a token.
pub(crate) async fn bind(
    address: &str,
    settings: &ListenerSettings,
) -> Result<TcpListener, Failure> {
    let addresses = resolve(address, settings).await?;
    TcpListener::bind(addresses.as_slice()).await.map_err(|error| {
        let hint =
            format!("choose another address with {}; port 0 picks a free one", settings.flag);
        Failure::new(Code::Bind, format!("cannot listen on {address}: {error}")).hint(hint)
    })
}

/// Binds the listener of the bus, with a hint if an engine or a server has the port.
///
/// # Errors
/// When the address is invalid, in use, or reachable from other machines without a token.
pub(crate) async fn bind_bus(address: &str, has_token: bool) -> Result<TcpListener, Failure> {
    let settings = ListenerSettings { flag: "--bus", token: "--token or III_TOKEN", has_token };
    let addresses = resolve(address, &settings).await?;
    match TcpListener::bind(addresses.as_slice()).await {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let message =
                format!("{address} is in use, probably by an iii engine or another skills server");
            Err(Failure::new(Code::AddressInUse, message).hint(format!(
                "connect to it with --url ws://{address}, or serve on a free port with --bus 127.0.0.1:0"
            )))
        }
        Err(_) => bind(address, &settings).await,
        Ok(listener) => Ok(listener),
    }
}
