//! Conditional responses: a client that already has the body gets `304 Not Modified`.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use skills_core::{Digest, content::content_type, etag};

/// Response body with its content type and entity tag.
#[derive(Debug, Clone)]
pub struct TaggedBody {
    body: Bytes,
    content_type: HeaderValue,
    etag: HeaderValue,
}

/// Headers of most responses, so that their table is allocated once: those added here, by the middleware and by axum.
const HEADER_COUNT: usize = 12;

impl TaggedBody {
    /// Creates a body that is tagged with its digest.
    #[must_use]
    pub fn new(media_type: &str, body: Bytes) -> Self {
        let digest = Digest::of(&body);
        Self::with_digest(media_type, body, &digest)
    }

    /// Creates a body whose digest is already computed.
    #[must_use]
    pub fn with_digest(media_type: &str, body: Bytes, digest: &Digest) -> Self {
        let content_type = HeaderValue::try_from(&*content_type(media_type))
            .unwrap_or(HeaderValue::from_static("application/octet-stream"));
        // Hexadecimal digits in quotes are a valid value.
        let etag = HeaderValue::try_from(etag::from_digest(digest));
        let etag = etag.unwrap_or(HeaderValue::from_static("\"\""));
        Self { body, content_type, etag }
    }

    /// Returns the size of the body in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.body.len()
    }

    /// Returns whether the body is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// Responds to a request with these headers. Responses depend on the caller, so caches must not share them between
    /// callers (`Vary`).
    #[must_use]
    pub fn respond(&self, request: &HeaderMap, cache_control: &'static str) -> Response {
        let tags = request.get_all(header::IF_NONE_MATCH).iter();
        let etag = self.etag.to_str().unwrap_or_default();
        let is_known = etag::matches(tags.filter_map(|value| value.to_str().ok()), etag);
        let (status, body) = if is_known {
            (StatusCode::NOT_MODIFIED, Body::empty())
        } else {
            (StatusCode::OK, Body::from(self.body.clone()))
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.reserve(HEADER_COUNT);
        // A 304 has it too: the content policy of a response depends on its type.
        headers.insert(header::CONTENT_TYPE, self.content_type.clone());
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control));
        headers.insert(header::VARY, HeaderValue::from_static("authorization"));
        headers.insert(header::ETAG, self.etag.clone());
        response
    }
}
