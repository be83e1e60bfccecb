//! Byte streams of connections: sockets, with TLS or without, and the check of the login.
//!
//! The client library would open them itself, but lets nobody see what a server asks for. So it gets a stream that is ready
//! for the login, as one whose TLS is negotiated directly.

use std::{
    future::{Ready, ready},
    io,
    net::IpAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::{TcpStream, UnixStream},
    time::timeout,
};
use tokio_postgres::{
    Config,
    config::{Host, SslMode, SslNegotiation},
    tls::{ChannelBinding, TlsConnect, TlsStream},
};

use crate::{
    PgError,
    auth::{AuthGuard, AuthRules},
    tls::TlsClient,
    url::HostAddress,
};

/// Request for TLS, which a server answers with one byte.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Stream to a server, whose requests for a login are checked.
pub(crate) struct PgStream {
    inner: Box<dyn Stream>,
    /// Binding of the login to the certificate of the server.
    binding: Option<Vec<u8>>,
    guard: AuthGuard,
}

impl PgStream {
    /// Connects to one address, and negotiates TLS. `config` has the settings for the address.
    pub(crate) async fn open(
        address: &HostAddress,
        config: &Config,
        tls: &TlsClient,
        rules: &AuthRules,
    ) -> Result<Self, PgError> {
        let failed =
            |error: io::Error| PgError::Unavailable(format!("error connecting to server: {error}"));
        let limit = config.get_connect_timeout().copied().unwrap_or(Duration::MAX);
        let late = || io::Error::new(io::ErrorKind::TimedOut, "connection timed out");
        let (name, ip) = match (&address.host, address.address) {
            (Host::Unix(dir), None) => {
                let path = dir.join(format!(".s.PGSQL.{}", address.port));
                let socket = timeout(limit, UnixStream::connect(path)).await;
                let socket = socket.unwrap_or_else(|_| Err(late())).map_err(failed)?;
                return Ok(Self::plain(socket, rules.guard(true)));
            }
            (Host::Tcp(name), Some(ip)) => (name.clone(), ip),
            (Host::Unix(_), Some(ip)) => (ip.to_string(), ip),
            (Host::Tcp(name), None) => {
                return Err(PgError::Unavailable(format!("{name} has no address")));
            }
        };
        let socket = timeout(limit, TcpStream::connect((ip, address.port))).await;
        let mut socket = socket.unwrap_or_else(|_| Err(late())).map_err(failed)?;
        set_options(&socket, config).map_err(failed)?;
        if !negotiate_tls(&mut socket, config).await? {
            return Ok(Self::plain(socket, rules.guard(is_private(config.get_ssl_mode(), ip))));
        }
        let (stream, binding) = tls.connect(&name, socket).await?;
        Ok(Self { inner: Box::new(stream), binding, guard: rules.guard(true) })
    }

    fn plain(socket: impl Stream + 'static, guard: AuthGuard) -> Self {
        Self { inner: Box::new(socket), binding: None, guard }
    }
}

/// Returns whether a connection without TLS may show the password: the user has chosen that, or it stays on this machine.
fn is_private(mode: SslMode, ip: IpAddr) -> bool {
    mode == SslMode::Disable || ip.to_canonical().is_loopback()
}

/// Sets keepalives and the timeout of TCP.
fn set_options(socket: &TcpStream, config: &Config) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    #[cfg(target_os = "linux")]
    if let Some(timeout) = config.get_tcp_user_timeout() {
        socket.set_tcp_user_timeout(Some(*timeout))?;
    }
    if !config.get_keepalives() {
        return Ok(());
    }
    let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
    if let Some(interval) = config.get_keepalives_interval() {
        keepalive = keepalive.with_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        keepalive = keepalive.with_retries(retries);
    }
    socket.set_tcp_keepalive(&keepalive)
}

/// Asks for TLS, and returns whether the handshake follows.
async fn negotiate_tls(socket: &mut TcpStream, config: &Config) -> Result<bool, PgError> {
    let broken = |error: io::Error| {
        PgError::Unavailable(format!("error communicating with the server: {error}"))
    };
    match (config.get_ssl_mode(), config.get_ssl_negotiation()) {
        (SslMode::Disable, _) => return Ok(false),
        (SslMode::Require, SslNegotiation::Direct) => return Ok(true),
        (_, SslNegotiation::Direct) => {
            return Err(PgError::Configuration(
                "sslnegotiation=direct needs sslmode=require or a stronger one".to_owned(),
            ));
        }
        _ => {}
    }
    socket.write_all(&TLS_REQUEST).await.map_err(broken)?;
    let mut answer = [0];
    // No more than this byte: what follows it has to be part of the handshake.
    socket.read_exact(&mut answer).await.map_err(broken)?;
    match (&answer, config.get_ssl_mode()) {
        (b"S", _) => Ok(true),
        (b"N", SslMode::Require) => {
            Err(PgError::Configuration("server does not support TLS".to_owned()))
        }
        (b"N", _) => Ok(false),
        // An error, whose text nobody has vouched for.
        _ => Err(PgError::Unavailable("unexpected message from server".to_owned())),
    }
}

impl AsyncRead for PgStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        if !self.guard.is_done() {
            self.guard.check(&buffer.filled()[start..])?;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PgStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl TlsStream for PgStream {
    fn channel_binding(&self) -> ChannelBinding {
        match &self.binding {
            Some(binding) => ChannelBinding::tls_server_end_point(binding.clone()),
            None => ChannelBinding::none(),
        }
    }
}

/// TLS of a stream whose TLS is negotiated already.
pub(crate) struct Negotiated;

impl TlsConnect<PgStream> for Negotiated {
    type Stream = PgStream;
    type Error = io::Error;
    type Future = Ready<io::Result<PgStream>>;

    fn connect(self, stream: PgStream) -> Self::Future {
        ready(Ok(stream))
    }
}

/// Logs in on a stream.
pub(crate) async fn log_in(
    stream: PgStream,
    config: &Config,
) -> Result<(tokio_postgres::Client, tokio_postgres::Connection<PgStream, PgStream>), PgError> {
    let mut config = config.clone();
    config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
    let connected = config.connect_raw(stream, Negotiated).await;
    connected.map_err(|error| PgError::from_connect(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_or_the_user_makes_a_connection_without_tls_private() {
        for (mode, ip, expected) in [
            (SslMode::Prefer, "127.0.0.1", true),
            (SslMode::Prefer, "::1", true),
            (SslMode::Prefer, "::ffff:127.0.0.1", true),
            (SslMode::Prefer, "10.0.0.1", false),
            (SslMode::Prefer, "192.168.0.1", false),
            (SslMode::Prefer, "fe80::1", false),
            (SslMode::Prefer, "8.8.8.8", false),
            (SslMode::Disable, "10.0.0.1", true),
            (SslMode::Disable, "8.8.8.8", true),
        ] {
            assert_eq!(is_private(mode, ip.parse().unwrap()), expected, "{mode:?} {ip}");
        }
    }
}
