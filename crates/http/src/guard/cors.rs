//! What browsers want to hear before they give an allowed page its answer.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, OPTIONS");
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "ETag, Mcp-Protocol-Version, Mcp-Session-Id, Retry-After, WWW-Authenticate, \
     X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset",
);
/// For how many seconds a browser need not ask again.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// Bytes of header names that a page may ask to send.
const MAX_REQUESTED: usize = 1024;

/// Whether it is the question before a request, which carries no token.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to that question.
pub(super) fn preflight(headers: &HeaderMap) -> Response {
    let mut response = (StatusCode::NO_CONTENT, Body::empty()).into_response();
    let answer = response.headers_mut();
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    let requested = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
    if let Some(requested) = requested.filter(|value| value.len() <= MAX_REQUESTED) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, requested.clone());
        answer.append(header::VARY, name(&header::ACCESS_CONTROL_REQUEST_HEADERS));
    }
    response
}

/// A page that asks.
pub(super) struct Page {
    pub(super) origin: HeaderValue,
    /// Whether it may ask with its cookies: not a page that is allowed as all pages are.
    pub(super) with_cookies: bool,
}

/// Marks an answer as one for the page that asked, if a page did.
pub(super) fn mark(answer: &mut HeaderMap, page: Option<Page>) {
    // Also without one: a cache must not give a page what was an answer to somebody else.
    answer.append(header::VARY, name(&header::ORIGIN));
    if let Some(Page { origin, with_cookies }) = page {
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        if with_cookies {
            let yes = HeaderValue::from_static("true");
            answer.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
        }
    }
}

fn name(name: &HeaderName) -> HeaderValue {
    HeaderValue::from(name.clone())
}
