//! WebSocket handshake and closing. axum has a handshake too, but its sockets cannot send a message in fragments.

use std::time::Duration;

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt as _;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{handshake::derive_accept_key, protocol::CloseFrame},
};
use tokio_util::task::TaskTracker;

use crate::{ConnectionSlot, connection_limiter::WeakConnectionSlot};

/// Time in which both ends have to finish the closing handshake.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Byte stream of an upgraded connection.
pub type UpgradedIo = TokioIo<Upgraded>;

/// Returns whether a request asks for a WebSocket, even if its handshake is invalid.
#[must_use]
pub fn is_upgrade(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::GET && has_token(headers, header::UPGRADE, "websocket")
}

/// Returns whether a header with a comma-separated list contains a token.
fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(token))
}

/// Valid handshake of a client (RFC 6455, version 13).
#[derive(Debug)]
pub struct Handshake {
    accept_key: String,
    upgrade: OnUpgrade,
    slot: Option<ConnectionSlot>,
}

impl Handshake {
    /// Reads the handshake of a request; `None` if it is invalid, to be answered with [`upgrade_required`].
    #[must_use]
    pub fn from_request(request: &mut Request) -> Option<Self> {
        let headers = request.headers();
        let is_valid = is_upgrade(request.method(), headers)
            && has_token(headers, header::CONNECTION, "upgrade")
            && has_token(headers, header::SEC_WEBSOCKET_VERSION, "13");
        let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| is_valid)?;
        let accept_key = derive_accept_key(key.as_bytes());
        let slot = request.extensions().get().and_then(WeakConnectionSlot::upgrade);
        Some(Self { accept_key, upgrade: hyper::upgrade::on(request), slot })
    }

    /// Returns the slot of the connection, for a socket that counts against the connection limit; absent on another
    /// server than [`HttpServer`](crate::HttpServer).
    #[must_use]
    pub fn slot(&self) -> Option<ConnectionSlot> {
        self.slot.clone()
    }

    /// Accepts the handshake: returns the response, and spawns `serve` with the upgraded connection, or with the error
    /// if the client disconnects before. The connection slot counts as established from now on; `serve` may hold a clone
    /// of it.
    pub fn accept<F>(
        self,
        tasks: &TaskTracker,
        serve: impl FnOnce(Result<UpgradedIo, hyper::Error>) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { accept_key, upgrade, slot } = self;
        if let Some(slot) = slot {
            slot.establish();
        }
        tasks.spawn(async move { serve(upgrade.await.map(TokioIo::new)).await });
        let headers = [
            (header::CONNECTION, "upgrade".to_owned()),
            (header::UPGRADE, "websocket".to_owned()),
            (header::SEC_WEBSOCKET_ACCEPT, accept_key),
        ];
        (StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response()
    }
}

/// Builds the response to an invalid handshake: status 426 with the required version.
pub fn upgrade_required(body: impl IntoResponse) -> Response {
    let headers = [(header::SEC_WEBSOCKET_VERSION, "13"), (header::UPGRADE, "websocket")];
    (StatusCode::UPGRADE_REQUIRED, headers, body).into_response()
}

/// Closes a socket within [`CLOSE_TIMEOUT`]. With a frame, what the other end still sends is read and dropped: closing a
/// socket with unread bytes resets it, and the other end might never see the reason. `before_drain` prepares the stream
/// for that, such as by lifting a limit.
pub async fn close_gracefully<S>(
    mut socket: WebSocketStream<S>,
    frame: Option<CloseFrame>,
    before_drain: impl FnOnce(&mut S),
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let closing = async {
        let has_reason = frame.is_some();
        let _ = socket.close(frame).await;
        if !has_reason {
            return;
        }
        while let Some(Ok(_)) = socket.next().await {}
        let io = socket.get_mut();
        before_drain(io);
        let _ = io.shutdown().await;
        let mut unread = vec![0; 16 << 10];
        while matches!(io.read(&mut unread).await, Ok(count) if count > 0) {}
    };
    let _ = timeout(CLOSE_TIMEOUT, closing).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request {
        let mut request = Request::get("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn a_handshake_needs_all_its_headers() {
        let complete = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let handshake = Handshake::from_request(&mut request(&complete)).unwrap();
        // The example of RFC 6455.
        assert_eq!(handshake.accept_key, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        for missing in 0..complete.len() {
            let mut headers = complete.to_vec();
            headers.remove(missing);
            assert!(Handshake::from_request(&mut request(&headers)).is_none(), "{headers:?}");
        }
    }
}
