//! CORS headers for allowed pages.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};

/// Methods of all routes.
pub(super) const METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, OPTIONS");
/// Methods of routes that pages may only read.
pub(super) const READ_METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD");
/// Response headers that scripts of a page may read.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "ETag, Mcp-Protocol-Version, Mcp-Session-Id, Retry-After, WWW-Authenticate, \
     X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id, \
     X-Skills-Catalog-Age",
);
/// Seconds for which a browser may cache a preflight response.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
/// Maximum bytes of `Access-Control-Request-Headers` that a response repeats.
const MAX_REQUESTED_HEADER_BYTES: usize = 1024;

/// Returns whether a request is a CORS preflight, which carries no credential.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Builds the response to a preflight.
pub(super) fn preflight(headers: &HeaderMap, methods: HeaderValue) -> Response {
    let mut response = (StatusCode::NO_CONTENT, Body::empty()).into_response();
    let answer = response.headers_mut();
    answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    answer.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    let requested = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS);
    if let Some(requested) = requested.filter(|value| value.len() <= MAX_REQUESTED_HEADER_BYTES) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, requested.clone());
        answer.append(header::VARY, header::ACCESS_CONTROL_REQUEST_HEADERS.into());
    }
    response
}

/// Web page that sent a request.
pub(super) struct Page {
    pub(super) origin: HeaderValue,
    /// Allows requests with cookies: false for pages that only a wildcard allows.
    pub(super) with_cookies: bool,
}

/// Inserts the CORS headers for the page that sent the request, if a page did.
pub(super) fn insert_headers(headers: &mut HeaderMap, page: Option<Page>) {
    // Also without a page: a cache must not give a page the response to another client.
    headers.append(header::VARY, header::ORIGIN.into());
    if let Some(Page { origin, with_cookies }) = page {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
        if with_cookies {
            let yes = HeaderValue::from_static("true");
            headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
        }
    }
}
