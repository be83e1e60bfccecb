//! Headers with the state of the caller's rate limit.

use axum::http::{HeaderMap, HeaderName};
use skills_core::Caller;

use crate::Gateway;

/// Calls per minute.
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// Calls that are left in this minute.
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// Time at which all calls are available again, in Unix seconds.
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Adds the state of a caller's rate limit after the request to a response. The listener calls it for every response
/// under the gateway's paths, including those that it refuses before they reach a route.
pub fn add_rate_limit_headers(gateway: &Gateway, caller: &Caller, headers: &mut HeaderMap) {
    if let Some(limit) = gateway.rate_limit(caller) {
        headers.insert(LIMIT, limit.limit.into());
        headers.insert(REMAINING, limit.remaining.into());
        headers.insert(RESET, limit.reset_at.into());
    }
}
