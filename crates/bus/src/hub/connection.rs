//! One WebSocket: a reader that routes each frame, a writer that empties the peer's queue, and a keepalive, all in one
//! task. They run concurrently, because an SDK may be unable to read while it writes: a hub that did the same would
//! deadlock with it.

use std::{net::SocketAddr, sync::Arc};

use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use skills_core::Code;
use skills_net::websocket::close_gracefully;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Bytes, Error, Message, protocol::CloseFrame},
};

use super::{Hub, peer::Peer, route};
use crate::{
    CallError,
    protocol::{TELEMETRY, outbound},
    wire::{
        MAX_SINGLE_FRAME,
        activity::Activity,
        fragments::send_fragments,
        queue::{CloseReason, Outgoing},
    },
};

/// Frames that are read before the reader yields to the writer.
const MAX_READ_BURST: u32 = 32;

/// Reason for the end of a connection.
#[derive(Debug)]
enum Ending {
    /// The peer has disconnected.
    Disconnected,
    /// The hub closes the connection with a reason.
    Close(CloseReason),
    /// The hub stops without a closing handshake.
    Stopped,
}

const fn close_with(code: u16, reason: &'static str) -> Ending {
    Ending::Close(CloseReason { code, reason })
}

/// Serves a worker until its connection ends.
pub(super) async fn serve<S>(
    hub: Hub,
    socket: WebSocketStream<S>,
    address: Option<SocketAddr>,
    is_owner: bool,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let peer = Arc::new(Peer::new(&hub.inner.config, address, is_owner));
    // The first frame, before any reply.
    let mode = hub.inner.config.engine_mode;
    let token = mode.has_reattach_token.then_some(peer.reattach_token.as_str());
    peer.queue.push_control(outbound::worker_registered(&peer.id, token, mode.features));
    hub.add_peer(&peer);
    tracing::debug!(worker = peer.id, ?address, "worker connected");

    let (mut sink, mut stream) = socket.split();
    let activity = Activity::new();
    let ending = tokio::select! {
        biased;
        () = hub.inner.stop.cancelled() => Ending::Stopped,
        ending = read(&hub, &peer, &mut stream, &activity) => ending,
        ending = write(&hub, &peer, &mut sink) => ending,
        ending = keep_alive(&hub, &peer, &activity) => ending,
    };
    hub.remove_peer(&peer);
    drop(peer.queue.discard());
    tracing::debug!(worker = peer.id, ?ending, "connection ended");
    if let Ok(socket) = stream.reunite(sink) {
        close(socket, ending).await;
    }
}

/// Reads and discards telemetry, which the hub does not collect.
pub(super) async fn discard_telemetry<S>(hub: Hub, mut socket: WebSocketStream<S>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut ping = tokio::time::interval(hub.inner.config.ping_interval);
    let mut last_read = Instant::now();
    let ending = loop {
        tokio::select! {
            () = hub.inner.stop.cancelled() => break Ending::Stopped,
            () = hub.inner.closing.cancelled() => break close_with(1012, "the hub is shutting down"),
            message = socket.next() => match message {
                Some(Ok(Message::Close(_))) | None => break Ending::Disconnected,
                Some(Ok(_)) => last_read = Instant::now(),
                Some(Err(error)) => break ending_for(&error),
            },
            _ = ping.tick() => {
                let sent = timeout(hub.inner.config.write_timeout, socket.send(Message::Ping(Bytes::new()))).await;
                if last_read.elapsed() > hub.inner.config.idle_timeout || !matches!(sent, Ok(Ok(()))) {
                    break Ending::Disconnected;
                }
            }
        }
    };
    close(socket, ending).await;
}

