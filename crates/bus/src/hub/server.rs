//! Listening, the handshake, and stopping.
//!
//! Routes: `/` for workers, `/otel` for telemetry that is dropped, `/ws/channels/…` which is not
//! offered. Who may connect is decided here, before a socket becomes a WebSocket.

use std::{io, net::IpAddr, net::SocketAddr, sync::atomic::Ordering, time::Duration};

use axum::{
    Extension, Router,
    body::Body,
    extract::{ConnectInfo, Query, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::get,
};
use hyper::{server::conn::http1, upgrade::Upgraded};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use serde::Deserialize;
use subtle::ConstantTimeEq as _;
use tokio::{net::TcpListener, time::timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        handshake::derive_accept_key,
        protocol::{Role, WebSocketConfig},
    },
};
use tokio_util::sync::CancellationToken;

use super::{Hub, connection, queue::Close};
use crate::{CallError, ErrorBody};

/// How long connections may take to part when the hub stops, before and after they are told that
/// no time is left.
const PARTING: Duration = Duration::from_millis(250);

/// Tells SDKs that this end has `TCP_NODELAY`, without which theirs would only do harm.
const CAPABILITIES: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-iii-capabilities"), HeaderValue::from_static("tcp-nodelay"));

type Socket = WebSocketStream<TokioIo<Upgraded>>;

impl Hub {
    /// The routes of the hub, to be served by [`serve`](Self::serve) or another server of the
    /// caller's choice, which must then set `TCP_NODELAY` and call [`stop`](Self::stop) itself.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/", get(worker))
            .route("/otel", get(telemetry))
            .route(
                "/ws/channels/{*channel}",
                get(|| async { (StatusCode::NOT_FOUND, "Channel not found") }),
            )
            .layer(middleware::from_fn_with_state(self.clone(), admit))
            .with_state(self.clone())
    }

    /// Serves workers until `shutdown`, then stops as [`stop`](Self::stop) describes.
    ///
    /// # Errors
    /// When the listener is broken from the start; later failures to accept are survived.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> io::Result<()> {
        listener.local_addr()?;
        let router = self.router();
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(self.inner.config.handshake);
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Such as too many open files: there may be room again in a moment.
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!("cannot set TCP_NODELAY: {error}");
            }
            let service =
                TowerToHyperService::new(router.clone().layer(Extension(ConnectInfo(address))));
            let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
            let closing = self.inner.closing.clone();
            self.inner.connections.spawn(async move {
                tokio::pin!(connection);
                // Ends when the socket has become a WebSocket, which is a task of its own.
                tokio::select! {
                    _ = connection.as_mut() => return,
                    () = closing.cancelled() => {}
                }
                connection.as_mut().graceful_shutdown();
                let _ = timeout(PARTING, connection).await;
            });
        }
        drop(listener);
        self.stop().await;
        Ok(())
    }

    /// Stops: refuses new calls, lets those that run be answered for as long as the
    /// configuration's `drain` says, then closes every connection.
    pub async fn stop(&self) {
        let inner = &self.inner;
        inner.draining.store(true, Ordering::SeqCst);
        if timeout(inner.config.drain, inner.calls.running.idle()).await.is_err() {
            tracing::warn!("calls are still running; stopping without them");
        }
        inner.closing.cancel();
        for peer in inner.peers() {
            // 1012, because Python SDKs 0.11 do not come back after 1000 or 1001.
            peer.queue.close(Close { code: 1012, reason: "the hub is shutting down" });
        }
        inner.connections.close();
        if timeout(PARTING, inner.connections.wait()).await.is_err() {
            inner.stop.cancel();
            let _ = timeout(PARTING, inner.connections.wait()).await;
        }
        inner.stop.cancel();
    }
}

