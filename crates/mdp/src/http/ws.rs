//! Sessions over a WebSocket: a reader that passes each message to the host, and a writer that empties the session's
//! queue, both in one task.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use skills_core::Code;
use skills_http::ErrorResponse;
use skills_net::{
    CredentialClient,
    websocket::{Handshake, UpgradedIo, close_gracefully, upgrade_required},
};
use tokio::time::timeout;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        error::{CapacityError, ProtocolError},
        protocol::{CloseFrame, Role, WebSocketConfig},
    },
};

use super::{
    error_response::MdpErrorResponse,
    pre_auth_limit::{LimitedStream, MessageLimit, ReadStop},
};
use crate::{
    CloseReason, ConnectionMode, MdpHost, Session, SessionError, SessionOutput, wire::WireError,
};

/// Read buffer of each connection, small because most connections are idle.
const READ_BUFFER_BYTES: usize = 8 << 10;

/// Bytes that are buffered before they are written to a connection.
const WRITE_BUFFER_BYTES: usize = 8 << 10;

/// Bytes that the frames of a message may add to it.
const FRAME_OVERHEAD_BYTES: usize = 16 << 10;

/// Messages in a row after which the reader yields.
const READ_BURST: u32 = 32;

/// Handles a path that has only a WebSocket.
pub(super) async fn handle(State(host): State<MdpHost>, request: Request) -> Response {
    upgrade(&host, request)
}

/// Upgrades a request to a WebSocket and serves a session on it.
pub(super) fn upgrade(host: &MdpHost, mut request: Request) -> Response {
    let Some(handshake) = Handshake::from_request(&mut request) else {
        let message = "connect a WebSocket (version 13) here";
        let (status, code) = (StatusCode::UPGRADE_REQUIRED, Code::BadRequest.as_str());
        return upgrade_required(ErrorResponse::new(status, code, message));
    };
    let transport = host.auth().transport_auth(request.headers(), request.extensions());
    let session = match host.open_session(ConnectionMode::WebSocket, transport) {
        Ok(session) => session,
        Err(error) => return MdpErrorResponse::from(error).into_response(),
    };
    let host = host.clone();
    let tasks = host.connections().clone();
    handshake.accept(&tasks, async move |upgraded| match upgraded {
        Ok(io) => serve(&host, io, session).await,
        Err(error) => {
            tracing::debug!(%error, "WebSocket handshake incomplete");
            host.end_session(&session, CloseReason::new(1006, "handshake incomplete"));
        }
    })
}

async fn serve(host: &MdpHost, io: UpgradedIo, session: Arc<Session>) {
    let max_bytes = host.config().limits.result_bytes.max(host.config().limits.message_bytes);
    let Ok(reserved) = host.memory().incoming.try_reserve(0) else {
        return host.end_session(&session, SessionError::Overloaded.close_reason());
    };
    let (limits, reader) = (host.config().limits, Arc::clone(&session));
    let max = move || {
        reader.max_message_bytes(reader.is_trusted(), &limits).saturating_add(FRAME_OVERHEAD_BYTES)
    };
    let message_limit = MessageLimit::new(reserved, max);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_message_size(Some(max_bytes))
        .max_frame_size(Some(max_bytes));
    let io = LimitedStream::new(io, message_limit.clone());
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let (mut sink, mut stream) = socket.split();
    let close = tokio::select! {
        biased;
        close = write(&session, &mut sink, host.config().times.stall) => close,
        close = read(host, &session, &mut stream, &message_limit) => close,
    };
    host.end_session(&session, close.clone().unwrap_or_else(|| CloseReason::new(1000, "")));
    // The first reason counts: the host may have ended the session meanwhile.
    let close = close.map(|close| match session.pop() {
        Some(SessionOutput::Close(first)) => first,
        _ => close,
    });
    if let Ok(socket) = stream.reunite(sink) {
        let frame = close.map(|CloseReason { code, reason }| CloseFrame {
            code: code.into(),
            reason: reason.into(),
        });
        close_gracefully(socket, frame, LimitedStream::lift).await;
    }
}

