//! What is asked: queries and bodies, with errors in the shape of all others.

use axum::{
    Json, RequestExt as _,
    body::{Body, Bytes, HttpBody as _},
    extract::{FromRequest, FromRequestParts, Path, Query, Request, rejection::JsonRejection},
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

/// Most values of a body that may hold any. A value takes many times the memory of the two bytes it may be.
pub(crate) const MAX_VALUES: usize = 100_000;

/// How many values a JSON text has at most.
fn values(text: &[u8]) -> usize {
    let (mut count, mut in_string, mut is_escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

/// A body that is a JSON object, or nothing.
pub(crate) struct SentObject(pub(crate) Map<String, Value>);

impl<S: Send + Sync> FromRequest<S> for SentObject {
    type Rejection = GatewayError;

    async fn from_request(request: Request, state: &S) -> Result<Self, GatewayError> {
        if request.body().is_end_stream() {
            return Ok(Self(Map::new()));
        }
        let (parts, body) = request.into_parts();
        let unread = Request::from_parts(parts.clone(), body);
        let text = Bytes::from_request(unread, state).await.map_err(JsonRejection::from)?;
        if values(&text) > MAX_VALUES {
            return Err(GatewayError::TooManyValues);
        }
        let request = Request::from_parts(parts, Body::from(text));
        let Sent(sent) = Sent::from_request(request, state).await?;
        Ok(Self(sent))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(counted).sum(),
            Value::Object(fields) => fields.values().map(counted).sum(),
            _ => 0_usize,
        }
    }

    #[test]
    fn what_stands_in_a_text_is_no_value() {
        assert_eq!(values(br#"{"a,[": "\\\",{"}"#), 2);
        assert_eq!(values(b"[0,0,[0]]"), 5);
    }

    proptest! {
        #[test]
        fn never_fewer_than_there_are(text in "[\\[\\]{},:\"\\\\a0 ]{0,30}") {
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                prop_assert!(values(text.as_bytes()) >= counted(&value), "{text}");
            }
        }
    }
}
