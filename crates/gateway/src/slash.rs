//! A path with one slash too many at its end is the path without it.

use axum::{
    Router,
    body::Body,
    extract::{DefaultBodyLimit, Request},
    http::{Extensions, Uri, uri::PathAndQuery},
    response::{IntoResponse as _, Response},
};
use skills_core::Caller;
use tower::ServiceExt as _;

use crate::error::GatewayError;

/// Answers what no route answered: by the routes, asked without the slash at the end.
pub(crate) async fn without(routes: Router, request: Request) -> Response {
    let Some(uri) = shorter(request.uri()) else {
        return GatewayError::NoSuchRoute.into_response();
    };
    let (mut parts, body) = request.into_parts();
    parts.uri = uri;
    // Who asks is kept, and not what the longer path was taken for.
    let mut extensions = Extensions::new();
    if let Some(caller) = parts.extensions.get::<Caller>() {
        extensions.insert(caller.clone());
    }
    parts.extensions = extensions;
    // The body is bounded by who let it in.
    let routes = routes.layer(DefaultBodyLimit::disable());
    let answered = routes.oneshot(Request::from_parts(parts, Body::new(body))).await;
    answered.into_response()
}

fn shorter(uri: &Uri) -> Option<Uri> {
    let path = uri.path().strip_suffix('/').filter(|path| !path.ends_with('/'))?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(format!("{path}{query}")).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slash_at_the_end_and_no_other() {
        let of = |uri: &str| shorter(&uri.parse().unwrap()).map(|uri| uri.to_string());
        assert_eq!(of("/v1/skills/").as_deref(), Some("/v1/skills"));
        assert_eq!(
            of("/v1/skills/a/?tier=market&x=/").as_deref(),
            Some("/v1/skills/a?tier=market&x=/")
        );
        for uri in ["/v1/skills", "/v1/skills//", "/v1//", "/v1/nothing?a=/"] {
            assert_eq!(of(uri), None, "{uri}");
        }
    }
}
