//! One socket: a reader that hands each frame to `route`, a writer that empties the peer's queue,
//! and a keepalive, all in one task. They run side by side, because an SDK may be unable to read
//! while it writes: a hub that did the same would wait for it for ever.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::{Instant, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Bytes, Error, Message,
        protocol::{
            CloseFrame,
            frame::{
                Frame,
                coding::{Data, OpCode},
            },
        },
    },
};

use super::{
    Hub,
    identify::SAFE_FRAME,
    peer::Peer,
    queue::{Close, Next},
    route,
};
use crate::{
    CallError,
    protocol::{TELEMETRY, outbound},
};

/// Messages that not every peer takes are sent in frames of this size. The WebSocket library moves
/// what is left of its buffer after each write, which for one large frame is quadratic.
const FRAGMENT: usize = 256 * 1024;

/// How long the two ends may take to part.
const FAREWELL: Duration = Duration::from_secs(1);

/// After so many frames in a row the reader lets the writer go first.
const BURST: u32 = 32;

/// Why a connection ended.
#[derive(Debug)]
enum Ending {
    /// The peer left, or its socket broke.
    Left,
    /// The peer must be told why.
    Close(Close),
    /// The hub stops, and no time is left.
    Stopped,
}

const fn closing(code: u16, reason: &'static str) -> Ending {
    Ending::Close(Close { code, reason })
}

/// Serves a worker until its connection ends.
pub(super) async fn serve<S>(hub: Hub, socket: WebSocketStream<S>, address: Option<SocketAddr>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let peer = Arc::new(Peer::new(&hub.inner.config, address));
    // Before anything the peer sends can be answered.
    peer.queue.push(outbound::worker_registered(&peer.id, &peer.reattach_token));
    hub.join(&peer);
    tracing::debug!(worker = peer.id, ?address, "worker connected");

    let (mut sink, mut stream) = socket.split();
    let clock = Clock::new();
    let ending = tokio::select! {
        biased;
        () = hub.inner.stop.cancelled() => Ending::Stopped,
        ending = read(&hub, &peer, &mut stream, &clock) => ending,
        ending = write(&hub, &peer, &mut sink) => ending,
        ending = keep_alive(&hub, &peer, &clock) => ending,
    };
    hub.leave(&peer);
    peer.queue.abandon();
    tracing::debug!(worker = peer.id, ?ending, "connection ended");
    if let Ok(socket) = stream.reunite(sink) {
        part(socket, ending).await;
    }
}

/// Reads and drops whatever comes: telemetry that nobody collects here.
pub(super) async fn drain<S>(hub: Hub, mut socket: WebSocketStream<S>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut ping = tokio::time::interval(hub.inner.config.ping_every);
    let silence = hub.inner.config.silence;
    let mut heard = Instant::now();
    let ending = loop {
        tokio::select! {
            () = hub.inner.stop.cancelled() => break Ending::Stopped,
            () = hub.inner.closing.cancelled() => break closing(1012, "the hub is shutting down"),
            message = socket.next() => match message {
                Some(Ok(Message::Close(_))) | None => break Ending::Left,
                Some(Ok(_)) => heard = Instant::now(),
                Some(Err(error)) => break ending_of(&error),
            },
            _ = ping.tick() => {
                let sent = timeout(hub.inner.config.stall, socket.send(Message::Ping(Bytes::new()))).await;
                if heard.elapsed() > silence || !matches!(sent, Ok(Ok(()))) {
                    break Ending::Left;
                }
            }
        }
    };
    part(socket, ending).await;
}

/// When the peer was last heard, in milliseconds since the connection began.
struct Clock {
    start: Instant,
    heard: AtomicU64,
}

