//! One established connection: reads, writes and keeps alive its WebSocket, in one task.

use std::time::Duration;

use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use skills_net::websocket::close_gracefully;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, protocol::CloseFrame};
use uuid::Uuid;

use super::{pending::PendingCalls, socket::Socket};
use crate::{
    protocol::{frame::Frame, inbound},
    wire::{
        MAX_MESSAGE, MAX_SINGLE_FRAME,
        activity::Activity,
        fragments::send_fragments,
        queue::{CloseReason, Outgoing, Queue, QueueLimits},
    },
};

/// Limits of the send queue. Calls above them wait; above the limits of replies, nothing is read from the server.
pub(super) const QUEUE_LIMITS: QueueLimits = QueueLimits {
    max_calls: 65_536,
    max_call_bytes: 4 * MAX_MESSAGE,
    max_replies: 65_536,
    max_reply_bytes: MAX_MESSAGE,
};

/// Frames that are read before the reader yields to the writer.
const MAX_READ_BURST: u32 = 32;

/// Intervals by which a half-open connection is found.
#[derive(Debug, Clone, Copy)]
pub struct Keepalive {
    /// Interval of pings.
    pub ping_interval: Duration,
    /// Time without any message, not even a pong, after which the connection counts as lost.
    pub idle_timeout: Duration,
    /// Time after which a server that does not read counts as lost.
    pub write_timeout: Duration,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            ping_interval: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
        }
    }
}

/// Runs a connection until it ends, and returns the reason. `handle` gets each text message.
///
/// Calls that are still queued then were not sent and fail at once; calls that were sent keep waiting.
pub(super) async fn run(
    socket: Socket,
    queue: &Queue,
    pending: &PendingCalls,
    keepalive: Keepalive,
    handle: impl FnMut(&str),
) -> String {
    let (mut sink, mut stream) = socket.split();
    let activity = Activity::new();
    let idle = activity.ping_until_idle(queue, keepalive.ping_interval, keepalive.idle_timeout);
    let (reason, close) = tokio::select! {
        biased;
        reason = read(queue, &mut stream, &activity, handle) => (reason, None),
        ended = write(queue, &mut sink, keepalive.write_timeout) => ended,
        () = idle => ("the server sends nothing, not even a pong".to_owned(), None),
    };
    for text in queue.discard() {
        if let Ok(Frame::Invoke(call)) = inbound::parse(&text)
            && let Some(id) = call.invocation_id
            && let Ok(id) = Uuid::try_parse(id.trim_matches('"'))
        {
            pending.fail_unsent(id);
        }
    }
    if let Ok(socket) = stream.reunite(sink) {
        close_gracefully(socket, close, |_| {}).await;
    }
    reason
}

async fn read<S>(
    queue: &Queue,
    stream: &mut S,
    activity: &Activity,
    mut handle: impl FnMut(&str),
) -> String
where
    S: Stream<Item = Result<Message, Error>> + Unpin,
{
    let mut burst = 0;
    loop {
        queue.wait_for_drain(|| activity.record()).await;
        match stream.next().await {
            Some(Ok(Message::Text(text))) => handle(&text),
            Some(Ok(Message::Close(frame))) => {
                let reason = frame.map(|frame| frame.reason.to_string());
                return match reason.filter(|reason| !reason.is_empty()) {
                    Some(reason) => format!("the server closed the connection: {reason}"),
                    None => "the server closed the connection".to_owned(),
                };
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return format!("the connection was lost: {error}"),
            None => return "the connection was lost".to_owned(),
        }
        activity.record();
        burst += 1;
        if burst == MAX_READ_BURST {
            burst = 0;
            tokio::task::yield_now().await;
        }
    }
}

async fn write<S>(
    queue: &Queue,
    sink: &mut S,
    write_timeout: Duration,
) -> (String, Option<CloseFrame>)
where
    S: Sink<Message, Error = Error> + Unpin,
{
    loop {
        let sent = match queue.pop() {
            Some(Outgoing::Frame(text)) if text.len() > MAX_SINGLE_FRAME => {
                send_fragments(sink, text, write_timeout).await
            }
            Some(Outgoing::Frame(text)) => {
                timeout(write_timeout, sink.feed(Message::text(text))).await
            }
            Some(Outgoing::Ping) => {
                timeout(write_timeout, sink.feed(Message::Ping(Bytes::new()))).await
            }
            Some(Outgoing::Close(CloseReason { code, reason })) => {
                let _ = timeout(write_timeout, sink.flush()).await;
                let close = CloseFrame { code: code.into(), reason: reason.into() };
                return (reason.to_owned(), Some(close));
            }
            None => {
                let flushed = timeout(write_timeout, sink.flush()).await;
                if matches!(flushed, Ok(Ok(()))) {
                    queue.wait_ready().await;
                }
                flushed
            }
        };
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return (format!("the connection was lost: {error}"), None),
            Err(_) => return ("the server does not read its messages".to_owned(), None),
        }
    }
}
