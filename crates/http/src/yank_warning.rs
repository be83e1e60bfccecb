//! Warning of a response whose version was yanked, the same on every surface over HTTP.

use axum::{
    http::{HeaderName, HeaderValue},
    response::Response,
};
use skills_core::uri::percent_encode_component;

/// Header with the percent-encoded reason why the version was yanked.
const SKILL_YANKED: HeaderName = HeaderName::from_static("x-skill-yanked");

/// Adds the header with the reason of a yank, if there is one.
#[must_use]
pub fn with_yank_warning(mut response: Response, yanked: Option<&str>) -> Response {
    // A header has no control characters and is not always UTF-8, so the reason is encoded.
    let reason = yanked.map(percent_encode_component).map(HeaderValue::try_from);
    if let Some(Ok(reason)) = reason {
        response.headers_mut().insert(SKILL_YANKED, reason);
    }
    response
}
