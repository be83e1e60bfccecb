//! Extractors of query, path and body whose rejections are [`GatewayError`]s.

use std::convert::Infallible;

use axum::{
    Json, RequestExt as _,
    body::HttpBody as _,
    extract::{self, FromRequest, FromRequestParts, Path, Request},
    http::{HeaderMap, request::Parts},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::GatewayError;

/// Extractor of the query string.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = GatewayError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, GatewayError> {
        match extract::Query::from_request_parts(parts, state).await {
            Ok(extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(GatewayError::InvalidQuery(rejection.body_text())),
        }
    }
}

/// Extractor of the request headers. It takes them, where axum's extractor copies them, so it is the last one of a
/// handler.
pub(crate) struct TakenHeaders(pub(crate) HeaderMap);

impl<S: Sync> FromRequestParts<S> for TakenHeaders {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(std::mem::take(&mut parts.headers)))
    }
}

/// Extractor of path parameters.
pub(crate) struct PathParam<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParam<T> {
    type Rejection = GatewayError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, GatewayError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(params)) => Ok(Self(params)),
            Err(rejection) => Err(GatewayError::InvalidPath(rejection.body_text())),
        }
    }
}

/// Extractor of a JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned + 'static, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = GatewayError;

    async fn from_request(request: Request, _: &S) -> Result<Self, GatewayError> {
        let Json(body) = request.extract().await?;
        Ok(Self(body))
    }
}

/// Extractor of a JSON body that may be empty or `null`.
pub(crate) struct OptionalJsonBody<T>(pub(crate) Option<T>);

impl<T: DeserializeOwned + 'static, S: Send + Sync> FromRequest<S> for OptionalJsonBody<T> {
    type Rejection = GatewayError;

    async fn from_request(request: Request, state: &S) -> Result<Self, GatewayError> {
        if request.body().is_end_stream() {
            return Ok(Self(None));
        }
        let JsonBody(body) = JsonBody::from_request(request, state).await?;
        Ok(Self(body))
    }
}

/// Extractor of a body that is a JSON object or empty. The listener limits its number of values before it is parsed.
pub(crate) struct JsonObjectBody(pub(crate) Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for JsonObjectBody {
    type Rejection = GatewayError;

    async fn from_request(request: Request, state: &S) -> Result<Self, GatewayError> {
        if request.body().is_end_stream() {
            return Ok(Self(Map::new()));
        }
        let JsonBody(body) = JsonBody::from_request(request, state).await?;
        Ok(Self(body))
    }
}
