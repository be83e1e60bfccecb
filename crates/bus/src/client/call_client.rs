//! Client for calls alone, on one connection.
//!
//! It registers nothing and does not reconnect; a process that needs the bus for longer runs a
//! [`WorkerClient`](super::WorkerClient).

use std::{future::ready, sync::Arc, time::Duration};

use skills_core::Code;
use tokio::net::UnixStream;

use super::{
    Endpoint, EndpointError, Keepalive, WorkerIdentity,
    connection::{self, QUEUE_LIMITS},
    options::identity_payload,
    pending::PendingCalls,
    shared::check_size,
    socket::{self, ByteStream, ConnectError, Socket},
};
use crate::{
    CallError, Json,
    address::without_query,
    protocol::{
        LARGE_MESSAGES,
        server_frame::{self, Greeting, ServerFrame},
        worker_outbound::{self, CallFrame},
    },
    wire::queue::{CloseReason, Queue},
};

/// URL in the handshake on a Unix socket.
const UNIX_SOCKET_URL: &str = "ws://localhost";
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
        let endpoint = endpoint(url, token)?;
        let opened = socket::open(&endpoint, socket::connect(&endpoint), timeout).await;
        Self::start(url, opened)
    }

    /// Connects through a stream that is open already, such as one whose server has proved its identity. `url` is the
    /// address of the server in the handshake and in errors.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn connect_on(
        stream: impl ByteStream + 'static,
        url: &str,
        token: Option<&str>,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let stream: Box<dyn ByteStream> = Box::new(stream);
        let opened = socket::open(&endpoint(url, token)?, ready(Ok(stream)), timeout).await;
        Self::start(url, opened)
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
        let stream: Box<dyn ByteStream> = Box::new(stream);
        let opened =
            socket::open(&endpoint(UNIX_SOCKET_URL, None)?, ready(Ok(stream)), timeout).await;
        Self::start(name, opened)
    }

    /// Starts the client on an opened connection to a server, which has this name in errors.
    fn start(
        name: &str,
        opened: Result<(Socket, Greeting), ConnectError>,
    ) -> Result<Self, ClientError> {
        let (socket, _) =
            opened.map_err(|error| ClientError::new(without_query(name).to_owned(), error))?;
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
        Ok(Self { connection: Arc::new(Connection { queue, pending }) })
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

/// Returns the endpoint of a URL.
fn endpoint(url: &str, token: Option<&str>) -> Result<Endpoint, ClientError> {
    let endpoint = Endpoint::new(url).and_then(|endpoint| endpoint.with_token(token));
    endpoint.map_err(|error| match error {
        EndpointError::BadUrl { url, reason } => ClientError::BadUrl { url, reason },
        EndpointError::BadHeader(_) => ClientError::BadUrl {
            url: without_query(url).to_owned(),
            reason: "the token contains characters that a header cannot carry".to_owned(),
        },
    })
}

fn connection_lost() -> CallError {
    CallError::remote(Code::ConnectionLost, "the connection to the bus was lost")
}
