//! Opens a connection: TCP, TLS, the WebSocket handshake, and the greeting of the server.

use std::{
    fmt,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use skills_core::Code;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, ToSocketAddrs},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message, handshake::client::Request, http::StatusCode, protocol::WebSocketConfig,
    },
};

use super::{Endpoint, WorkerOptions};
use crate::{
    protocol::server_frame::{self, Greeting, Rejection, ServerFrame},
    wire::MAX_MESSAGE,
};

/// Read buffer of a connection.
const READ_BUFFER_BYTES: usize = 32 << 10;

/// Header of every response of the HTTP port, whose WebSockets are those of another protocol. A bus does not send it.
const HTTP_PORT_HEADER: &str = "x-request-id";

/// Byte stream of a connection: TCP, TLS or a Unix socket.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Opener of connections for a client that reconnects, such as through a Unix socket, or to a server that must prove its
/// identity each time.
#[async_trait]
pub trait Dialer: fmt::Debug + Send + Sync {
    /// Opens a connection on which the headers of the handshake may be sent.
    ///
    /// # Errors
    /// When there is no such connection; the client tries again later.
    async fn dial(&self) -> Result<Box<dyn ByteStream>, DialError>;
}

/// Failed attempt of a [`Dialer`].
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// No server answers.
    #[error("{0}")]
    Unreachable(String),
    /// The server did not prove its identity.
    #[error("{0}")]
    Unproven(String),
}

impl From<DialError> for ConnectError {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Unreachable(reason) => Self::Unreachable(reason),
            DialError::Unproven(reason) => Self::Unproven(reason),
        }
    }
}

pub(super) type Socket = WebSocketStream<Box<dyn ByteStream>>;

/// Failed attempt to connect.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// No server answers there, or not as a bus does.
    Unreachable(String),
    /// A server answers there, which is not a bus.
    NotABus(String),
    /// The server did not prove its identity and was sent no credential.
    Unproven(String),
    /// The server requires a token, or another one.
    Unauthorized,
    /// The server accepts no connections at the moment.
    Unavailable { code: Code, reason: String },
    /// The server has rejected this worker for good.
    Rejected(Rejection),
}

impl ConnectError {
    /// Returns the reason, for a log and for the state of the connection.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Unreachable(reason)
            | Self::NotABus(reason)
            | Self::Unproven(reason)
            | Self::Unavailable { reason, .. } => reason.clone(),
            Self::Unauthorized => "it refused the token or requires one (401)".to_owned(),
            Self::Rejected(rejection) => rejection.code.clone(),
        }
    }
}

/// Awaits a stream, performs the handshake of an endpoint on it, and returns the socket with the greeting of the server,
/// all within `limit`.
pub(super) async fn open(
    endpoint: &Endpoint,
    stream: impl Future<Output = Result<Box<dyn ByteStream>, ConnectError>>,
    limit: Duration,
) -> Result<(Socket, Greeting), ConnectError> {
    let opening = async {
        let stream = stream.await?;
        let request = endpoint.request().map_err(ConnectError::Unreachable)?;
        handshake(request, stream).await
    };
    within(limit, opening).await
}

/// Opens the byte stream of a worker: through its dialer, or to its endpoint.
pub(super) async fn dial(options: &WorkerOptions) -> Result<Box<dyn ByteStream>, ConnectError> {
    match &options.dialer {
        Some(dialer) => Ok(dialer.dial().await?),
        None => connect(&options.endpoint).await,
    }
}

async fn within<T>(
    limit: Duration,
    opening: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    timeout(limit, opening).await.unwrap_or_else(|_| {
        Err(ConnectError::Unreachable(format!("no answer within {} ms", limit.as_millis())))
    })
}

/// Opens the byte stream of an endpoint.
pub(super) async fn connect(endpoint: &Endpoint) -> Result<Box<dyn ByteStream>, ConnectError> {
    let unreachable = |error: std::io::Error| ConnectError::Unreachable(error.to_string());
    let tls = endpoint.tls().await.map_err(ConnectError::Unreachable)?;
    let address = (endpoint.host.as_str(), endpoint.port);
    let tcp = QuickAckStream::connect(address).await.map_err(unreachable)?;
    Ok(match tls {
        Some((tls, name)) => Box::new(tls.connect(name, tcp).await.map_err(unreachable)?),
        None => Box::new(tcp),
    })
}

