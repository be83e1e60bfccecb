//! Errors as those get them who ask for skills: `{"error": {"code", "message", "details"?}}`.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::{
    CallError, Refused,
    wire::{Code, ErrorBody},
};

/// An error with its status.
pub(super) struct Refusal {
    status: StatusCode,
    error: ErrorBody,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: Code, message: &str) -> Self {
        Self { status, error: ErrorBody { code, message: message.to_owned(), details: None } }
    }

    pub(super) fn nothing_here() -> Self {
        Self::new(StatusCode::NOT_FOUND, Code::NotFound, "there is nothing at this address")
    }
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        let status = match (&error, error.code()) {
            // Whatever a client calls its failure, it is one of what is behind this server.
            (CallError::Handler(_), _) => StatusCode::BAD_GATEWAY,
            (CallError::TooLarge { .. }, _) => StatusCode::PAYLOAD_TOO_LARGE,
            // An address that no skill can have has none.
            (_, Code::NotFound | Code::BadRequest) => StatusCode::NOT_FOUND,
            (_, Code::Timeout) => StatusCode::GATEWAY_TIMEOUT,
            (_, Code::TransportError | Code::HandlerError) => StatusCode::BAD_GATEWAY,
            (_, Code::NotReady) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut error = error.body();
        if status == StatusCode::NOT_FOUND {
            error.code = Code::NotFound;
        }
        Self { status, error }
    }
}

/// Sessions that cannot be opened.
impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Code::NotReady, &refused.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { status, error } = self;
        let mut response = (status, Json(json!({ "error": error }))).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