/// Reads until the session ends. Returns the reason to send, or `None` if the client has left.
async fn read<S>(
    host: &MdpHost,
    session: &Arc<Session>,
    stream: &mut S,
    message_limit: &MessageLimit,
) -> Option<CloseReason>
where
    S: Stream<Item = Result<Message, Error>> + Unpin,
{
    let mut burst = 0;
    // An unfinished message has the timeout of a call.
    let max_wait = host.config().times.answer_within;
    loop {
        let Ok(next) = timeout(max_wait, stream.next()).await else {
            if message_limit.is_overdue(max_wait) {
                return Some(CloseReason::new(1008, "a message was not finished in time"));
            }
            continue;
        };
        let rejected = match next? {
            Ok(Message::Text(text)) => {
                let rejected = host.receive(session, &text).err();
                drop(text);
                // Not after a ping: one may come between two frames of a message.
                message_limit.start_message(session.is_trusted());
                rejected
            }
            Ok(Message::Binary(_)) => Some(SessionError::Binary),
            Ok(Message::Close(_)) => return None,
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {
                session.mark_seen();
                None
            }
            Err(error) => match message_limit.stop_reason() {
                Some(ReadStop::Overloaded) => Some(SessionError::Overloaded),
                Some(ReadStop::TooLarge) => {
                    let is_trusted = session.is_trusted();
                    let max = session.max_message_bytes(is_trusted, &host.config().limits);
                    let reason = if is_trusted {
                        format!("a message has at most {max} bytes until the client is called")
                    } else {
                        format!("at most {max} bytes are read before the token")
                    };
                    return Some(CloseReason::new(1009, &reason));
                }
                None => return close_reason(&error),
            },
        };
        if let Some(error) = rejected {
            if matches!(error, SessionError::Unauthorized) {
                host.delay_refusal(&CredentialClient::at(session.address())).await;
            }
            host.reject(session, &error);
            return Some(error.close_reason());
        }
        burst += 1;
        if burst == READ_BURST {
            burst = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Returns the close reason for an error of the stream. RFC 6455 requires one for violations of the protocol.
fn close_reason(error: &Error) -> Option<CloseReason> {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
            let too_large = WireError::TooLarge { bytes: *size, max: *max_size };
            Some(SessionError::Message(too_large).close_reason())
        }
        Error::Utf8(_) => Some(CloseReason::new(1007, "a text frame must be UTF-8")),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        Error::Protocol(error) => Some(CloseReason::new(1002, &error.to_string())),
        _ => None,
    }
}

async fn write<S>(session: &Session, sink: &mut S, stall: Duration) -> Option<CloseReason>
where
    S: Sink<Message, Error = Error> + Unpin,
{
    // Keeps the memory of messages reserved until they are written.
    let mut unsent = vec![];
    loop {
        let sent = match session.pop() {
            Some(SessionOutput::Message(message)) => {
                let sent = timeout(stall, sink.feed(Message::text(&*message))).await;
                unsent.push(message);
                sent
            }
            Some(SessionOutput::Close(close)) => return Some(close),
            None => {
                let flushed = timeout(stall, sink.flush()).await;
                unsent.clear();
                if matches!(flushed, Ok(Ok(()))) {
                    session.ready().await;
                }
                flushed
            }
        };
        if !matches!(sent, Ok(Ok(()))) {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{Context, Poll},
    };

    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{Config, TransportAuth};

    /// Sink that never accepts a message.
    struct Stuck;

    impl Sink<Message> for Stuck {
        type Error = Error;

        fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Pending
        }

        fn start_send(self: Pin<&mut Self>, _: Message) -> Result<(), Error> {
            Ok(())
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_for_thirty_seconds_is_disconnected() {
        let host = MdpHost::start(Config::default(), None, CancellationToken::new());
        let session =
            host.open_session(ConnectionMode::WebSocket, TransportAuth::default()).unwrap();
        host.receive(&session, r#"{"type":"ping","timestamp":1}"#).unwrap();
        let start = Instant::now();
        let stall = host.config().times.stall;
        // Without a close reason: the client would not read it.
        assert_eq!(write(&session, &mut Stuck, stall).await, None);
        assert_eq!(start.elapsed(), Duration::from_secs(30));
    }
}
