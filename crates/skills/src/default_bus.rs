//! The bus at the default address, for commands without an explicit registry. Every process of the machine can listen
//! there, so its server is checked, on the connection that is used afterwards:
//!
//! | server | used | gets a token or a key |
//! |---|---|---|
//! | proves that it is the server of the data directory | yes | yes |
//! | runs as the same user or as root | if the data directory has no store | no |
//! | runs as another user, or as one that cannot be determined | no | no |
//!
//! A token is sent with the handshake and a key with every call, so the proof precedes the handshake. A client that
//! reconnects on its own has a [`Dialer`], which checks each connection.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use skills_bus::{
    BusClient, ClientError,
    client::{ByteStream, DialError, Dialer, QuickAckStream},
    proof,
};
use skills_core::Code;
use skills_net::socket_owner::{self, PeerSocket};
use tokio::time::timeout;

use crate::{
    Failure,
    blocking::blocking,
    cli::Target,
    connect::{CONNECT_TIMEOUT, RegistrySource},
    data_dir, registry_socket, server_file,
};

/// Default address of the bus: the port of iii.
pub(crate) const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 49134);
/// Longest wait for the proof of a server, which answers from memory. A process that took over the port of a killed server
/// delays commands by no more.
const PROOF_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval of looking whether the server has accepted a connection: until then no process holds its socket.
const ACCEPT_POLL: Duration = Duration::from_millis(5);

