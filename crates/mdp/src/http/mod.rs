//! The addresses of the protocol.
//!
//! - `ws`: a WebSocket, on any path that nothing else has
//! - `http_loop`: the same with plain requests, under `/mdp/http-loop`
//! - `cookie`: `/mdp/auth`; `meta`: `/mdp/meta`
//! - `skills`: the documents themselves, `/skills/{client}/…` and `/{client}/skills/…`; `target`: what such an
//!   address names
//!
//! The server that they are mounted on decides which hosts and which pages may ask, and bounds heads, bodies
//! and connections. [`rest`] is to come after all its other routes: it takes whatever they leave.

mod cookie;
mod http_loop;
mod meta;
mod refusal;
mod skills;
mod target;
mod ws;

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::any,
};

use crate::Host;

/// The routes under `/mdp`.
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

/// What stands behind all other routes: skills, and WebSockets at any other address. To be set as a fallback.
pub fn rest(host: &Host) -> Router {
    Router::new().fallback(anything).with_state(host.clone())
}

/// Both, for a server that has nothing else.
pub fn router(host: &Host) -> Router {
    routes(host).fallback_service(rest(host))
}

async fn anything(State(host): State<Host>, request: Request) -> Response {
    match ws::is_asked(request.method(), request.headers()) {
        true => ws::upgrade(&host, request),
        false => skills::answer(&host, request).await,
    }
}

/// What a page is told that asks with its cookies. That it may ask at all is the server's to say.
fn with_credentials(headers: &HeaderMap, mut response: Response) -> Response {
    if headers.contains_key(header::ORIGIN) {
        let credentials = HeaderValue::from_static("true");
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, credentials);
    }
    response
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
    with_credentials(headers, response)
}
