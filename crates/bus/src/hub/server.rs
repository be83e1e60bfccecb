//! Routes, access control and shutdown of the hub.
//!
//! Routes: `/` for workers, `/otel` for telemetry, which is discarded, and `/ws/channels/…`, which is not supported.

use std::{
    io,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{Query, Request, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::get,
};
use serde::Deserialize;
use skills_core::{Code, Token, origin::WebHost};
use skills_net::{
    Accept, ConnectionAddresses, ConnectionLimits, CredentialClient, HeadLimits, HostError,
    HttpServer, Listener, Overflow, check_host,
    websocket::{Handshake, UpgradedIo, is_upgrade, upgrade_required},
};
use tokio::{
    net::{TcpListener, UnixListener},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::protocol::{Role, WebSocketConfig},
};
use tokio_util::sync::CancellationToken;

use super::{Hub, connection, origin::is_allowed_origin};
use crate::{proof, wire::queue::CloseReason};

/// Time that connections have to close at shutdown, first gracefully and then forcibly.
const CLOSE_GRACE: Duration = Duration::from_millis(250);

/// Seconds after which a client may retry when there are too many connections.
const RETRY_AFTER: u32 = 5;

/// Read buffer of each connection.
const READ_BUFFER_BYTES: usize = 32 << 10;

/// Header that declares `TCP_NODELAY` to SDKs, which set it only if the server does.
const CAPABILITIES: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-iii-capabilities"), HeaderValue::from_static("tcp-nodelay"));

impl Hub {
    /// Returns the routes of the hub, for [`serve`](Self::serve) or another server, which must set `TCP_NODELAY` and call
    /// [`stop`](Self::stop) itself.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/", get(worker))
            .route("/otel", get(telemetry))
            .route(
                "/ws/channels/{*channel}",
                get(|| async { (StatusCode::NOT_FOUND, "Channel not found") }),
            )
            .layer(middleware::from_fn_with_state(self.clone(), check_access))
            .with_state(self.clone())
    }

    /// Serves workers until `shutdown`, then [`stop`](Self::stop)s.
    ///
    /// # Errors
    /// When the listener is unusable from the start; later accept errors are logged.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> io::Result<()> {
        listener.local_addr()?;
        self.accept_until(listener, &shutdown).await;
        self.stop().await;
        Ok(())
    }

    /// Serves the user of this process on a Unix socket until `shutdown`, without a token: the user can read the store
    /// anyway. Does not [`stop`](Self::stop) the hub.
    pub async fn serve_owner(&self, listener: UnixListener, shutdown: CancellationToken) {
        self.accept_until(listener, &shutdown).await;
    }

    async fn accept_until<L: Accept>(&self, listener: L, shutdown: &CancellationToken) {
        let (config, connections) = (&self.inner.config, &self.inner.connections);
        let head = HeadLimits { bytes: config.max_request_head, timeout: config.handshake_timeout };
        let server = HttpServer::new(self.router(), head, CLOSE_GRACE, self.inner.closing.clone());
        let limits = ConnectionLimits {
            total: config.max_connections,
            per_address: config.max_connections_per_address,
            // All workers may run on this machine.
            per_loopback_address: config.max_connections,
            handshakes: Some(config.max_handshakes),
        };
        let body = error_json(Code::TooManyConnections, "too many connections are open; try again");
        let overflow = Overflow::reject_with_json(&body, RETRY_AFTER, connections.clone());
        let listener = Listener::new(listener, "bus", limits, overflow);
        loop {
            let (stream, connection) = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            if !config.engine_mode.tcp_nodelay {
                L::set_nodelay(&stream, false);
            }
            connections.spawn(server.serve(stream, connection));
        }
    }

    /// Stops the hub: rejects new calls, waits up to [`HubConfig::drain_timeout`](super::HubConfig) for running calls, then
    /// closes all connections.
    pub async fn stop(&self) {
        let inner = &self.inner;
        inner.draining.store(true, Ordering::SeqCst);
        if timeout(inner.config.drain_timeout, inner.calls.running.wait_until_zero()).await.is_err()
        {
            tracing::warn!("stopping with unanswered calls");
        }
        inner.closing.cancel();
        for peer in inner.peers() {
            // 1012, because Python SDKs 0.11 do not reconnect after 1000 or 1001.
            peer.queue.close(CloseReason { code: 1012, reason: "the hub is shutting down" });
        }
        inner.connections.close();
        if timeout(CLOSE_GRACE, inner.connections.wait()).await.is_err() {
            inner.stop.cancel();
            let _ = timeout(CLOSE_GRACE, inner.connections.wait()).await;
        }
        inner.stop.cancel();
    }
}

