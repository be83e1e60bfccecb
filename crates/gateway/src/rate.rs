//! What every answer to somebody with a key says: how often the key may be used in a minute, and what is left.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue},
    middleware::Next,
    response::Response,
};
use skills_core::Caller;
use skills_vault::Decision;

use crate::Gateway;

/// Uses in a minute.
pub(crate) const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// What is left of them.
pub(crate) const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// When all of them are there again, in seconds since 1970.
pub(crate) const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Adds the headers to the answer, as it is after the request.
pub(crate) async fn mark(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    let user = match request.extensions().get::<Caller>() {
        Some(Caller::User(user)) => Some(user.clone()),
        _ => None,
    };
    let mut response = next.run(request).await;
    if let Some(left) = user.and_then(|user| gateway.left(&user)) {
        write(response.headers_mut(), &left);
    }
    response
}

fn write(headers: &mut HeaderMap, left: &Decision) {
    headers.insert(LIMIT, left.limit.into());
    headers.insert(REMAINING, left.remaining.into());
    headers.insert(RESET, HeaderValue::from(left.reset_at));
}
