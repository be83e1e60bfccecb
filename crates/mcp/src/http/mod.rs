//! MCP over Streamable HTTP: the stateless revision, and the older ones with sessions.
//!
//! - `sessions`: who a session belongs to, and how many there may be
//! - `no_message`: what a body gets that is no message
//! - `stream`: what a session is told, for as long as its client takes it
//! - `one_answer`: answers of sessions as plain JSON, where rmcp makes a stream of one event
//!
//! Origin, Host, token and key are the business of the listener that these routes are mounted on, which says who
//! asks by an extension of the request.

mod no_message;
mod one_answer;
mod sessions;
mod stream;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{Method, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use skills_core::Caller;

use self::sessions::{Access, Manager, Sessions};
use crate::{Mcp, Profile, ending};

/// The largest request that is read.
const MAX_REQUEST_BYTES: usize = 4 << 20;

/// The routes of MCP, to be mounted where HTTP is served: `/mcp`, and `/mcp/mdp` with the tools of the Model Drive
/// Protocol alone. Needs a Tokio runtime.
pub fn routes(mcp: &Mcp) -> Router {
    at("/mcp", mcp).merge(at("/mcp/mdp", &mcp.with_profile(Profile::Mdp)))
}

fn at(path: &str, mcp: &Mcp) -> Router {
    let config = StreamableHttpServerConfig::default()
        .with_json_response(true)
        .with_sse_retry(None)
        .with_max_request_body_bytes(MAX_REQUEST_BYTES)
        .with_cancellation_token(ending::after(&mcp.shared.settings.shutdown))
        .disable_allowed_hosts()
        .disable_allowed_origins();
    let sessions = Sessions::new();
    let manager = Arc::new(Manager(Arc::clone(&sessions)));
    let mcp = mcp.clone();
    // A session sees what who opened it sees, and a request without one what who sends it sees.
    let handler = move || {
        let handler = mcp.handler_of(&Sessions::caller(), Sessions::hearing());
        handler.map_err(std::io::Error::other)
    };
    let service = StreamableHttpService::new(handler, manager, config);
    Router::new().route_service(path, service).layer(from_fn_with_state(sessions, with_session))
}

async fn with_session(
    State(sessions): State<Arc<Sessions>>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let access = sessions.access(request.headers());
    if access == Access::Denied {
        return (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response();
    }
    let response = match method {
        // Only this can open a session, or ask without one.
        Method::POST => {
            let authorization = request.headers().get(header::AUTHORIZATION).cloned();
            let caller = request.extensions().get::<Caller>().cloned().unwrap_or_default();
            Sessions::opening(authorization, caller, next.run(request)).await
        }
        _ => next.run(request).await,
    };
    let response = no_message::as_error(response).await;
    match method {
        Method::POST => one_answer::as_json(response).await,
        // Some clients take "accepted" for a failure.
        Method::DELETE if response.status().is_success() => StatusCode::NO_CONTENT.into_response(),
        _ => response,
    }
}
