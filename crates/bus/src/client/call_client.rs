//! Client for calls alone, on one connection.
//!
//! It registers nothing and does not reconnect; a process that needs the bus for longer runs a
//! [`WorkerClient`](super::WorkerClient).

use std::{sync::Arc, time::Duration};

use skills_core::Code;
use tokio::net::UnixStream;

use super::{
    Endpoint, EndpointError, Keepalive, WorkerIdentity,
    connection::{self, QUEUE_LIMITS},
    options::identity_payload,
    pending::PendingCalls,
    shared::check_size,
    socket::{self, ConnectError, Socket},
};
use crate::{
    CallError, Json, ServerSecret,
    address::without_query,
    protocol::{
        LARGE_MESSAGES,
        server_frame::{self, ServerFrame},
        worker_outbound::{self, CallFrame},
    },
    wire::queue::{CloseReason, Queue},
};

/// Name of the client in listings of workers.
const NAME: &str = "skills-cli";

/// Failure to connect.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL is not valid for a bus.
    #[error("{url} is not the address of a bus: {reason}; it looks like ws://127.0.0.1:49134")]
    BadUrl {
        /// The URL.
        url: String,
        /// The reason.
        reason: String,
    },
    /// No server answers there, or not as a bus does.
    #[error("no bus at {url}: {reason}")]
    Unreachable {
        /// The URL.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The server did not prove its identity and was sent no credential.
    #[error("no credential sent to {url}: {reason}")]
    Unproven {
        /// The URL.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The server accepts no connections at the moment, as one that waits for its store.
    #[error("the bus at {url} is not available: {reason}")]
    Unavailable {
        /// The URL.
        url: String,
        /// Code of the server.
        code: Code,
        /// The reason.
        reason: String,
    },
    /// The bus requires a token, or another one.
    #[error("the bus at {url} refused the token or requires one")]
    Unauthorized {
        /// The URL.
        url: String,
    },
}

impl ClientError {
    fn new(url: String, error: ConnectError) -> Self {
        match error {
            ConnectError::Unproven(reason) => Self::Unproven { url, reason },
            ConnectError::Unauthorized => Self::Unauthorized { url },
            ConnectError::Unavailable { code, reason } => Self::Unavailable { url, code, reason },
            ConnectError::NotABus(reason) => Self::BadUrl { url, reason },
            error => Self::Unreachable { url, reason: error.reason() },
        }
    }
}

/// Connection to a bus. Clones share it; calls may run concurrently.
#[derive(Debug, Clone)]
pub struct BusClient {
    connection: Arc<Connection>,
}

struct Connection {
    queue: Arc<Queue>,
    pending: Arc<PendingCalls>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.queue.close(CloseReason { code: 1000, reason: "the client has finished" });
    }
}

impl BusClient {
    /// Connects and waits for the greeting of the bus.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn connect(
        url: &str,
        token: Option<&str>,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        Self::connect_with(url, token, None, timeout).await
    }

    /// Connects to a server that must prove that it knows a secret before it is sent the token.
    ///
    /// # Errors
    /// [`ClientError::Unproven`] when the proof fails; otherwise see [`connect`](Self::connect).
    pub async fn connect_proven(
        url: &str,
        token: Option<&str>,
        secret: &ServerSecret,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        Self::connect_with(url, token, Some(secret), timeout).await
    }

    async fn connect_with(
        url: &str,
        token: Option<&str>,
        secret: Option<&ServerSecret>,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let endpoint = Endpoint::new(url).and_then(|endpoint| endpoint.with_token(token));
        let url = || without_query(url).to_owned();
        let endpoint = endpoint.map_err(|error| match error {
            EndpointError::BadUrl { url, reason } => ClientError::BadUrl { url, reason },
            EndpointError::BadHeader(_) => ClientError::BadUrl {
                url: url(),
                reason: "the token contains characters that a header cannot carry".to_owned(),
            },
        })?;
        let stream = socket::connect(&endpoint, secret);
        let opened = socket::open(&endpoint, stream, timeout).await;
        Ok(Self::start(opened.map_err(|error| ClientError::new(url(), error))?.0))
    }

    /// Connects through a Unix socket, which needs no token. `name` is the name of the socket in errors.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] when no bus answers.
    pub async fn connect_unix(
        stream: UnixStream,
        name: &str,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let opened = socket::open_on(stream, timeout).await;
        Ok(Self::start(opened.map_err(|error| ClientError::new(name.to_owned(), error))?.0))
    }

    fn start(socket: Socket) -> Self {
        let queue = Arc::new(Queue::new(QUEUE_LIMITS));
        let pending = Arc::new(PendingCalls::default());
        let identity = WorkerIdentity {
            name: NAME.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..WorkerIdentity::default()
        };
        let identity = identity_payload(&identity, &[LARGE_MESSAGES]);
        queue.push_control(worker_outbound::identify(&identity));
        let (frames, calls) = (Arc::clone(&queue), Arc::clone(&pending));
        tokio::spawn(async move {
            let handle = |text: &str| {
                if let Ok(ServerFrame::Answer(answer)) = server_frame::parse(text) {
                    calls.complete(answer);
                }
            };
            connection::run(socket, &frames, &calls, Keepalive::default(), handle).await;
            calls.fail_all(|_| connection_lost());
        });
        Self { connection: Arc::new(Connection { queue, pending }) }
    }

    /// Calls a function and waits for its result.
    ///
    /// # Errors
    /// - [`CallError::Remote`] with the code of the callee, or `connection_lost`.
    /// - [`CallError::Timeout`] when there is no answer in time.
    pub async fn call(
        &self,
        function_id: &str,
        data: Json,
        timeout: Duration,
    ) -> Result<Json, CallError> {
        let Connection { queue, pending } = &*self.connection;
        let call = pending.add(function_id);
        let frame = CallFrame {
            function_id,
            data_json: data.as_str(),
            namespace: None,
            metadata_json: None,
        };
        let text = worker_outbound::call(call.id, &frame);
        check_size(&text)?;
        queue.push_call(text).await.map_err(|()| connection_lost())?;
        call.answer(timeout).await.map_err(|error| match error {
            CallError::Disconnected(_) => connection_lost(),
            error => error,
        })
    }
}

fn connection_lost() -> CallError {
    CallError::remote(Code::ConnectionLost, "the connection to the bus was lost")
}