/// Error of connecting to the default address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DefaultBusError {
    /// The process that listens there can give any content.
    #[error("the server at the default address {address} runs as {}", owner_text(.owner))]
    OtherUser { address: SocketAddr, owner: Option<u32> },
    /// The server did not prove that it has the data directory.
    #[error("{credential} is not sent to the server at the default address {address}: {reason}")]
    Unproven { credential: &'static str, address: SocketAddr, reason: String },
    /// The connection failed.
    #[error(transparent)]
    Client(#[from] ClientError),
}

fn owner_text(owner: &Option<u32>) -> String {
    owner.map_or_else(
        || "a user that cannot be determined".to_owned(),
        |owner| format!("another user ({owner})"),
    )
}

impl DefaultBusError {
    /// Returns the way to use a server that is not trusted.
    fn hint(&self) -> Option<String> {
        let named = |address: &SocketAddr| {
            format!("if you trust the server, give its address: --url ws://{address} or III_URL")
        };
        match self {
            Self::OtherUser { address, .. } => Some(named(address)),
            Self::Unproven { address, .. } => {
                Some(format!("{}; or give its data directory with --data-dir", named(address)))
            }
            Self::Client(_) => None,
        }
    }

    /// Returns the error and its hint as one line.
    pub(crate) fn sentence(&self) -> String {
        self.hint().map_or_else(|| self.to_string(), |hint| format!("{self}; {hint}"))
    }
}

impl From<DefaultBusError> for Failure {
    fn from(refusal: DefaultBusError) -> Self {
        let hint = refusal.hint();
        match refusal {
            DefaultBusError::Client(error) => error.into(),
            DefaultBusError::OtherUser { .. } | DefaultBusError::Unproven { .. } => {
                Self { hint, ..Self::new(Code::UnprovenServer, refusal.to_string()) }
            }
        }
    }
}

impl From<DefaultBusError> for DialError {
    fn from(refusal: DefaultBusError) -> Self {
        match refusal {
            DefaultBusError::Client(ClientError::Unreachable { reason, .. }) => {
                Self::Unreachable(reason)
            }
            DefaultBusError::Client(error) => Self::Unreachable(error.to_string()),
            DefaultBusError::OtherUser { .. } | DefaultBusError::Unproven { .. } => {
                Self::Unproven(refusal.sentence())
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

/// Lookup of the socket at the other end of a connection, by the addresses of both ends.
type PeerSocketFn = fn(SocketAddr, SocketAddr) -> PeerSocket;

/// Reason for which the server at the default address is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerTrust {
    /// It proved that it is the server of the data directory.
    Proven,
    /// It runs as the same user or as root, and may have any registry.
    Owner,
}

/// Registry of a target without an explicit one.
pub(crate) enum DefaultRegistry {
    /// The default data directory, and the server at the default address that was refused.
    Directory(Option<DefaultBusError>),
    /// The bus at the default address.
    Bus(Result<(BusClient, ServerTrust), DefaultBusError>),
}

/// The default address, the data directory of the server expected there, and the credentials for it.
#[derive(Debug, Clone)]
pub(crate) struct DefaultBus {
    address: SocketAddr,
    data_dir: PathBuf,
    token: Option<String>,
    /// Name of the credential that is sent.
    credential: Option<&'static str>,
    peer_socket: PeerSocketFn,
}

impl DefaultBus {
    /// Returns the default address with the data directory and the credentials of a target.
    ///
    /// # Errors
    /// See [`data_dir::locate`].
    pub(crate) fn new(target: &Target) -> Result<Self, Failure> {
        Ok(Self {
            address: DEFAULT_ADDRESS,
            data_dir: data_dir::locate(target)?,
            token: target.token.clone(),
            credential: credential(target),
            peer_socket: socket_owner::peer_socket,
        })
    }

    /// Returns the default address for a client that sends no credential, such as a worker of an engine.
    ///
    /// # Errors
    /// See [`data_dir::locate`].
    pub(crate) fn without_credentials(target: &Target) -> Result<Self, Failure> {
        Ok(Self { token: None, credential: None, ..Self::new(target)? })
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// Returns the bus as the registry in use.
    pub(crate) fn source(&self, trust: ServerTrust) -> RegistrySource {
        RegistrySource::DefaultBus { trust, data_dir: self.data_dir.clone() }
    }

    /// Returns the registry of a target without an explicit one, the first that applies: the data directory, if a process
    /// serves it or it has a store; the bus, if its server can be trusted; the data directory.
    pub(crate) async fn choose(&self) -> DefaultRegistry {
        if registry_socket::is_served(&self.data_dir).await {
            return DefaultRegistry::Directory(None);
        }
        // A directory that cannot be searched may hold a store: opening it reports the reason.
        if data_dir::has_store(&self.data_dir).unwrap_or(true) {
            // Its server may be unable to listen in the directory.
            return match self.dial_proven().await {
                Ok(stream) => DefaultRegistry::Bus(self.start(stream, ServerTrust::Proven).await),
                Err(_) => DefaultRegistry::Directory(None),
            };
        }
        match self.connect().await {
            Err(DefaultBusError::Client(ClientError::Unreachable { .. })) => {
                DefaultRegistry::Directory(None)
            }
            Err(refusal @ DefaultBusError::OtherUser { .. }) => {
                DefaultRegistry::Directory(Some(refusal))
            }
            connected => DefaultRegistry::Bus(connected),
        }
    }

    /// Connects to a server that can be trusted.
    pub(crate) async fn connect(&self) -> Result<(BusClient, ServerTrust), DefaultBusError> {
        let (stream, trust) = self.dial().await?;
        self.start(stream, trust).await
    }

    async fn start(
        &self,
        stream: QuickAckStream,
        trust: ServerTrust,
    ) -> Result<(BusClient, ServerTrust), DefaultBusError> {
        let token = self.token.as_deref().filter(|_| trust == ServerTrust::Proven);
        let client = BusClient::connect_on(stream, &self.url(), token, CONNECT_TIMEOUT).await?;
        Ok((client, trust))
    }

    /// Opens a connection to a server that can be trusted, and sends nothing else on it.
    pub(crate) async fn dial(&self) -> Result<(QuickAckStream, ServerTrust), DefaultBusError> {
        let unproven = match self.dial_proven().await {
            Ok(stream) => return Ok((stream, ServerTrust::Proven)),
            Err(reason) => reason,
        };
        // Another connection: a server that knows no challenge may have closed the first.
        let opened = timeout(CONNECT_TIMEOUT, self.dial_owned()).await;
        let stream = opened.unwrap_or_else(|_| Err(self.no_answer()))?;
        match self.credential {
            None => Ok((stream, ServerTrust::Owner)),
            Some(credential) => Err(DefaultBusError::Unproven {
                credential,
                address: self.address,
                reason: unproven,
            }),
        }
    }

    /// Opens a connection whose server proves that it has the data directory.
    async fn dial_proven(&self) -> Result<QuickAckStream, String> {
        // Read each time: a restarted server has another secret.
        let secret = server_file::secret_for(&self.data_dir, self.address);
        let secret = secret.map_err(|reason| reason.to_string())?;
        let proven = timeout(PROOF_TIMEOUT, async {
            let mut stream = QuickAckStream::connect(self.address).await?;
            proof::challenge(&mut stream, &secret).await.map(|()| stream)
        });
        match proven.await {
            Ok(proven) => proven.map_err(|error| error.to_string()),
            Err(_) => Err("it does not answer".to_owned()),
        }
    }

    /// Opens a connection whose server runs as the same user or as root.
    async fn dial_owned(&self) -> Result<QuickAckStream, DefaultBusError> {
        let unreachable = |error: io::Error| self.unreachable(error.to_string());
        let stream = QuickAckStream::connect(self.address).await.map_err(unreachable)?;
        let (local, peer) = stream.addresses().map_err(unreachable)?;
        let find = self.peer_socket;
        let owner = loop {
            match blocking(move || find(local, peer)).await {
                Ok(PeerSocket::Held(owner)) => break Some(owner),
                Ok(PeerSocket::Unheld) => tokio::time::sleep(ACCEPT_POLL).await,
                Ok(PeerSocket::Unknown) | Err(_) => break None,
            }
        };
        if owner.is_some_and(socket_owner::is_own_or_root) {
            return Ok(stream);
        }
        Err(DefaultBusError::OtherUser { address: self.address, owner })
    }

    fn unreachable(&self, reason: String) -> DefaultBusError {
        ClientError::Unreachable { url: self.url(), reason }.into()
    }

    fn no_answer(&self) -> DefaultBusError {
        self.unreachable(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()))
    }

    /// Returns the dialer of a client that reconnects.
    pub(crate) fn dialer(self) -> Arc<dyn Dialer> {
        Arc::new(self)
    }
}

#[async_trait]
impl Dialer for DefaultBus {
    async fn dial(&self) -> Result<Box<dyn ByteStream>, DialError> {
        let (stream, _) = Self::dial(self).await?;
        Ok(Box::new(stream))
    }
}

#[cfg(test)]
mod tests;