/// Performs the WebSocket handshake and waits for the greeting.
async fn handshake(
    request: Request,
    stream: Box<dyn ByteStream>,
) -> Result<(Socket, Greeting), ConnectError> {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE));
    let handshake = tokio_tungstenite::client_async_with_config(request, stream, Some(config));
    let (mut socket, response) = handshake.await.map_err(|error| match error {
        Error::Http(response) if response.status() == StatusCode::UNAUTHORIZED => {
            ConnectError::Unauthorized
        }
        Error::Http(response) if response.status() == StatusCode::SERVICE_UNAVAILABLE => {
            unavailable(response.body().as_deref())
        }
        Error::Http(response) => ConnectError::NotABus(format!(
            "it answers with HTTP status {}",
            response.status().as_u16()
        )),
        other => ConnectError::Unreachable(other.to_string()),
    })?;
    if response.headers().contains_key(HTTP_PORT_HEADER) {
        let reason = "it is an HTTP port, the bus has another one".to_owned();
        return Err(ConnectError::NotABus(reason));
    }
    let greeting = greeting(&mut socket).await?;
    Ok((socket, greeting))
}

/// Returns code and message in the body of a refused handshake. The body may be missing: it need not arrive with the head.
fn unavailable(body: Option<&[u8]>) -> ConnectError {
    let body = body.and_then(|body| serde_json::from_slice::<serde_json::Value>(body).ok());
    let text = |name: &str| body.as_ref().and_then(|body| body["error"][name].as_str());
    let code = text("code").map(Code::from_remote);
    ConnectError::Unavailable {
        code: code.filter(|code| *code != Code::Remote).unwrap_or(Code::Unreachable),
        reason: text("message").unwrap_or("it answers with HTTP status 503").to_owned(),
    }
}

/// Waits for the greeting. An engine that refuses the connection sends an error instead.
async fn greeting(socket: &mut Socket) -> Result<Greeting, ConnectError> {
    loop {
        let text = match socket.next().await {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(_))) | None => {
                return Err(ConnectError::Unreachable("it closed the connection".to_owned()));
            }
            Some(Ok(_)) => continue,
            Some(Err(error)) => return Err(ConnectError::Unreachable(error.to_string())),
        };
        match server_frame::parse(&text) {
            Ok(ServerFrame::Greeting(greeting)) => return Ok(greeting),
            Ok(ServerFrame::Error(error)) => {
                let reason =
                    format!("it refused the connection: {} ({})", error.message, error.code);
                return Err(ConnectError::Unreachable(reason));
            }
            Ok(ServerFrame::Rejected(rejection)) => return Err(ConnectError::Rejected(rejection)),
            Ok(_) => {}
            Err(error) => {
                return Err(ConnectError::Unreachable(format!("it does not speak iii: {error}")));
            }
        }
    }
}

/// TCP stream that acknowledges what it reads at once.
///
/// A server that leaves Nagle's algorithm on holds its next small frame back until the last one is acknowledged, and
/// Linux delays acknowledgements by 40 ms. The option is not permanent, so it is set again after each read.
#[derive(Debug)]
pub struct QuickAckStream(TcpStream);

impl QuickAckStream {
    /// Connects with `TCP_NODELAY`, whatever the server advertises.
    ///
    /// # Errors
    /// When no server answers at the address.
    pub async fn connect(address: impl ToSocketAddrs) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Returns the addresses of both ends: the local one and that of the peer.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn addresses(&self) -> std::io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.0.local_addr()?, self.0.peer_addr()?))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn acknowledge(&self) {
        let _ = socket2::SockRef::from(&self.0).set_tcp_quickack(true);
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn acknowledge(&self) {}
}

impl AsyncRead for QuickAckStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.0).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.acknowledge();
        }
        polled
    }
}

impl AsyncWrite for QuickAckStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn small_writes_and_acknowledgements_are_sent_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut stream = QuickAckStream::connect(("127.0.0.1", port)).await.unwrap();
        assert!(stream.0.nodelay().unwrap());
        let (mut peer, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            peer.write_all(b"x").await.unwrap();
            assert_eq!(stream.read_u8().await.unwrap(), b'x');
            // The next write ends it again.
            #[cfg(target_os = "linux")]
            assert!(socket2::SockRef::from(&stream.0).tcp_quickack().unwrap());
            stream.write_all(b"y").await.unwrap();
            assert_eq!(peer.read_u8().await.unwrap(), b'y');
        }
    }
}
