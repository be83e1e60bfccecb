//! Port that a test keeps while no server listens on it.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Port of a server that stops and starts again during a test.
///
/// A port that is merely free may be given to any other socket of the machine before the server is back, even to the
/// client that tries to reach it. A bound socket that does not listen prevents that: connections are refused, and the
/// system gives the port to no other socket.
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    _socket: TcpSocket,
}

impl ReservedPort {
    /// Reserves a free port of the loopback interface.
    #[must_use]
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Self { address: socket.local_addr().unwrap(), _socket: socket }
    }

    /// Returns the address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens on the port until the listener is dropped.
    #[must_use]
    pub fn listen(&self) -> TcpListener {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.set_reuseport(true).unwrap();
        socket.bind(self.address).unwrap();
        socket.listen(1024).unwrap()
    }
}

impl Default for ReservedPort {
    fn default() -> Self {
        Self::new()
    }
}
