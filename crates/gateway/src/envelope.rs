//! The one shape of answers: `{"success": true, …}`, and `{"success": false, "error", "code", …}`.

use axum::{
    Json,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde::{Serialize, Serializer};
use serde_json::Value;
use skills_core::{Digest, etag};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr, Schema,
        schema::{ObjectBuilder, Type},
    },
};
use uuid::Uuid;

/// The field `success` of an answer that is one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Success;

impl Serialize for Success {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl PartialSchema for Success {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([true])).into()
    }
}

impl ToSchema for Success {}

/// About an answer.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct About {
    /// What the request is known by.
    pub(crate) request_id: String,
    /// Of this server.
    pub(crate) version: &'static str,
}

impl Default for About {
    fn default() -> Self {
        let version = concat!("v", env!("CARGO_PKG_VERSION"));
        Self { request_id: Uuid::new_v4().to_string(), version }
    }
}

/// An answer that says why there is no other.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Failure {
    /// Always false.
    #[schema(examples(false))]
    pub(crate) success: bool,
    /// What is wrong, in a sentence.
    pub(crate) error: String,
    /// The same for machines; never changes.
    #[schema(examples("not_found"))]
    pub(crate) code: String,
    /// What can be done about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// All of it, where it is several things.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<Value>,
}

impl Failure {
    pub(crate) fn new(code: impl Into<String>, error: impl Into<String>) -> Self {
        Self {
            success: false,
            error: error.into(),
            code: code.into(),
            hint: None,
            message: None,
            details: None,
        }
    }
}

/// The body of an answer that was refused before it got here, by who stands before all routes.
#[must_use]
pub fn refused(code: &str, message: &str) -> Bytes {
    let failure = match code {
        // What callers have always been told.
        "unknown_key" => Failure {
            hint: Some(message.to_owned()),
            ..Failure::new(code, "Unauthorized: Key not found or inactive")
        },
        _ => Failure::new(code, message),
    };
    // A structure of texts alone always has a JSON form.
    serde_json::to_vec(&failure).unwrap_or_default().into()
}

/// A JSON body and its tag.
#[derive(Debug, Clone)]
pub(crate) struct Tagged {
    body: Bytes,
    tag: HeaderValue,
}

impl Tagged {
    pub(crate) fn new(answer: &impl Serialize) -> Result<Self, serde_json::Error> {
        let body = Bytes::from(serde_json::to_vec(answer)?);
        let tag = etag::of(&Digest::of(&body));
        let tag = HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""));
        Ok(Self { body, tag })
    }

    /// The answer, or that it is the one that the client has.
    pub(crate) fn answer(&self, asked: &HeaderMap) -> Response {
        let known = asked.get_all(header::IF_NONE_MATCH).iter();
        let known = known.filter_map(|value| value.to_str().ok());
        let tag = self.tag.to_str().unwrap_or_default();
        let mut response = match etag::is_known(known, tag) {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => {
                let json = HeaderValue::from_static("application/json");
                ([(header::CONTENT_TYPE, json)], self.body.clone()).into_response()
            }
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, self.tag.clone());
        // It depends on who asks, and must be asked for again each time.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        headers.insert(header::VARY, HeaderValue::from_static("authorization"));
        response
    }
}

/// The same for something that was made.
pub(crate) fn created(made: impl Serialize) -> Response {
    let mut response = answer(made);
    *response.status_mut() = StatusCode::CREATED;
    response
}

/// An answer of which nothing is kept.
pub(crate) fn answer(answer: impl Serialize) -> Response {
    let mut response = Json(answer).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
