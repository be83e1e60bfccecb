//! Client of the bus at the default address, for commands without an explicit address. The server there gets a token or a
//! key only if it proves to be the server of the data directory.
//!
//! A token is sent with the handshake and a key with every call, so the proof precedes the handshake on the same
//! connection. A client that reconnects on its own has a [`Dialer`] for that.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use async_trait::async_trait;
use skills_bus::{
    BusClient, ClientError,
    client::{ByteStream, DialError, Dialer},
    proof,
};
use skills_core::Code;
use tokio::net::TcpStream;

use crate::{
    Failure,
    cli::Target,
    connect::CONNECT_TIMEOUT,
    data_dir,
    server_file::{self, UntrustedServer},
};

/// Default address of the bus: the port of iii.
pub(crate) const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 49134);

/// Error of connecting to the default address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DefaultBusError {
    /// The data directory does not trust the server there.
    #[error("{credential} is not sent to the server at the default address {address}: {reason}")]
    UntrustedServer { credential: &'static str, address: SocketAddr, reason: UntrustedServer },
    /// The connection or the proof failed.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<DefaultBusError> for Failure {
    fn from(refusal: DefaultBusError) -> Self {
        match refusal {
            DefaultBusError::Client(error) => error.into(),
            DefaultBusError::UntrustedServer { address, .. } => {
                let hint = format!(
                    "if you trust the server, give its address: --url ws://{address} or III_URL; or give its data directory with --data-dir"
                );
                Self::new(Code::UnprovenServer, refusal.to_string()).hint(hint)
            }
        }
    }
}

/// Returns the credential that a command would send, with its flag and variable.
const fn credential(target: &Target) -> Option<&'static str> {
    match (&target.token, &target.key) {
        (Some(_), _) => Some("the token (--token or III_TOKEN)"),
        (None, Some(_)) => Some("the key (--key or SKILLS_KEY)"),
        (None, None) => None,
    }
}

/// The default address and the data directory of the server expected there.
#[derive(Debug, Clone)]
pub(crate) struct DefaultBus {
    address: SocketAddr,
    data_dir: PathBuf,
}

impl DefaultBus {
    /// Returns the default address with the data directory of a target.
    pub(crate) fn new(target: &Target) -> Self {
        Self { address: DEFAULT_ADDRESS, data_dir: data_dir::locate(target) }
    }

    fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Connects. A target with credentials requires that the server proves its identity.
    pub(crate) async fn connect(&self, target: &Target) -> Result<BusClient, DefaultBusError> {
        let Some(credential) = credential(target) else {
            return Ok(BusClient::connect(&self.url(), None, CONNECT_TIMEOUT).await?);
        };
        match server_file::secret_for(&self.data_dir, self.address) {
            Ok(secret) => {
                let token = target.token.as_deref();
                Ok(BusClient::connect_proven(&self.url(), token, &secret, CONNECT_TIMEOUT).await?)
            }
            Err(reason) => {
                // Without a listener the error is that nothing answers.
                TcpStream::connect(self.address).await.map_err(|error| {
                    ClientError::Unreachable { url: self.url(), reason: error.to_string() }
                })?;
                Err(DefaultBusError::UntrustedServer { credential, address: self.address, reason })
            }
        }
    }

    /// Returns the dialer of a client that reconnects, which connects only to a bus that proves its identity. Targets
    /// without a credential need none.
    pub(crate) fn dialer(&self, target: &Target) -> Option<Arc<dyn Dialer>> {
        let credential = credential(target)?;
        Some(Arc::new(ProvenBus { bus: self.clone(), credential }))
    }
}

/// Dialer of a bus that gets credentials only after its proof.
#[derive(Debug)]
struct ProvenBus {
    bus: DefaultBus,
    credential: &'static str,
}

#[async_trait]
impl Dialer for ProvenBus {
    async fn dial(&self) -> Result<Box<dyn ByteStream>, DialError> {
        let unproven = |reason: &dyn std::fmt::Display| {
            DialError::Unproven(format!("{} is not sent: {reason}", self.credential))
        };
        let unreachable = |error: io::Error| DialError::Unreachable(error.to_string());
        // Read each time: a restarted server has another secret.
        let secret = server_file::secret_for(&self.bus.data_dir, self.bus.address);
        let secret = secret.map_err(|reason| unproven(&reason))?;
        let mut stream = TcpStream::connect(self.bus.address).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        proof::challenge(&mut stream, &secret).await.map_err(|error| unproven(&error))?;
        Ok(Box::new(stream))
    }
}

#[cfg(test)]
mod tests;
