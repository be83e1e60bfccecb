//! The addresses of the protocol.
//!
//! - `ws`: a WebSocket, on any path that nothing else has; `gate`: how much it takes from who is not registered
//! - `http_loop`: the same with plain requests, under `/mdp/http-loop`
//! - `cookie`: `/mdp/auth`; `meta`: `/mdp/meta`
//! - `skills`: the documents themselves, `/skills/{client}/…` and `/{client}/skills/…`; `target`: what such an
//!   address names
//!
//! The server that they are mounted on decides which hosts and which pages may ask, with cookies too, and bounds
//! heads, bodies and connections. It has to know that [`polls`] and [`rest`] wait for clients and bound that
//! themselves, that bodies of [`routes`] may have [`max_body`] bytes, and that [`rest`] is to come after all its
//! other routes: it takes whatever they leave. Where a token is set, whoever registers or asks for
//! a cookie has to present it, so that the server need not know who it is that asks for any of [`routes`] and [`polls`],
//! or for an [upgrade](is_upgrade); what is left of [`rest`] is for whom the server lets in.

mod cookie;
mod gate;
mod http_loop;
mod meta;
mod refusal;
mod skills;
mod target;
mod ws;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::any,
};

use crate::Host;

/// The routes under `/mdp`, but for polls.
pub fn routes(host: &Host) -> Router {
    Router::new()
        .route("/mdp/ws", any(ws::only))
        .route("/mdp/auth", any(cookie::answer))
        .route("/mdp/meta", any(meta::answer))
        .route("/mdp/http-loop", any(http_loop::answer))
        .route("/mdp/http-loop/", any(http_loop::answer))
        .route("/mdp/http-loop/{*call}", any(http_loop::answer))
        .with_state(host.clone())
}

/// Polls, under `/mdp` too: each lasts until there is a message, or [`Times::longest_poll`](crate::Times).
pub fn polls(host: &Host) -> Router {
    Router::new().route("/mdp/http-loop/poll", any(http_loop::answer)).with_state(host.clone())
}

/// Bytes of the largest body that a request to [`routes`] may have.
#[must_use]
pub fn max_body(host: &Host) -> usize {
    http_loop::max_body(host)
}

/// Whether a request asks for a WebSocket, rightly or not.
#[must_use]
pub fn is_upgrade(method: &Method, headers: &HeaderMap) -> bool {
    ws::is_asked(method, headers)
}

/// What stands behind all other routes: skills, and WebSockets at any other address. To be set as a fallback.
pub fn rest(host: &Host) -> Router {
    Router::new().fallback(anything).with_state(host.clone())
}

/// All of them, for a server that has nothing else.
pub fn router(host: &Host) -> Router {
    routes(host).merge(polls(host)).fallback_service(rest(host))
}

async fn anything(State(host): State<Host>, request: Request) -> Response {
    match is_upgrade(request.method(), request.headers()) {
        true => ws::upgrade(&host, request),
        false => skills::answer(&host, request).await,
    }
}

/// The answer to `OPTIONS`.
fn options(headers: &HeaderMap, methods: &'static str) -> Response {
    let methods = HeaderValue::from_static(methods);
    let mut response = StatusCode::NO_CONTENT.into_response();
    let answer = response.headers_mut();
    answer.insert(header::ALLOW, methods.clone());
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    let requested = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let usual = "content-type, x-mdp-session-id, authorization";
    let requested = requested.unwrap_or_else(|| HeaderValue::from_static(usual));
    answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, requested);
    response
}
