//! Error responses: `{"error": {"code", "message", "details"?}}`, as the protocol has them: clients compare them, so the
//! request id is in the header only.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use skills_core::Code;
use skills_http::ErrorCode;

use crate::{
    ClientCallError, SessionError,
    wire::{MdpErrorBody, MdpErrorCode},
};

/// Seconds after which a client may retry on an overloaded server.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// Builds an error response of `/mdp/http-loop` and `/mdp/auth`, whose `error` is a text. As the protocol has it, the code
/// is in the body only beside details; the access line has it always.
pub(super) fn text_error(
    status: StatusCode,
    error: &str,
    code: Code,
    details: Option<String>,
) -> Response {
    let body = match details {
        Some(details) => json!({ "error": error, "code": code, "details": details }),
        None => json!({ "error": error }),
    };
    let mut response = (status, Json(body)).into_response();
    response.extensions_mut().insert(ErrorCode(code.to_string()));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    }
    response
}

/// Error with its HTTP status.
pub(super) struct MdpErrorResponse {
    status: StatusCode,
    error: MdpErrorBody,
}

impl MdpErrorResponse {
    pub(super) fn new(status: StatusCode, code: MdpErrorCode, message: &str) -> Self {
        Self { status, error: MdpErrorBody { code, message: message.to_owned(), details: None } }
    }

    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, MdpErrorCode::NotFound, "no route for this path")
    }
}

impl From<ClientCallError> for MdpErrorResponse {
    fn from(error: ClientCallError) -> Self {
        let status = match (&error, error.mdp_code()) {
            // Any error of a client is one of an upstream for this server.
            (ClientCallError::Handler(_), _) => StatusCode::BAD_GATEWAY,
            (ClientCallError::TooLarge { .. }, _) => StatusCode::PAYLOAD_TOO_LARGE,
            // No skill can have an invalid path.
            (_, MdpErrorCode::NotFound | MdpErrorCode::BadRequest) => StatusCode::NOT_FOUND,
            (_, MdpErrorCode::Timeout) => StatusCode::GATEWAY_TIMEOUT,
            (_, MdpErrorCode::TransportError | MdpErrorCode::HandlerError) => {
                StatusCode::BAD_GATEWAY
            }
            (_, MdpErrorCode::NotReady) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut error = error.body();
        if status == StatusCode::NOT_FOUND {
            error.code = MdpErrorCode::NotFound;
        }
        Self { status, error }
    }
}

/// Maps the errors of opening a session.
impl From<SessionError> for MdpErrorResponse {
    fn from(error: SessionError) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, MdpErrorCode::NotReady, &error.to_string())
    }
}

impl IntoResponse for MdpErrorResponse {
    fn into_response(self) -> Response {
        let Self { status, error } = self;
        let code = ErrorCode(Code::from(error.code).to_string());
        let mut response = (status, Json(json!({ "error": error }))).into_response();
        response.extensions_mut().insert(code);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}
