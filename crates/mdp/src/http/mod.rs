//! HTTP routes of the protocol.
//!
//! - `ws`: WebSocket sessions, on any path without another route; `pre_auth_limit`: limit on incoming messages
//! - `http_loop`: sessions over plain requests, below `/mdp/http-loop`
//! - `cookie`: `/mdp/auth`; `meta`: `/mdp/meta`
//! - `forwarded_headers`: request headers that reach a client
//! - `skills`: documents, at `/skills/{client}/…` and `/{client}/skills/…`; `target`: parsing of these paths
//!
//! The server that mounts the routes checks hosts and origins, sets security headers, and limits heads, bodies and
//! connections. It has to know four things:
//!
//! - [`polls`] and [`fallback`] wait for clients and limit that themselves.
//! - Bodies of [`routes`] are limited by [`body_limit`], before they are received.
//! - [`fallback`] comes after all other routes and handles every other path.
//! - Where a token is set, a client presents it to register or to get a cookie. So the server need not authenticate
//!   requests to [`routes`] and [`polls`], nor [upgrades](is_upgrade); it authenticates all other requests to
//!   [`fallback`].

mod cookie;
mod error_response;
mod forwarded_headers;
mod http_loop;
mod meta;
mod pre_auth_limit;
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

use skills_http::BodyLimit;
pub use skills_net::websocket::is_upgrade;

use crate::MdpHost;

/// Returns the routes below `/mdp`, except polls.
pub fn routes(host: &MdpHost) -> Router {
    Router::new()
        .route("/mdp/ws", any(ws::handle))
        .route(cookie::PATH, any(cookie::handle))
        .route("/mdp/meta", any(meta::handle))
        .route("/mdp/http-loop", any(http_loop::handle))
        .route("/mdp/http-loop/", any(http_loop::handle))
        .route("/mdp/http-loop/{*call}", any(http_loop::handle))
        .with_state(host.clone())
}

/// Returns the route of polls. A poll lasts until there is a message, at most
/// [`MdpTimeouts::longest_poll`](crate::MdpTimeouts::longest_poll).
pub fn polls(host: &MdpHost) -> Router {
    Router::new().route("/mdp/http-loop/poll", any(http_loop::handle)).with_state(host.clone())
}

/// Returns the limit on request bodies of [`routes`]: small for requests without a credential or a registered session.
#[must_use]
pub fn body_limit(host: &MdpHost) -> BodyLimit {
    let host = host.clone();
    BodyLimit::new(move |head| match head.uri.path() {
        cookie::PATH => cookie::MAX_BODY_BYTES,
        _ => http_loop::max_body(&host, head),
    })
}

/// Returns the fallback behind all other routes: skills, and WebSockets on any path.
pub fn fallback(host: &MdpHost) -> Router {
    Router::new().fallback(handle_fallback).with_state(host.clone())
}

/// Returns all routes, for a server that has no others.
pub fn router(host: &MdpHost) -> Router {
    routes(host).merge(polls(host)).fallback_service(fallback(host))
}

async fn handle_fallback(State(host): State<MdpHost>, request: Request) -> Response {
    if is_upgrade(request.method(), request.headers()) {
        ws::upgrade(&host, request)
    } else {
        skills::handle(&host, request).await
    }
}

/// Responds to `OPTIONS`.
fn options(headers: &HeaderMap, methods: &'static str) -> Response {
    let methods = HeaderValue::from_static(methods);
    let mut response = StatusCode::NO_CONTENT.into_response();
    let response_headers = response.headers_mut();
    response_headers.insert(header::ALLOW, methods.clone());
    response_headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    let requested = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let default = HeaderValue::from_static("content-type, x-mdp-session-id, authorization");
    let requested = requested.unwrap_or(default);
    response_headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, requested);
    response
}
