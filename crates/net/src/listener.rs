//! Accept loop.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    os::fd::AsFd,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use skills_core::LogLimiter;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use crate::{
    ConnectionLimits, ConnectionSlot,
    connection_limiter::{ConnectionLimiter, Exhausted},
};

/// Connections that the operating system completes while the accept loop is busy, as far as it allows (`somaxconn`). A
/// client beyond them repeats its attempt after a second.
const BACKLOG: i32 = 4096;

/// Delay before the next attempt after `accept` failed, such as for want of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Time in which a rejected client can read its response.
const REJECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Clients that are sent a rejection at once; the connections of others are closed without one.
const MAX_REJECTING: usize = 64;

/// Handling of connections beyond the limits.
#[derive(Debug)]
pub enum Overflow {
    /// Connections beyond the total wait until one can be evicted or ends, all but the first in the backlog of the
    /// operating system; those beyond the limit of one address are closed.
    Wait,
    /// Clients get a response before their request is read: reading it would need the memory they are denied.
    Reject {
        /// HTTP response with its head.
        response: Bytes,
        /// Tracker of the tasks that send it.
        tasks: TaskTracker,
    },
}

impl Overflow {
    /// Creates a policy that rejects clients with status 503 and a JSON body.
    #[must_use]
    pub fn reject_with_json(body: &str, retry_after_seconds: u32, tasks: TaskTracker) -> Self {
        let response = format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: \
             {retry_after_seconds}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        Self::Reject { response: response.into(), tasks }
    }
}

/// Addresses of a connection; [`HttpServer`](crate::HttpServer) makes them an extension of requests.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionAddresses {
    /// Address of the client.
    pub peer: SocketAddr,
    /// Address of this process that the client connected to, if the socket still has it.
    pub local: Option<SocketAddr>,
    /// Set on a Unix socket, where the operating system has identified the client as the user of this process.
    pub is_owner: bool,
}

/// Accepted connection with its slot in the connection limit.
#[derive(Debug)]
pub struct AcceptedConnection {
    /// Addresses of both ends.
    pub addresses: ConnectionAddresses,
    /// Slot of the connection in the connection limit.
    pub slot: ConnectionSlot,
}

/// Socket that accepts connections: TCP or Unix.
pub trait Accept: AsFd + Send + Sync {
    /// Byte stream of a connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Set if connections are those of the user of this process only.
    const IS_OWNER_ONLY: bool;

    /// Accepts a connection. Returns it with the address of the client and that of this process.
    fn accept(
        &self,
    ) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr, Option<SocketAddr>)>> + Send;

    /// Makes a stream send small writes at once, or not.
    fn set_nodelay(stream: &Self::Stream, nodelay: bool);
}

impl Accept for TcpListener {
    type Stream = TcpStream;
    const IS_OWNER_ONLY: bool = false;

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr, Option<SocketAddr>)> {
        let (stream, peer) = Self::accept(self).await?;
        // Without it a small response can wait 40 ms for the acknowledgement of the one before it.
        <Self as Accept>::set_nodelay(&stream, true);
        let local = stream.local_addr().ok();
        Ok((stream, peer, local))
    }

    fn set_nodelay(stream: &TcpStream, nodelay: bool) {
        if let Err(error) = stream.set_nodelay(nodelay) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
    }
}

/// Connections count as those of the loopback address. Other users are refused, whatever the mode of the socket is; root
/// can read the files of this process anyway.
impl Accept for UnixListener {
    type Stream = UnixStream;
    const IS_OWNER_ONLY: bool = true;

    async fn accept(&self) -> io::Result<(UnixStream, SocketAddr, Option<SocketAddr>)> {
        let (stream, _) = Self::accept(self).await?;
        let user = stream.peer_cred()?.uid();
        if user != 0 && user != rustix::process::geteuid().as_raw() {
            tracing::warn!(user, "connection of another user refused");
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok((stream, (Ipv4Addr::LOCALHOST, 0).into(), None))
    }

    fn set_nodelay(_: &UnixStream, _: bool) {}
}

/// Listener with a connection limit.
#[derive(Debug)]
pub struct Listener<L = TcpListener> {
    socket: L,
    name: &'static str,
    limiter: ConnectionLimiter,
    overflow: Overflow,
    rejecting: Arc<Semaphore>,
    limit_log: LogLimiter,
    address_log: LogLimiter,
    error_log: LogLimiter,
}

impl<L: Accept> Listener<L> {
    /// Creates a listener. Log lines have its name.
    #[must_use]
    pub fn new(
        socket: L,
        name: &'static str,
        limits: ConnectionLimits,
        overflow: Overflow,
    ) -> Self {
        // The socket listens already, with the smaller backlog of the standard library.
        if let Err(error) = rustix::net::listen(&socket, BACKLOG) {
            tracing::debug!(%error, "cannot extend the backlog");
        }
        Self {
            socket,
            name,
            limiter: ConnectionLimiter::new(limits),
            overflow,
            rejecting: Arc::new(Semaphore::new(MAX_REJECTING)),
            limit_log: LogLimiter::default(),
            address_log: LogLimiter::default(),
            error_log: LogLimiter::default(),
        }
    }