/// Decides who may connect, and marks every response.
async fn admit(State(hub): State<Hub>, request: Request, next: Next) -> Response {
    let config = &hub.inner.config;
    let mut response = if let Some(origin) = foreign_origin(request.headers()) {
        tracing::warn!(?origin, "connection refused: a web page of another host tried to connect");
        refusal(
            StatusCode::FORBIDDEN,
            "forbidden_origin",
            "web pages of other hosts may not connect",
        )
    } else if config.token.as_deref().is_some_and(|token| !presents(&request, token)) {
        refusal(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "a token is required: send it as \"Authorization: Bearer\" (SDKs do with III_TOKEN) or as ?token=",
        )
    } else if hub.inner.is_draining() {
        refusal(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "the hub is shutting down")
    } else {
        next.run(request).await
    };
    response.headers_mut().insert(CAPABILITIES.0, CAPABILITIES.1);
    response
}

fn refusal(status: StatusCode, code: &str, message: &str) -> Response {
    let ErrorBody { code, message } = CallError::remote(code, message).body();
    let body = serde_json::json!({"error": {"code": code, "message": message}}).to_string();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Any web page can make a browser connect to a loopback port; the browser then says where the
/// page is from. SDKs send no `Origin`.
fn foreign_origin(headers: &HeaderMap) -> Option<&HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let uri = origin.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let loopback = host == "localhost"
        || host.ends_with(".localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    (!loopback).then_some(origin)
}

fn presents(request: &Request, token: &str) -> bool {
    #[derive(Deserialize)]
    struct Presented {
        token: Option<String>,
    }
    let bearer = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| {
        let (scheme, rest) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| rest.trim().to_owned())
    });
    let query = || Query::<Presented>::try_from_uri(request.uri()).ok()?.0.token;
    let presented = bearer.or_else(query).unwrap_or_default();
    presented.as_bytes().ct_eq(token.as_bytes()).into()
}

async fn worker(State(hub): State<Hub>, request: Request) -> Response {
    let address = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let served = hub.clone();
    upgrade(&hub, request, move |socket| connection::serve(served, socket, address))
}

async fn telemetry(State(hub): State<Hub>, request: Request) -> Response {
    let served = hub.clone();
    upgrade(&hub, request, move |socket| connection::drain(served, socket))
}

/// The WebSocket handshake. axum has one too, but its sockets cannot send a message in fragments.
fn upgrade<F>(
    hub: &Hub,
    mut request: Request,
    serve: impl FnOnce(Socket) -> F + Send + 'static,
) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let headers = request.headers();
    let has = |name: HeaderName, wanted: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(','))
            .any(|value| value.trim().eq_ignore_ascii_case(wanted))
    };
    let asked = has(header::CONNECTION, "upgrade")
        && has(header::UPGRADE, "websocket")
        && has(header::SEC_WEBSOCKET_VERSION, "13");
    let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| asked);
    let Some(accept) = key.map(|key| derive_accept_key(key.as_bytes())) else {
        let hint = "This is a bus for iii workers. Connect a WebSocket (version 13), or point an iii SDK here.\n";
        let version = [(header::SEC_WEBSOCKET_VERSION, "13"), (header::UPGRADE, "websocket")];
        return (StatusCode::UPGRADE_REQUIRED, version, hint).into_response();
    };
    let limit = hub.inner.config.max_read;
    let upgrading = hyper::upgrade::on(&mut request);
    hub.inner.connections.spawn(async move {
        match upgrading.await {
            Ok(upgraded) => {
                let config = WebSocketConfig::default()
                    .read_buffer_size(32 * 1024)
                    .max_message_size(Some(limit))
                    .max_frame_size(Some(limit));
                let io = TokioIo::new(upgraded);
                serve(WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await).await;
            }
            Err(error) => tracing::debug!("handshake not finished: {error}"),
        }
    });
    let headers = [
        (header::CONNECTION, "upgrade".to_owned()),
        (header::UPGRADE, "websocket".to_owned()),
        (header::SEC_WEBSOCKET_ACCEPT, accept),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers, Body::empty()).into_response()
}
