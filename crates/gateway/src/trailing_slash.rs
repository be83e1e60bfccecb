//! Paths with one trailing slash are served as the path without it.

use axum::{
    Router,
    body::Body,
    extract::{DefaultBodyLimit, Request},
    http::{Extensions, Uri, uri::PathAndQuery},
    response::{IntoResponse as _, Response},
};
use skills_core::{Caller, RequestBudget};
use tower::ServiceExt as _;

use crate::error::GatewayError;

/// Handles a request that no route matched: repeats it without the trailing slash.
pub(crate) async fn retry_without_slash(routes: Router, request: Request) -> Response {
    let Some(uri) = without_trailing_slash(request.uri()) else {
        return GatewayError::RouteNotFound.into_response();
    };
    let (mut parts, body) = request.into_parts();
    parts.uri = uri;
    // Only these: path parameters of the fallback must not reach the route.
    let mut extensions = Extensions::new();
    copy::<Caller>(&parts.extensions, &mut extensions);
    copy::<RequestBudget>(&parts.extensions, &mut extensions);
    parts.extensions = extensions;
    // The listener limits the body already.
    let routes = routes.layer(DefaultBodyLimit::disable());
    routes.oneshot(Request::from_parts(parts, Body::new(body))).await.into_response()
}

fn copy<T: Clone + Send + Sync + 'static>(from: &Extensions, to: &mut Extensions) {
    if let Some(value) = from.get::<T>() {
        to.insert(value.clone());
    }
}

fn without_trailing_slash(uri: &Uri) -> Option<Uri> {
    let path = uri.path().strip_suffix('/').filter(|path| !path.ends_with('/'))?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(format!("{path}{query}")).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use axum::{body::to_bytes, routing::get};
    use skills_core::MemoryBudget;

    use super::*;

    #[tokio::test]
    async fn a_path_with_a_slash_has_the_budget_and_the_caller_of_its_request() {
        let handler = async |request: Request| {
            let budget = request.extensions().get::<RequestBudget>();
            let refused = budget.is_some_and(|budget| budget.try_grow(2048).is_err());
            format!("{refused} {:?}", request.extensions().get::<Caller>())
        };
        let routes = Router::new().route("/v1/skills/{id}", get(handler));
        let budget = RequestBudget::with_memory(&MemoryBudget::new(1024));
        let mut request = Request::get("/v1/skills/a/").body(Body::empty()).unwrap();
        request.extensions_mut().insert(budget);
        request.extensions_mut().insert(Caller::Anonymous);
        let response = retry_without_slash(routes, request).await;
        let body = to_bytes(response.into_body(), 1024).await.unwrap();
        assert_eq!(body, "true Some(Anonymous)");
    }

    #[test]
    fn exactly_one_trailing_slash_is_removed() {
        let strip =
            |uri: &str| without_trailing_slash(&uri.parse().unwrap()).map(|uri| uri.to_string());
        assert_eq!(strip("/v1/skills/").as_deref(), Some("/v1/skills"));
        assert_eq!(
            strip("/v1/skills/a/?tier=market&x=/").as_deref(),
            Some("/v1/skills/a?tier=market&x=/")
        );
        for uri in ["/v1/skills", "/v1/skills//", "/v1//", "/v1/nothing?a=/"] {
            assert_eq!(strip(uri), None, "{uri}");
        }
    }
}