    /// Accepts the next connection within the limits. Errors of `accept` are retried. Dropping the future closes a
    /// connection that waits for its slot.
    pub async fn accept(&self) -> (L::Stream, AcceptedConnection) {
        loop {
            let (stream, peer, local) = match self.socket.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    self.handle_error(&error).await;
                    continue;
                }
            };
            let Some(slot) = self.acquire(peer).await else {
                self.reject(stream, peer);
                continue;
            };
            let addresses = ConnectionAddresses { peer, local, is_owner: L::IS_OWNER_ONLY };
            return (stream, AcceptedConnection { addresses, slot });
        }
    }

    async fn acquire(&self, peer: SocketAddr) -> Option<ConnectionSlot> {
        match self.limiter.try_acquire(peer.ip()) {
            Ok(slot) => return Some(slot),
            Err(Exhausted::Total) if matches!(self.overflow, Overflow::Wait) => {}
            Err(_) => return None,
        }
        if let Some(suppressed) = self.limit_log.check(Instant::now()) {
            tracing::warn!(
                listener = self.name,
                suppressed,
                "connection limit reached: clients wait"
            );
        }
        self.limiter.acquire(peer.ip()).await.ok()
    }

    async fn handle_error(&self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        // These concern a single connection.
        if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
            return;
        }
        if let Some(suppressed) = self.error_log.check(Instant::now()) {
            tracing::warn!(listener = self.name, %error, suppressed, "cannot accept connections");
        }
        sleep(ACCEPT_RETRY).await;
    }

    fn reject(&self, stream: L::Stream, peer: SocketAddr) {
        if let Some(suppressed) = self.address_log.check(Instant::now()) {
            tracing::warn!(
                listener = self.name, address = %peer.ip(), suppressed,
                "connection rejected: too many are open"
            );
        }
        if let Overflow::Reject { response, tasks } = &self.overflow
            && let Ok(permit) = Arc::clone(&self.rejecting).try_acquire_owned()
        {
            let response = response.clone();
            tasks.spawn(async move {
                let _permit = permit;
                let _ = timeout(REJECT_TIMEOUT, send_and_close(stream, &response)).await;
            });
        }
    }
}

async fn send_and_close<S>(mut stream: S, response: &[u8]) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    stream.write_all(response).await?;
    stream.shutdown().await?;
    // Closing a socket with unread bytes resets it, and the client might never see the response.
    let mut unread = [0; 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn listener(total: usize, overflow: Overflow) -> (Listener, SocketAddr) {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let limits = ConnectionLimits {
            total,
            per_address: total,
            per_loopback_address: 2 * total,
            handshakes: None,
        };
        (Listener::new(tcp, "test", limits, overflow), address)
    }

    #[tokio::test]
    async fn connections_beyond_the_total_wait_while_all_are_in_use() {
        let (listener, address) = listener(1, Overflow::Wait).await;
        let _clients = [TcpStream::connect(address), TcpStream::connect(address)].map(tokio::spawn);
        let (_stream, first) = listener.accept().await;
        let request = first.slot.begin_request(false).unwrap();
        let second = listener.accept();
        tokio::pin!(second);
        assert!(timeout(Duration::from_millis(50), second.as_mut()).await.is_err());
        drop(request);
        assert!(timeout(Duration::from_secs(60), second).await.is_ok());
        timeout(Duration::from_secs(60), first.slot.evicted()).await.expect("it did nothing");
    }

    #[tokio::test]
    async fn clients_beyond_the_total_get_503() {
        let tasks = TaskTracker::new();
        let overflow = Overflow::reject_with_json("{}", 5, tasks);
        let (listener, address) = listener(1, overflow).await;
        let _first = TcpStream::connect(address).await.unwrap();
        let (_stream, first) = listener.accept().await;
        let _request = first.slot.begin_request(false).unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        let mut response = String::new();
        tokio::select! {
            _ = listener.accept() => panic!("accepted"),
            read = second.read_to_string(&mut response) => drop(read.unwrap()),
        }
        assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
        assert!(response.contains("retry-after: 5\r\n") && response.ends_with("\r\n\r\n{}"));
    }
}