async fn read<S>(hub: &Hub, peer: &Arc<Peer>, stream: &mut S, activity: &Activity) -> Ending
where
    S: Stream<Item = Result<Message, Error>> + Unpin,
{
    let mut burst = 0;
    loop {
        peer.queue.wait_for_drain(|| activity.record()).await;
        peer.wait_for_call_slot(hub.inner.config.max_open_calls).await;
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return ending_for(&error),
            None => return Ending::Disconnected,
        };
        activity.record();
        // Frames of a replaced connection are ignored.
        let text = match &message {
            _ if peer.is_gone() => None,
            Message::Text(text) => Some(text.as_str()),
            Message::Binary(bytes) if TELEMETRY.iter().any(|prefix| bytes.starts_with(prefix)) => {
                None
            }
            Message::Binary(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Some(text),
                Err(_) => {
                    peer.send_error(&CallError::remote(
                        Code::MalformedFrame,
                        "a binary frame must be JSON in UTF-8",
                    ));
                    None
                }
            },
            Message::Close(_) => return Ending::Disconnected,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => None,
        };
        if let Some(text) = text {
            route::frame(hub, peer, text);
        }
        burst += 1;
        if burst == MAX_READ_BURST {
            burst = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Maps a stream error to a close code, as RFC 6455 requires.
fn ending_for(error: &Error) -> Ending {
    match error {
        Error::Capacity(_) => close_with(1009, "the message is too large"),
        Error::Utf8(_) => close_with(1007, "a text frame must be UTF-8"),
        Error::Protocol(
            tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
        ) => Ending::Disconnected,
        Error::Protocol(_) => close_with(1002, "protocol error"),
        _ => Ending::Disconnected,
    }
}

async fn write<S>(hub: &Hub, peer: &Peer, sink: &mut S) -> Ending
where
    S: Sink<Message, Error = Error> + Unpin,
{
    let write_timeout = hub.inner.config.write_timeout;
    loop {
        let sent = match peer.queue.pop() {
            Some(Outgoing::Frame(text)) if text.len() > MAX_SINGLE_FRAME => {
                // Earlier frames need not wait for the identity of the peer.
                match timeout(write_timeout, sink.flush()).await {
                    Ok(Ok(())) => {}
                    _ => return Ending::Disconnected,
                }
                let limit = peer.max_message().await.min(hub.inner.config.max_message);
                if text.len() > limit {
                    route::fail_oversized(hub, peer, &text, limit);
                    continue;
                }
                send_fragments(sink, text, write_timeout).await
            }
            Some(Outgoing::Frame(text)) => {
                timeout(write_timeout, sink.feed(Message::text(text))).await
            }
            Some(Outgoing::Ping) => {
                timeout(write_timeout, sink.feed(Message::Ping(Bytes::new()))).await
            }
            Some(Outgoing::Close(close)) => {
                let _ = timeout(write_timeout, sink.flush()).await;
                return Ending::Close(close);
            }
            None => {
                let flushed = timeout(write_timeout, sink.flush()).await;
                if matches!(flushed, Ok(Ok(()))) {
                    peer.queue.wait_ready().await;
                }
                flushed
            }
        };
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Ending::Disconnected,
            Err(_) => {
                tracing::warn!(
                    worker = peer.id,
                    "worker disconnected: it does not read its messages"
                );
                return Ending::Disconnected;
            }
        }
    }
}

async fn keep_alive(hub: &Hub, peer: &Peer, activity: &Activity) -> Ending {
    let config = &hub.inner.config;
    activity.ping_until_idle(&peer.queue, config.ping_interval, config.idle_timeout).await;
    tracing::warn!(worker = peer.id, "worker disconnected: idle for too long");
    close_with(1001, "idle for too long")
}

/// Closes the connection, with the reason if the hub ends it.
async fn close<S>(socket: WebSocketStream<S>, ending: Ending)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let frame = match ending {
        Ending::Stopped => return,
        Ending::Disconnected => None,
        Ending::Close(CloseReason { code, reason }) => {
            Some(CloseFrame { code: code.into(), reason: reason.into() })
        }
    };
    close_gracefully(socket, frame, |_| {}).await;
}
