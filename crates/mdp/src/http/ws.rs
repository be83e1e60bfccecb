//! Sessions over a WebSocket: a reader that gives the host each message, and a writer that empties the
//! session's queue, side by side in one task.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        error::{CapacityError, ProtocolError},
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig},
    },
};

use super::{
    gate::{Allowance, Gate},
    refusal::Refusal,
};
use crate::{Close, Host, Mode, Next, Refused, Session, wire::WireError};

/// How long the two ends may take to part.
const FAREWELL: Duration = Duration::from_secs(1);

/// What is kept to read into for each connection, most of which are idle.
const READ_BUFFER: usize = 8 << 10;

/// What the frames of a message may add to it.
const FRAMES: usize = 16 << 10;

/// After so many messages in a row the reader lets others go first.
const BURST: u32 = 32;

/// Whether a request asks for a WebSocket, rightly or not.
pub(super) fn is_asked(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::GET && has(headers, header::UPGRADE, "websocket")
}

fn has(headers: &HeaderMap, name: HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(wanted))
}

/// An address that has nothing but a WebSocket.
pub(super) async fn only(State(host): State<Host>, request: Request) -> Response {
    upgrade(&host, request)
}

/// The handshake.
pub(super) fn upgrade(host: &Host, mut request: Request) -> Response {
    let headers = request.headers();
    let is_asked = is_asked(request.method(), headers)
        && has(headers, header::CONNECTION, "upgrade")
        && has(headers, header::SEC_WEBSOCKET_VERSION, "13");
    let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| is_asked);
    let Some(accept) = key.map(|key| derive_accept_key(key.as_bytes())) else {
        let message = "connect a WebSocket (version 13) here";
        let error = json!({ "error": { "code": "bad_request", "message": message } });
        let version = [(header::SEC_WEBSOCKET_VERSION, "13"), (header::UPGRADE, "websocket")];
        return (StatusCode::UPGRADE_REQUIRED, version, Json(error)).into_response();
    };
    let session = match host.open(Mode::WebSocket, host.keys().transport(headers)) {
        Ok(session) => session,
        Err(refused) => return Refusal::from(refused).into_response(),
    };
    let upgrading = hyper::upgrade::on(&mut request);
    let served = host.clone();
    host.connections().spawn(async move {
        match upgrading.await {
            Ok(upgraded) => serve(&served, upgraded, session).await,
            Err(error) => {
                tracing::debug!(%error, "handshake not finished");
                served.end(&session, Close::new(1006, "handshake not finished"));
            }
        }
    });
    let headers = [
        (header::CONNECTION, "upgrade".to_owned()),
        (header::UPGRADE, "websocket".to_owned()),
        (header::SEC_WEBSOCKET_ACCEPT, accept),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response()
}

async fn serve(host: &Host, upgraded: Upgraded, session: Arc<Session>) {
    let limit = host.config().limits.result_bytes.max(host.config().limits.message_bytes);
    let allowance = Allowance::new(allowed(host, &session));
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(limit))
        .max_frame_size(Some(limit));
    let io = Gate::new(TokioIo::new(upgraded), allowance.clone());
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let (mut sink, mut stream) = socket.split();
    let close = tokio::select! {
        biased;
        close = write(&session, &mut sink, host.config().times.stall) => close,
        close = read(host, &session, &mut stream, &allowance) => close,
    };
    host.end(&session, close.clone().unwrap_or_else(|| Close::new(1000, "")));
    // The first reason counts: it may have been ended from elsewhere meanwhile.
    let close = close.map(|close| match session.pop() {
        Some(Next::Close(first)) => first,
        _ => close,
    });
    if let Ok(socket) = stream.reunite(sink) {
        part(socket, close).await;
    }
}

/// How many bytes the next message may take. Only who is registered can have results, which may be larger.
fn allowed(host: &Host, session: &Session) -> usize {
    match session.is_registered() {
        true => usize::MAX,
        false => host.config().limits.message_bytes.saturating_add(FRAMES),
    }
}

/// Reads until the end, and returns how the other end is to be told of it; it need not be when it left.
async fn read<S>(
    host: &Host,
    session: &Arc<Session>,
    stream: &mut S,
    allowance: &Allowance,
) -> Option<Close>
where
    S: Stream<Item = Result<Message, Error>> + Unpin,
{
    let mut burst = 0;
    loop {
        let refused = match stream.next().await? {
            Ok(Message::Text(text)) => {
                let refused = host.receive(session, &text).err();
                // Not after a ping: one may come between two parts of a message.
                allowance.set(allowed(host, session));
                refused
            }
            Ok(Message::Binary(_)) => Some(Refused::Binary),
            Ok(Message::Close(_)) => return None,
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {
                session.hear();
                None
            }
            Err(_) if allowance.is_used_up() => {
                let max = host.config().limits.message_bytes;
                let reason =
                    format!("a message has at most {max} bytes until a client is registered");
                return Some(Close::new(1009, &reason));
            }
            Err(error) => return broken(&error),
        };
        if let Some(refused) = refused {
            host.refuse(session, &refused);
            return Some(refused.close());
        }
        burst += 1;
        if burst == BURST {
            burst = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// What a broken stream means. RFC 6455 wants the other end told of what it did wrong.
fn broken(error: &Error) -> Option<Close> {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
            let too_large = WireError::TooLarge { bytes: *size, max: *max_size };
            Some(Refused::Message(too_large).close())
        }
        Error::Utf8(_) => Some(Close::new(1007, "a text frame must be UTF-8")),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        Error::Protocol(error) => Some(Close::new(1002, &error.to_string())),
        _ => None,
    }
}

async fn write<S>(session: &Session, sink: &mut S, stall: Duration) -> Option<Close>
where
    S: Sink<Message, Error = Error> + Unpin,
{
    loop {
        let sent = match session.pop() {
            Some(Next::Message(text)) => timeout(stall, sink.feed(Message::text(text))).await,
            Some(Next::Close(close)) => return Some(close),
            None => {
                let flushed = timeout(stall, sink.flush()).await;
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

/// Says good-bye, and lets what the other end is still sending run out: a socket that is closed with bytes
/// unread is reset, and the other end might never see why.
async fn part<S>(mut socket: WebSocketStream<Gate<S>>, close: Option<Close>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let farewell = async {
        let Some(Close { code, reason }) = close else {
            let _ = socket.close(None).await;
            return;
        };
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        let _ = socket.close(Some(frame)).await;
        while let Some(Ok(_)) = socket.next().await {}
        let io = socket.get_mut();
        io.open();
        let _ = io.shutdown().await;
        let mut rest = [0; 4 << 10];
        while matches!(io.read(&mut rest).await, Ok(count) if count > 0) {}
    };
    let _ = timeout(FAREWELL, farewell).await;
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
    use crate::{Config, Transport};

    /// Takes nothing.
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
    async fn who_takes_nothing_for_thirty_seconds_is_let_go() {
        let host = Host::start(Config::default(), None, CancellationToken::new());
        let session = host.open(Mode::WebSocket, Transport::default()).unwrap();
        host.receive(&session, r#"{"type":"ping","timestamp":1}"#).unwrap();
        let start = Instant::now();
        let stall = host.config().times.stall;
        // Without a word: it would not be read.
        assert_eq!(write(&session, &mut Stuck, stall).await, None);
        assert_eq!(start.elapsed(), Duration::from_secs(30));
    }
}