/// Middleware that checks origin, host, token and shutdown, and adds the capabilities header.
async fn check_access(State(hub): State<Hub>, request: Request, next: Next) -> Response {
    let config = &hub.inner.config;
    let mut origins = request.headers().get_all(header::ORIGIN).iter();
    let disallowed = origins.find(|origin| !is_allowed_origin(origin, &config.content_ports));
    let mut response = if let Some(origin) = disallowed {
        if let Some(suppressed) = hub.inner.warnings.origin.check(Instant::now()) {
            tracing::warn!(?origin, suppressed, "connection refused: disallowed web origin");
        }
        refusal(
            StatusCode::FORBIDDEN,
            Code::ForbiddenOrigin,
            "only web pages of http or https on localhost, 127.0.0.1 or [::1] may connect, and none of this server's \
             HTTP port",
        )
    } else if let Err(error) = check_request_host(&request, &config.allowed_hosts) {
        let (status, code) = match error {
            HostError::Invalid => (StatusCode::BAD_REQUEST, Code::BadHost),
            HostError::NotAllowed => (StatusCode::FORBIDDEN, Code::HostNotAllowed),
        };
        refusal(status, code, "the request has no Host header of this server")
    } else if request.uri().path() == proof::PATH {
        // Before the token check: the client sends the token only after the proof.
        prove(&hub, &request)
    } else if let Some(token) = config.token.as_deref().filter(|_| !is_owner(&request))
        && let presented = presented_token(&request)
        && !presented.as_ref().is_some_and(|it| Token::new(token).matches(it.as_bytes()))
    {
        if presented.is_some() {
            let client = CredentialClient::from_extensions(request.extensions());
            config.failed_credentials.refuse("bus", &client).await;
        }
        refusal(
            StatusCode::UNAUTHORIZED,
            Code::Unauthorized,
            "a token is required: send it as \"Authorization: Bearer\" (SDKs do with III_TOKEN) or as ?token=",
        )
    } else if let Some(reason) = config.unavailable {
        refusal(StatusCode::SERVICE_UNAVAILABLE, Code::StoreUnavailable, reason)
    } else if hub.inner.is_draining() {
        refusal(StatusCode::SERVICE_UNAVAILABLE, Code::ShuttingDown, "the hub is shutting down")
    } else {
        next.run(request).await
    };
    if config.engine_mode.tcp_nodelay {
        response.headers_mut().insert(CAPABILITIES.0, CAPABILITIES.1);
    }
    response
}

/// Checks the host of a request by the rule of the HTTP port, so that no page with a rebound name asks for a proof.
///
/// A WebSocket handshake may name any host: browsers send the origin of a page with it, and workers reach the bus under
/// names that only their network knows.
fn check_request_host(request: &Request, listed: &[WebHost]) -> Result<(), HostError> {
    let Some(local) = addresses(request).and_then(|addresses| addresses.local) else {
        return Ok(());
    };
    if is_owner(request) || is_upgrade(request.method(), request.headers()) {
        return Ok(());
    }
    check_host(request.uri(), request.headers(), local.ip(), listed)
}

/// Answers a challenge of [`proof`].
fn prove(hub: &Hub, request: &Request) -> Response {
    let challenge = request.headers().get(proof::CHALLENGE).and_then(|value| value.to_str().ok());
    let address = addresses(request).and_then(|addresses| addresses.local);
    let answer = challenge.zip(address).and_then(|(challenge, address)| {
        hub.inner.config.secret.as_ref()?.prove(challenge, address)
    });
    match answer {
        Some(answer) => (StatusCode::NO_CONTENT, [(proof::PROOF, answer)]).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn refusal(status: StatusCode, code: Code, message: &str) -> Response {
    let body = error_json(code, message);
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn error_json(code: Code, message: &str) -> String {
    serde_json::json!({"error": {"code": code, "message": message}}).to_string()
}

/// Returns the token that a request presents in its header or query.
fn presented_token(request: &Request) -> Option<String> {
    #[derive(Deserialize)]
    struct TokenQuery {
        token: Option<String>,
    }
    let bearer = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| {
        let (scheme, rest) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| rest.trim().to_owned())
    });
    let query = || Query::<TokenQuery>::try_from_uri(request.uri()).ok()?.0.token;
    bearer.or_else(query)
}

async fn worker(State(hub): State<Hub>, request: Request) -> Response {
    let address = addresses(&request).map(|addresses| addresses.peer);
    let (served, is_owner) = (hub.clone(), is_owner(&request));
    upgrade(&hub, request, move |socket| connection::serve(served, socket, address, is_owner))
}

async fn telemetry(State(hub): State<Hub>, request: Request) -> Response {
    let served = hub.clone();
    upgrade(&hub, request, move |socket| connection::discard_telemetry(served, socket))
}

/// Returns the addresses of a request's connection; absent on another server than the hub's own.
fn addresses(request: &Request) -> Option<&ConnectionAddresses> {
    request.extensions().get()
}

/// Returns whether the user of this process connected, on the Unix socket.
fn is_owner(request: &Request) -> bool {
    addresses(request).is_some_and(|addresses| addresses.is_owner)
}

/// Performs the WebSocket handshake and serves the socket, which holds the slot of its connection.
fn upgrade<F>(
    hub: &Hub,
    mut request: Request,
    serve: impl FnOnce(WebSocketStream<UpgradedIo>) -> F + Send + 'static,
) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let Some(handshake) = Handshake::from_request(&mut request) else {
        return upgrade_required(
            "This is a bus for iii workers. Connect a WebSocket (version 13), or point an iii SDK here.\n",
        );
    };
    let slot = handshake.slot();
    let limit = hub.inner.config.max_read;
    handshake.accept(&hub.inner.connections, async move |upgraded| {
        let _slot = slot;
        match upgraded {
            Ok(io) => {
                let config = WebSocketConfig::default()
                    .read_buffer_size(READ_BUFFER_BYTES)
                    .max_message_size(Some(limit))
                    .max_frame_size(Some(limit));
                serve(WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await).await;
            }
            Err(error) => tracing::debug!(%error, "WebSocket handshake incomplete"),
        }
    })
}
