//! What is asked: queries and bodies, with errors in the shape of all others.

use axum::{
    Json, RequestExt as _,
    extract::{FromRequest, FromRequestParts, Query, Request},
    http::request::Parts,
};
use serde::de::DeserializeOwned;

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

/// The JSON body of a request.
#[expect(dead_code, reason = "for the routes that come next")]
pub(crate) struct Sent<T>(pub(crate) T);

impl<T: DeserializeOwned + 'static, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = GatewayError;

    async fn from_request(request: Request, _: &S) -> Result<Self, GatewayError> {
        let Json(sent) = request.extract().await?;
        Ok(Self(sent))
    }
}
