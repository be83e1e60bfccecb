//! Proxy between worker and engine that can cut, delay, half close and swallow connections.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

/// Current condition of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkCondition {
    Fine,
    /// Adds a delay to everything.
    Slow(Duration),
    /// Holds everything back; cutting the connection then loses it.
    Blackhole,
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Worker,
    Engine,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    condition: watch::Sender<NetworkCondition>,
    /// Accepts new connections if true.
    open: watch::Sender<bool>,
    connections: Mutex<Vec<ProxiedConnection>>,
    largest: AtomicU64,
    /// Bytes in both directions.
    bytes: AtomicU64,
    /// HTTP requests with which workers connected, in lower case.
    handshakes: Mutex<Vec<String>>,
}

#[derive(Clone)]
struct ProxiedConnection {
    cut: CancellationToken,
    /// Ends the flow towards one side.
    ends: [CancellationToken; 2],
}

impl Proxy {
    pub(crate) async fn start(engine: SocketAddr) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            condition: watch::Sender::new(NetworkCondition::Fine),
            open: watch::Sender::new(true),
            connections: Mutex::default(),
            largest: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            handshakes: Mutex::default(),
        });
        let this = Arc::clone(&proxy);
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                // Dropping the connection refuses it.
                if *this.open.borrow()
                    && let Ok(far) = TcpStream::connect(engine).await
                {
                    this.join(near, far);
                }
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    fn join(self: &Arc<Self>, near: TcpStream, far: TcpStream) {
        near.set_nodelay(true).unwrap();
        far.set_nodelay(true).unwrap();
        let link = ProxiedConnection { cut: CancellationToken::new(), ends: Default::default() };
        self.connections.lock().unwrap().push(link.clone());
        let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
        for (from, to, side) in [(near_in, far_out, Side::Engine), (far_in, near_out, Side::Worker)]
        {
            let (this, link) = (Arc::clone(self), link.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = link.cut.cancelled() => {}
                    () = this.pump(from, to, &link, side) => {}
                }
            });
        }
    }

    /// Copies bytes in one direction until either side ends it.
    async fn pump(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        link: &ProxiedConnection,
        side: Side,
    ) {
        let end = &link.ends[usize::from(side == Side::Engine)];
        let mut condition = self.condition.subscribe();
        let mut meter = MessageMeter::default();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = tokio::select! {
                () = end.cancelled() => 0,
                read = from.read(&mut buffer) => read.unwrap_or(0),
            };
            if count == 0 {
                let _ = to.shutdown().await;
                return;
            }
            self.bytes.fetch_add(count as u64, Ordering::Relaxed);
            meter.take(&buffer[..count]);
            if side == Side::Engine
                && let Some(handshake) = meter.handshake.take()
            {
                self.handshakes.lock().unwrap().push(handshake);
            }
            self.largest.fetch_max(meter.largest, Ordering::Relaxed);
            let now = *condition.borrow_and_update();
            if let NetworkCondition::Slow(delay) = now {
                sleep(delay).await;
            }
            let passes = |now: &NetworkCondition| *now != NetworkCondition::Blackhole;
            let _ = condition.wait_for(passes).await;
            if to.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    }

    pub(crate) fn set(&self, condition: NetworkCondition) {
        self.condition.send_replace(condition);
    }

    /// Accepts or refuses new connections.
    pub(crate) fn open(&self, open: bool) {
        self.open.send_replace(open);
    }

    /// Ends every connection and loses data in flight.
    pub(crate) fn cut(&self) {
        for link in self.connections.lock().unwrap().drain(..) {
            link.cut.cancel();
        }
    }

    /// Ends the flow towards one side; the other direction works until that side closes.
    pub(crate) fn half_close(&self, side: Side) {
        for link in &*self.connections.lock().unwrap() {
            link.ends[usize::from(side == Side::Engine)].cancel();
        }
    }

    /// Returns the HTTP requests with which workers connected, in lower case.
    pub(crate) fn handshakes(&self) -> Vec<String> {
        self.handshakes.lock().unwrap().clone()
    }

    /// Returns the bytes that were sent so far, in both directions.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the size of the largest WebSocket message so far, in both directions.
    pub(crate) fn largest_message(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }
}

/// Measures the messages in a stream of WebSocket frames.
#[derive(Default)]
struct MessageMeter {
    /// Bytes not parsed yet, at most one header.
    header: Vec<u8>,
    has_handshake: bool,
    handshake: Option<String>,
    /// Bytes of the frame's payload still to come.
    rest: u64,
    message: u64,
    largest: u64,
}

impl MessageMeter {
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let skipped = self.rest.min(bytes.len() as u64);
                self.rest -= skipped;
                bytes = &bytes[usize::try_from(skipped).unwrap()..];
                continue;
            }
            self.header.push(bytes[0]);
            bytes = &bytes[1..];
            if !self.has_handshake {
                // Request and response of the handshake end with an empty line.
                if self.header.ends_with(b"\r\n\r\n") {
                    self.has_handshake = true;
                    let text = String::from_utf8_lossy(&self.header);
                    self.handshake = Some(text.to_lowercase());
                    self.header.clear();
                }
                continue;
            }
            self.frame();
        }
    }

    /// Parses a complete frame header (RFC 6455, 5.2).
    fn frame(&mut self) {
        let &[first, second, ..] = self.header.as_slice() else { return };
        let extended = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask = if second & 0x80 == 0 { 0 } else { 4 };
        if self.header.len() < 2 + extended + mask {
            return;
        }
        self.rest = match extended {
            0 => u64::from(second & 0x7f),
            count => {
                let digits = &self.header[2..2 + count];
                digits.iter().fold(0, |number, digit| number << 8 | u64::from(*digit))
            }
        };
        self.header.clear();
        let (is_last, opcode) = (first & 0x80 != 0, first & 0x0f);
        if opcode < 8 {
            self.message += self.rest;
            self.largest = self.largest.max(self.message);
            if is_last {
                self.message = 0;
            }
        }
    }
}
