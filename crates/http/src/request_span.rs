//! Request id, span and access line of every HTTP request.
//!
//! The duration ends with the head of the response: streams last longer.

use std::time::Instant;

use axum::{
    extract::{MatchedPath, Request},
    http::{HeaderMap, HeaderName, HeaderValue},
    response::Response,
};
use skills_core::{
    Caller, CallerKind, RequestId,
    request_trace::{ACCESS_TARGET, SPAN_TARGET, duration_ms, is_enabled},
};
use tracing::{Instrument as _, Span, field::Empty};

use crate::error::HttpError;

/// Header of the request id, in requests and responses.
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Route of paths that no route matches. The path itself may contain names or secrets.
const NO_ROUTE: &str = "*";

/// Error code of a surface, as an extension of its error responses, for the access line.
#[derive(Debug, Clone)]
pub struct ErrorCode(pub String);

/// Caller kind as an extension of a response.
#[derive(Debug, Clone, Copy)]
struct ResponseCaller(CallerKind);

/// Stores the caller of a request for its access line.
pub(crate) fn set_caller(response: &mut Response, caller: &Caller) {
    if *caller != Caller::Anonymous && is_enabled() {
        response.extensions_mut().insert(ResponseCaller(caller.into()));
    }
}

/// Takes over the id of the client if it sent a valid one, else creates one.
fn request_id(headers: &HeaderMap) -> RequestId {
    let mut sent = headers.get_all(X_REQUEST_ID).iter();
    let id = match (sent.next(), sent.next()) {
        (Some(id), None) => RequestId::from_client(id.as_bytes()),
        _ => None,
    };
    id.unwrap_or_else(RequestId::next)
}

/// Handles a request within its id and its span, adds the id to the response, and emits the access line.
pub(crate) async fn trace(
    mut request: Request,
    handle: impl AsyncFnOnce(Request) -> Response,
) -> Response {
    let id = request_id(request.headers());
    request.extensions_mut().insert(id.clone());
    let access = is_enabled().then(|| AccessLine::new(&request, &id));
    let handling = id.clone().scope(handle(request));
    let mut response = match &access {
        Some(access) => handling.instrument(access.span.clone()).await,
        None => handling.await,
    };
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    if let Some(access) = access {
        access.emit(&id, &response);
    }
    response
}

/// Parts of the access line that are known before the response.
struct AccessLine {
    method: axum::http::Method,
    route: Option<MatchedPath>,
    started: Instant,
    span: Span,
}

impl AccessLine {
    fn new(request: &Request, id: &RequestId) -> Self {
        let method = request.method().clone();
        let route = request.extensions().get::<MatchedPath>().cloned();
        let span = tracing::info_span!(
            target: SPAN_TARGET,
            "request",
            id = id.as_str(),
            surface = "http",
            method = method.as_str(),
            route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str),
            caller = Empty,
            status = Empty,
            code = Empty,
            duration_ms = Empty,
        );
        Self { method, route, started: Instant::now(), span }
    }

    fn emit(self, id: &RequestId, response: &Response) {
        let Self { method, route, started, span } = self;
        let status = response.status().as_u16();
        let extensions = response.extensions();
        let caller = extensions.get::<ResponseCaller>();
        let caller = caller.map_or(CallerKind::Anonymous, |caller| caller.0).as_str();
        let surface_code = extensions.get::<ErrorCode>().map(|code| code.0.as_str());
        let code = surface_code
            .or_else(|| extensions.get().copied().map(|error: HttpError| error.code().as_str()));
        let duration_ms = duration_ms(started.elapsed());
        span.record("caller", caller).record("status", status).record("duration_ms", duration_ms);
        if let Some(code) = code {
            span.record("code", code);
        }
        tracing::info!(
            target: ACCESS_TARGET,
            parent: None,
            id = id.as_str(),
            surface = "http",
            method = method.as_str(),
            route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str),
            caller,
            status,
            code,
            duration_ms,
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::{Router, body::Body, body::to_bytes, routing::get};
    use serde_json::Value;
    use skills_core::{KeyDirectory, KeyLookup, caller::AdminName};
    use tower::ServiceExt as _;

    use super::*;
    use crate::{Access, App, Guard, Readiness, client_shares::ClientShares};

    const KEY: &str = "us-s3cret";

    struct OneKey;

    impl KeyDirectory for OneKey {
        fn lookup(&self, bearer: &str) -> KeyLookup {
            match bearer {
                KEY => KeyLookup::Found(Caller::Admin(AdminName::AdminKey)),
                _ => KeyLookup::UnknownKey,
            }
        }
    }

    fn router() -> Router {
        let access = Access { keys: Arc::new(OneKey), ..Access::default() };
        let routes = Router::new().route("/skills/{id}", get(async || "text"));
        let app = App::new(routes, Guard::new(access).unwrap(), Readiness::default());
        let shares = ClientShares::new(&app.budget);
        app.router(([127, 0, 0, 1], 80).into(), &shares)
    }

    async fn send(path: &str, headers: &[(&str, &str)]) -> Response {
        let mut request = Request::get(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    fn id(response: &Response) -> String {
        response.headers()[X_REQUEST_ID].to_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn a_valid_request_id_is_echoed() {
        for path in ["/skills/a", "/nowhere", "/healthz"] {
            let response = send(path, &[("x-request-id", "client-1")]).await;
            assert_eq!(id(&response), "client-1", "{path}");
        }
    }

    #[tokio::test]
    async fn a_malformed_or_missing_request_id_is_replaced() {
        let long = "x".repeat(129);
        let mut ids = vec![];
        for headers in [
            vec![],
            vec![("x-request-id", "")],
            vec![("x-request-id", "a b")],
            vec![("x-request-id", &*long)],
            vec![("x-request-id", "a"), ("x-request-id", "b")],
        ] {
            let id = id(&send("/skills/a", &headers).await);
            assert!(RequestId::from_client(id.as_bytes()).is_some(), "{id:?}");
            assert!(headers.iter().all(|(_, sent)| *sent != id), "{headers:?}");
            assert!(!ids.contains(&id), "{id} is repeated");
            ids.push(id);
        }
    }

    #[tokio::test]
    async fn the_request_id_is_in_the_error_body() {
        for (path, headers, status) in [
            ("/nowhere", vec![], 404),
            ("/skills/a", vec![("authorization", "Bearer us-unknown")], 401),
            ("/skills/a", vec![("origin", "https://evil.example")], 403),
        ] {
            let response = send(path, &headers).await;
            assert_eq!(response.status().as_u16(), status, "{path}");
            let id = id(&response);
            let body = to_bytes(response.into_body(), 10_000).await.unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(body["error"]["request_id"], id, "{body}");
        }
    }
}
