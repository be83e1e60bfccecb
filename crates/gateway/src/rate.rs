//! What every answer says: how often whoever asked may call tools in a minute, and what is left of that.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use skills_core::Caller;
use skills_vault::Decision;

use crate::Gateway;

/// Calls in a minute.
pub(crate) const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// What is left of them.
pub(crate) const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// When all of them are there again, in seconds since 1970.
pub(crate) const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Writes it into the head of an answer, as it is after the request. To be done for every answer under the
/// addresses of the routes, also for those that are refused before they get there.
pub fn mark(gateway: &Gateway, caller: &Caller, answer: &mut HeaderMap) {
    if let Some(left) = gateway.left(caller) {
        write(answer, &left);
    }
}

fn write(headers: &mut HeaderMap, left: &Decision) {
    headers.insert(LIMIT, left.limit.into());
    headers.insert(REMAINING, left.remaining.into());
    headers.insert(RESET, HeaderValue::from(left.reset_at));
}
