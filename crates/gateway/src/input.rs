//! What is asked: queries and bodies, with errors in the shape of all others.

use axum::{
    Json, RequestExt as _,
    body::HttpBody as _,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::request::Parts,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::GatewayError;

/// The query of a request.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = GatewayError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, GatewayError> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(rejection) => Err(GatewayError::Query(rejection.body_text())),
        }
    }
}

/// What the path of a request names.
pub(crate) struct Named<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = GatewayError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, GatewayError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(named)) => Ok(Self(named)),
            Err(rejection) => Err(GatewayError::Path(rejection.body_text())),
        }
    }
}

/// The JSON body of a request.
pub(crate) struct Sent<T>(pub(crate) T);

impl<T: DeserializeOwned + 'static, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = GatewayError;

    async fn from_request(request: Request, _: &S) -> Result<Self, GatewayError> {
        let Json(sent) = request.extract().await?;
        Ok(Self(sent))
    }
}

/// A body that is a JSON object, or nothing.
pub(crate) struct SentObject(pub(crate) Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for SentObject {
    type Rejection = GatewayError;

    async fn from_request(request: Request, state: &S) -> Result<Self, GatewayError> {
        if request.body().is_end_stream() {
            return Ok(Self(Map::new()));
        }
        let Sent(sent) = Sent::from_request(request, state).await?;
        Ok(Self(sent))
    }
}