impl Clock {
    fn new() -> Self {
        Self { start: Instant::now(), heard: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn hear(&self) {
        self.heard.store(self.now(), Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.heard.load(Ordering::Relaxed)))
    }
}

async fn read<S>(hub: &Hub, peer: &Arc<Peer>, stream: &mut S, clock: &Clock) -> Ending
where
    S: Stream<Item = Result<Message, Error>> + Unpin,
{
    let mut burst = 0;
    loop {
        peer.queue.settled(|| clock.hear()).await;
        peer.calm(hub.inner.config.max_open_calls).await;
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return ending_of(&error),
            None => return Ending::Left,
        };
        clock.hear();
        // A connection that was replaced has nothing more to say.
        let text = match &message {
            _ if peer.is_gone() => None,
            Message::Text(text) => Some(text.as_str()),
            Message::Binary(bytes) if TELEMETRY.iter().any(|prefix| bytes.starts_with(prefix)) => {
                None
            }
            Message::Binary(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Some(text),
                Err(_) => {
                    peer.complain(&CallError::remote(
                        "malformed_frame",
                        "a binary frame must be JSON in UTF-8",
                    ));
                    None
                }
            },
            Message::Close(_) => return Ending::Left,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => None,
        };
        if let Some(text) = text {
            route::frame(hub, peer, text);
        }
        burst += 1;
        if burst == BURST {
            burst = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// What a broken stream means. RFC 6455 wants the peer told of what it did wrong.
fn ending_of(error: &Error) -> Ending {
    match error {
        Error::Capacity(_) => closing(1009, "the message is too large"),
        Error::Utf8(_) => closing(1007, "a text frame must be UTF-8"),
        Error::Protocol(
            tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
        ) => Ending::Left,
        Error::Protocol(_) => closing(1002, "protocol error"),
        _ => Ending::Left,
    }
}

async fn write<S>(hub: &Hub, peer: &Peer, sink: &mut S) -> Ending
where
    S: Sink<Message, Error = Error> + Unpin,
{
    let stall = hub.inner.config.stall;
    loop {
        let sent = match peer.queue.pop() {
            Some(Next::Frame(text)) if text.len() > SAFE_FRAME => {
                // What is before it need not wait for the peer to say what it is.
                match timeout(stall, sink.flush()).await {
                    Ok(Ok(())) => {}
                    _ => return Ending::Left,
                }
                let capacity = peer.capacity().await.min(hub.inner.config.max_message);
                if text.len() > capacity {
                    route::too_large_for(hub, peer, &text, capacity);
                    continue;
                }
                send_fragments(sink, text, stall).await
            }
            Some(Next::Frame(text)) => timeout(stall, sink.feed(Message::text(text))).await,
            Some(Next::Ping) => timeout(stall, sink.feed(Message::Ping(Bytes::new()))).await,
            Some(Next::Close(close)) => {
                let _ = timeout(stall, sink.flush()).await;
                return Ending::Close(close);
            }
            None => {
                let flushed = timeout(stall, sink.flush()).await;
                if matches!(flushed, Ok(Ok(()))) {
                    peer.queue.ready().await;
                }
                flushed
            }
        };
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Ending::Left,
            Err(_) => {
                tracing::warn!(
                    worker = peer.id,
                    "worker disconnected: it does not read its messages"
                );
                return Ending::Left;
            }
        }
    }
}

async fn send_fragments<S>(
    sink: &mut S,
    text: String,
    stall: Duration,
) -> Result<Result<(), Error>, tokio::time::error::Elapsed>
where
    S: Sink<Message, Error = Error> + Unpin,
{
    let payload = Bytes::from(text);
    let mut start = 0;
    while start < payload.len() {
        let end = payload.len().min(start + FRAGMENT);
        let kind = if start == 0 { Data::Text } else { Data::Continue };
        let frame =
            Frame::message(payload.slice(start..end), OpCode::Data(kind), end == payload.len());
        match timeout(stall, sink.send(Message::Frame(frame))).await {
            Ok(Ok(())) => start = end,
            failed => return failed,
        }
    }
    Ok(Ok(()))
}

async fn keep_alive(hub: &Hub, peer: &Peer, clock: &Clock) -> Ending {
    let mut tick = tokio::time::interval(hub.inner.config.ping_every);
    tick.tick().await;
    loop {
        tick.tick().await;
        if clock.silence() > hub.inner.config.silence {
            tracing::warn!(worker = peer.id, "worker disconnected: nothing was heard from it");
            return closing(1001, "nothing was heard for too long");
        }
        peer.queue.ping();
    }
}

/// Says good-bye, and lets what the peer is still sending run out: a socket that is closed with
/// bytes unread is reset, and the peer might never see why.
async fn part<S>(mut socket: WebSocketStream<S>, ending: Ending)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let farewell = async {
        match ending {
            Ending::Stopped => {}
            Ending::Left => {
                let _ = socket.close(None).await;
            }
            Ending::Close(Close { code, reason }) => {
                let frame = CloseFrame { code: code.into(), reason: reason.into() };
                let _ = socket.close(Some(frame)).await;
                while let Some(Ok(_)) = socket.next().await {}
                let io = socket.get_mut();
                let _ = io.shutdown().await;
                let mut rest = vec![0; 64 * 1024];
                while matches!(io.read(&mut rest).await, Ok(count) if count > 0) {}
            }
        }
    };
    let _ = timeout(FAREWELL, farewell).await;
}
