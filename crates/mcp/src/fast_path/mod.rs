//! Fast path of frequent reads over HTTP: they are answered from JSON text that is made once per version, without rmcp.
//!
//! | method | text is made once for |
//! |---|---|
//! | `resources/read` of a stored file, `skills/get` of a stored skill | a row of the catalog |
//! | `tools/call` of `read_skill` with one `iii://` URI or id | a row of the catalog |
//! | `resources/read` of the index, `resources/list`, `prompts/list` | a snapshot of the catalog |
//!
//! The text is the `result` of the response as rmcp serializes it, from the same functions that its handler calls. Any
//! other request, and any request that fails, is left to rmcp, which handles it from the start: [`FastPath::respond`]
//! then returns `None` without a trace in the log. So there is one source of error responses.
//!
//! - `request`: the JSON-RPC envelope, read by reference
//! - `headers`: the checks of rmcp on headers and request metadata
//! - `results`: the text of a result
//! - `cache`: texts by row or snapshot

mod cache;
mod headers;
mod request;
mod results;
#[cfg(test)]
mod tests;

use std::{panic::AssertUnwindSafe, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, header, request::Parts},
    response::Response,
};
use futures_util::FutureExt as _;
use skills_core::{Caller, CallerKind, TracedRequest, request_trace};

pub(crate) use self::cache::ResultCache;
use self::{
    headers::Lifecycle,
    request::{JsonId, ReadRequest},
    results::{ResultForm, ResultReader},
};
use crate::{
    Mcp, McpProfile,
    budget::ResponseBudget,
    http::request_ids::RequestIds,
    server::{Settings, Shared},
};

/// Most bytes of a request that is tried here. Larger ones are rare, and parsing them twice would cost too much.
pub(crate) const MAX_REQUEST_BYTES: usize = 4 << 10;

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Session that a request belongs to.
#[derive(Clone)]
pub(crate) struct SessionView {
    /// State with the view of the caller that opened the session.
    pub(crate) shared: Arc<Shared>,
    /// Ids of the session's pending requests.
    pub(crate) requests: RequestIds,
}

/// Fast path of one route.
pub(crate) struct FastPath(Mcp);

impl FastPath {
    /// Returns the fast path of a server; `None` if it has none.
    pub(crate) fn new(mcp: &Mcp) -> Option<Self> {
        let Settings { profile, disable_fast_path, .. } = mcp.shared.settings;
        (profile == McpProfile::Full && !disable_fast_path).then(|| Self(mcp.clone()))
    }

    /// Responds to a POST request; `None` if rmcp has to.
    pub(crate) async fn respond(
        &self,
        head: &Parts,
        body: &[u8],
        session: Option<SessionView>,
    ) -> Option<Response> {
        // After a panic, rmcp's handler has the error response.
        AssertUnwindSafe(self.try_respond(head, body, session)).catch_unwind().await.ok()?
    }

    async fn try_respond(
        &self,
        head: &Parts,
        body: &[u8],
        session: Option<SessionView>,
    ) -> Option<Response> {
        let lifecycle = Lifecycle::from_headers(&head.headers, session.is_some())?;
        let request = ReadRequest::parse(body)?;
        lifecycle.check(&head.headers, &request)?;
        // Dropped before rmcp handles the request.
        let _pending = match &session {
            Some(session) => Some(session.requests.begin(&request.id.to_rmcp()?)?),
            None => None,
        };
        let shared = match session {
            Some(session) => session.shared,
            None => {
                let caller = head.extensions.get::<Caller>().unwrap_or(&Caller::Anonymous);
                self.0.shared_for(caller).ok()?
            }
        };
        let form = ResultForm::new(lifecycle, &shared.settings);
        let call = &request.call;
        let caller = CallerKind::from(&shared.caller);
        let traced = TracedRequest::new("mcp", call.method(), call.tool(), caller);
        let budget = ResponseBudget::from_head(head);
        let reader = ResultReader { shared: &shared, budget: &budget, form };
        let result = request_trace::trace_some(traced, reader.result(call)).await?;
        Some(response(&request.id, &result, lifecycle))
    }
}

/// Builds the response with a result.
fn response(id: &JsonId<'_>, result: &[u8], lifecycle: Lifecycle) -> Response {
    const PREFIX: &[u8] = br#"{"jsonrpc":"2.0","id":"#;
    const RESULT: &[u8] = br#","result":"#;
    let text = [PREFIX, id.as_bytes(), RESULT, result, b"}"].concat();
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if lifecycle == Lifecycle::Session {
        // Those of rmcp's event stream, which the response would be.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    }
    #[cfg(test)]
    response.extensions_mut().insert(tests::OfFastPath);
    response
}
