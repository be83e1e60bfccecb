//! MCP over Streamable HTTP: the stateless revision, and the older ones with sessions.
//!
//! - `sessions`: session ownership, the share of each client, and the one stream of each session
//! - `session_manager`: the methods that rmcp calls for sessions
//! - `opening_request`: context of a request that may open a session
//! - `stream`: forwarding of a session's messages, with a stall timeout
//! - `request_ids`: ids of pending requests of a session
//! - `parse_error`: JSON-RPC errors for bodies that are not a message
//! - `sse_to_json`: plain JSON responses instead of event streams of one event
//!
//! Origin, Host, token and key are the business of the listener that these routes are mounted on; it passes the caller
//! as an extension of the request.

mod opening_request;
mod parse_error;
pub(crate) mod request_ids;
mod session_manager;
mod sessions;
mod sse_to_json;
mod stream;

use std::sync::Arc;

use axum::{
    Json, Router,
    body::{Body, HttpBody as _},
    extract::{Request, State},
    http::{Method, StatusCode, request::Parts},
    response::{IntoResponse as _, Response},
    routing::any,
};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use skills_core::{Code, RequestId};

pub use self::sessions::OpenSession;
use self::{
    opening_request::OpeningRequest,
    session_manager::Manager,
    sessions::{SessionAccess, Sessions},
};
use crate::{
    Mcp, McpProfile,
    fast_path::{self, FastPath, SessionView},
    handler::Handler,
    shutdown,
};

/// JSON-RPC error code of an unknown session, as other servers have it.
const SESSION_NOT_FOUND: i32 = -32001;
/// Largest request body.
const MAX_REQUEST_BYTES: usize = 4 << 20;

/// Returns the routes of MCP: `/mcp`, and one for each other profile. Needs a Tokio runtime.
pub fn routes(mcp: &Mcp) -> Router {
    routes_with_sessions(mcp).0
}

/// Returns the routes of MCP, and the list of the sessions that clients open there. Needs a Tokio runtime.
pub fn routes_with_sessions(mcp: &Mcp) -> (Router, OpenSessions) {
    let sessions = Sessions::new();
    let router = route("/mcp", mcp, &sessions)
        .merge(route("/mcp/mdp", &mcp.with_profile(McpProfile::Mdp), &sessions))
        .merge(route("/mcp/skills", &mcp.with_profile(McpProfile::Skills), &sessions));
    (router, OpenSessions(sessions))
}

/// List of the open sessions of all routes.
#[derive(Clone)]
pub struct OpenSessions(Arc<Sessions>);

impl OpenSessions {
    /// Returns the sessions that are open now.
    #[must_use]
    pub fn list(&self) -> Vec<OpenSession> {
        self.0.open_sessions()
    }
}

fn route(path: &str, mcp: &Mcp, sessions: &Arc<Sessions>) -> Router {
    Router::new().route(path, any(handle)).with_state(Arc::new(Endpoint::new(mcp, sessions)))
}

async fn handle(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    endpoint.handle(request).await
}

/// Builds the response to a request for a session that does not exist; the client has to initialize again.
fn session_not_found() -> Response {
    let mut data = json!({ "code": Code::NotFound });
    if let Some(id) = RequestId::current() {
        data["request_id"] = id.as_str().into();
    }
    let error = json!({ "code": SESSION_NOT_FOUND, "message": "session not found", "data": data });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}

/// State of one route.
struct Endpoint {
    profile: McpProfile,
    sessions: Arc<Sessions>,
    fast_path: Option<FastPath>,
    service: StreamableHttpService<Handler, Manager>,
}

impl Endpoint {
    fn new(mcp: &Mcp, sessions: &Arc<Sessions>) -> Self {
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .with_sse_retry(None)
            .with_max_request_body_bytes(MAX_REQUEST_BYTES)
            .with_cancellation_token(shutdown::after_grace_period(&mcp.shared.settings.shutdown))
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let (sessions, profile) = (Arc::clone(sessions), mcp.shared.settings.profile);
        let manager = Arc::new(Manager { sessions: Arc::clone(&sessions), profile });
        let fast_path = FastPath::new(mcp);
        let mcp = mcp.clone();
        // A session has the view of the caller that opened it, a request without one the view of its sender.
        let handler = move || {
            let request = OpeningRequest::current();
            let caller = request.as_ref().map(|request| request.caller.clone()).unwrap_or_default();
            let shared = mcp.shared_for(&caller).map_err(std::io::Error::other)?;
            if let Some(request) = &request {
                let _ = request.shared.set(Arc::clone(&shared));
            }
            let client = request.map(|request| request.client()).unwrap_or_default();
            Ok(Handler::new(shared, client))
        };
        let service = StreamableHttpService::new(handler, manager, config);
        Self { profile, sessions, fast_path, service }
    }

    async fn handle(&self, request: Request) -> Response {
        let session = match self.sessions.access(request.headers(), self.profile) {
            SessionAccess::NoSession => Some(None),
            SessionAccess::Allowed(view) => view.map(Some),
            SessionAccess::Denied => return session_not_found(),
        };
        let (head, mut body) = request.into_parts();
        let method = head.method.clone();
        if method == Method::POST
            && let Some(session) = session
        {
            match self.try_fast_path(&head, body, session).await {
                Ok(response) => return response,
                Err(unread) => body = unread,
            }
        }
        let request = Request::from_parts(head, body);
        // Only POST can open a session, or be handled without one.
        let response = if method == Method::POST {
            OpeningRequest::new(&request).scope(self.service.handle(request)).await
        } else {
            self.service.handle(request).await
        };
        let response = parse_error::to_json_rpc(response.map(Body::new)).await;
        match method {
            Method::POST => sse_to_json::convert(response).await,
            // Some clients take "accepted" for a failure.
            Method::DELETE if response.status().is_success() => {
                StatusCode::NO_CONTENT.into_response()
            }
            _ => response,
        }
    }

    /// Responds without rmcp, or else returns the body for it.
    async fn try_fast_path(
        &self,
        head: &Parts,
        body: Body,
        session: Option<SessionView>,
    ) -> Result<Response, Body> {
        let Some(fast_path) = &self.fast_path else { return Err(body) };
        let size = body.size_hint().exact();
        if size.is_none_or(|size| size > fast_path::MAX_REQUEST_BYTES as u64) {
            return Err(body);
        }
        let received = body.collect().await;
        // rmcp has the response to a body that cannot be received.
        let failed =
            |error| Body::from_stream(futures_util::stream::iter([Err::<Bytes, _>(error)]));
        let bytes = received.map_err(failed)?.to_bytes();
        let response = fast_path.respond(head, &bytes, session).await;
        response.ok_or_else(|| Body::from(bytes))
    }
}
