//! MCP over Streamable HTTP: the stateless revision, and the older ones with sessions.
//!
//! - `sessions`: who a session belongs to, and how many there may be
//! - `no_message`: what a body gets that is no message
//! - `one_answer`: answers of sessions as plain JSON, where rmcp makes a stream of one event
//!
//! Origin, Host and token are the business of the listener that these routes are mounted on.

mod no_message;
mod one_answer;
mod sessions;

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{Method, StatusCode},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService,
    session::local::{LocalSessionManager, SessionConfig},
};

use self::sessions::{Access, Sessions};
use crate::{Mcp, ending};

/// The largest request that is read.
const MAX_REQUEST_BYTES: usize = 4 << 20;

/// The routes of MCP, to be mounted where HTTP is served. Needs a Tokio runtime.
pub fn routes(mcp: &Mcp) -> Router {
    let mut manager = LocalSessionManager::default();
    // How long a session lives is decided in `sessions`: one that only listens is not idle.
    manager.session_config = SessionConfig::default();
    manager.session_config.keep_alive = None;
    manager.session_config.sse_retry = None;
    let manager = Arc::new(manager);
    let config = StreamableHttpServerConfig::default()
        .with_json_response(true)
        .with_sse_retry(None)
        .with_max_request_body_bytes(MAX_REQUEST_BYTES)
        .with_cancellation_token(ending::after(&mcp.shared.settings.shutdown))
        .disable_allowed_hosts()
        .disable_allowed_origins();
    let sessions = Arc::new(Sessions::new(Arc::clone(&manager)));
    let mcp = mcp.clone();
    let service = StreamableHttpService::new(move || Ok(mcp.handler()), manager, config);
    Router::new().route_service("/mcp", service).layer(from_fn_with_state(sessions, with_session))
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
    let owner = sessions::owner(request.headers());
    let response = no_message::as_error(next.run(request).await).await;
    match (method, access) {
        (Method::POST, Access::None) => {
            let response = one_answer::as_json(response).await;
            sessions.admit(response, owner).await
        }
        (Method::POST, _) => one_answer::as_json(response).await,
        (Method::GET, Access::Known(id)) => sessions.count_stream(response, id),
        (Method::DELETE, Access::Known(id)) => {
            sessions.forget(&id);
            // Some clients take "accepted" for a failure.
            StatusCode::NO_CONTENT.into_response()
        }
        _ => response,
    }
}
