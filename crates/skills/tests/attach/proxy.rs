//! A network between the two that can be cut, slowed down, half closed and made to swallow everything.

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

/// How the network is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    Fine,
    /// Everything arrives this much later.
    Slow(Duration),
    /// Nothing arrives, and what was sent is never heard of again if the connection is then cut.
    Blackhole,
}

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Worker,
    Engine,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    weather: watch::Sender<Weather>,
    /// Whether new connections are taken.
    open: watch::Sender<bool>,
    connections: Mutex<Vec<Link>>,
    largest: AtomicU64,
    /// How connections began, from the worker's side.
    greetings: Mutex<Vec<String>>,
}

#[derive(Clone)]
struct Link {
    cut: CancellationToken,
    /// Ends what flows to one side.
    ends: [CancellationToken; 2],
}

impl Proxy {
    pub(crate) async fn before(engine: SocketAddr) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            weather: watch::Sender::new(Weather::Fine),
            open: watch::Sender::new(true),
            connections: Mutex::default(),
            largest: AtomicU64::new(0),
            greetings: Mutex::default(),
        });
        let this = Arc::clone(&proxy);
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                // A connection that is dropped here is one that was refused.
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
        let link = Link { cut: CancellationToken::new(), ends: Default::default() };
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

    /// Moves bytes one way until either side ends it.
    async fn pump(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, link: &Link, side: Side) {
        let end = &link.ends[usize::from(side == Side::Engine)];
        let mut weather = self.weather.subscribe();
        let mut measure = Measure::default();
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
            measure.take(&buffer[..count]);
            if side == Side::Engine
                && let Some(greeting) = measure.greeting.take()
            {
                self.greetings.lock().unwrap().push(greeting);
            }
            self.largest.fetch_max(measure.largest, Ordering::Relaxed);
            let now = *weather.borrow_and_update();
            if let Weather::Slow(delay) = now {
                sleep(delay).await;
            }
            let _ = weather.wait_for(|weather| *weather != Weather::Blackhole).await;
            if to.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }

    /// Takes new connections, or not.
    pub(crate) fn open(&self, open: bool) {
        self.open.send_replace(open);
    }

    /// Ends every connection; what was under way is lost.
    pub(crate) fn cut(&self) {
        for link in self.connections.lock().unwrap().drain(..) {
            link.cut.cancel();
        }
    }

    /// Says the end to one side; the other way still works until that side ends it, too.
    pub(crate) fn half_close(&self, side: Side) {
        for link in &*self.connections.lock().unwrap() {
            link.ends[usize::from(side == Side::Engine)].cancel();
        }
    }

    /// The requests with which connections began so far, in lower case.
    pub(crate) fn greetings(&self) -> Vec<String> {
        self.greetings.lock().unwrap().clone()
    }

    /// The largest WebSocket message so far, either way.
    pub(crate) fn largest_message(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }
}

/// Finds the messages in a stream of WebSocket frames.
#[derive(Default)]
struct Measure {
    /// Of what has not been understood yet; never more than a header.
    header: Vec<u8>,
    is_greeted: bool,
    greeting: Option<String>,
    /// Bytes of the frame's payload that are still to come.
    rest: u64,
    message: u64,
    largest: u64,
}

impl Measure {
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
            if !self.is_greeted {
                // Request and answer of the handshake end with an empty line.
                if self.header.ends_with(b"\r\n\r\n") {
                    self.is_greeted = true;
                    let text = String::from_utf8_lossy(&self.header);
                    self.greeting = Some(text.to_lowercase());
                    self.header.clear();
                }
                continue;
            }
            self.frame();
        }
    }

    /// Reads a frame's header when all of it is there (RFC 6455, 5.2).
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
