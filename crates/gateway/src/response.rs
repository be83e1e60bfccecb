//! Shape of responses: `{"success": true, …}`, or `{"success": false, "error", "code", …}`.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde::{Serialize, Serializer};
use serde_json::Value;
use skills_core::{Code, RequestId};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr, Schema,
        schema::{ObjectBuilder, Type},
    },
};

/// Field `success` of a successful response; always true.
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

/// Metadata of a response.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ResponseMetadata {
    /// Id of the request.
    pub(crate) request_id: String,
    /// Version of this server.
    pub(crate) version: &'static str,
}

impl Default for ResponseMetadata {
    fn default() -> Self {
        let version = concat!("v", env!("CARGO_PKG_VERSION"));
        Self { request_id: RequestId::current_or_next().to_string(), version }
    }
}

/// Body of an error response.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    /// Always false.
    #[schema(examples(false))]
    pub(crate) success: bool,
    /// Error message.
    pub(crate) error: String,
    /// Stable error code.
    #[schema(examples("not_found"))]
    pub(crate) code: String,
    /// Next step for the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// Explanation, for errors whose `error` is a fixed text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// List of all problems, for errors that report several; the `current` version, for conflicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<Value>,
    /// Id of the request, as in the header `X-Request-Id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<String>,
}

impl ErrorBody {
    pub(crate) fn new(code: impl Into<String>, error: impl Into<String>) -> Self {
        Self {
            success: false,
            error: error.into(),
            code: code.into(),
            hint: None,
            message: None,
            details: None,
            request_id: RequestId::current().map(|id| id.to_string()),
        }
    }
}

/// Returns the body of an error that the listener reports before a request reaches a route.
#[must_use]
pub fn error_body(code: Code, message: &str) -> Bytes {
    let body = match code {
        // The wording is part of the published API.
        Code::UnknownKey => ErrorBody {
            hint: Some(message.to_owned()),
            ..ErrorBody::new(code, "Unauthorized: Key not found or inactive")
        },
        _ => ErrorBody::new(code, message),
    };
    // Strings always serialize.
    serde_json::to_vec(&body).unwrap_or_default().into()
}

/// Responds with `201 Created`.
pub(crate) fn created_response(body: impl Serialize) -> Response {
    let mut response = json_response(body);
    *response.status_mut() = StatusCode::CREATED;
    response
}

/// Responds with JSON that must not be cached.
pub(crate) fn json_response(body: impl Serialize) -> Response {
    let mut response = Json(body).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
