//! Error responses: `{"error": {"code", "message", "request_id"}}`, for this crate and for surfaces without a format of
//! their own. A surface with another format applies it to the errors of this crate too, below its own path prefix.

use std::borrow::Cow;

use axum::{
    Json,
    body::{Body, Bytes},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use skills_core::{Code, RequestId};

use crate::{ErrorCode, OwnPage};

/// Error response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HttpError {
    status: StatusCode,
    code: Code,
    message: &'static str,
}

macro_rules! errors {
    ($($name:ident = $status:ident, $code:ident, $message:literal;)*) => {
        $(pub(crate) const $name: HttpError =
            HttpError { status: StatusCode::$status, code: Code::$code, message: $message };)*
        #[cfg(test)]
        const ALL: &[HttpError] = &[$($name),*];
    };
}

errors! {
    BAD_HOST = BAD_REQUEST, BadHost, "the request has no valid Host header";
    HOST_NOT_ALLOWED = FORBIDDEN, HostNotAllowed,
        "the host name is not allowed; add it with --allow-host";
    ORIGIN_NOT_ALLOWED = FORBIDDEN, OriginNotAllowed,
        "requests from pages of this origin are not allowed; add the origin with --allow-origin";
    FOREIGN_PAGE = FORBIDDEN, OriginNotAllowed,
        "only pages of this server may request this address; open it directly";
    CROSS_SITE = FORBIDDEN, CrossSiteRequest,
        "pages of other sites may not open or embed this address; open it directly, or fetch it from an origin added \
         with --allow-origin";
    UNAUTHORIZED = UNAUTHORIZED, Unauthorized,
        "a token is required: send it as \"Authorization: Bearer\"";
    UNKNOWN_KEY = UNAUTHORIZED, UnknownKey,
        "the key is unknown: it was never issued, or it is revoked or expired";
    KEYS_UNAVAILABLE = SERVICE_UNAVAILABLE, StoreUnavailable,
        "the key cannot be looked up while the database cannot be reached; try again in a moment";
    NOT_FOUND = NOT_FOUND, NotFound, "no route for this path";
    METHOD_NOT_ALLOWED = METHOD_NOT_ALLOWED, MethodNotAllowed,
        "method not allowed for this path";
    BODY_TOO_LARGE = PAYLOAD_TOO_LARGE, BodyTooLarge, "the request body is too large";
    TOO_MANY_VALUES = PAYLOAD_TOO_LARGE, BodyTooLarge,
        "the request body has too many JSON values";
    BODY_TIMEOUT = REQUEST_TIMEOUT, BodyTimeout, "the request body arrived too slowly";
    UNREADABLE_BODY = BAD_REQUEST, UnreadableBody,
        "the request body is incomplete or its encoding is invalid";
    OVERLOADED = SERVICE_UNAVAILABLE, Overloaded,
        "too many or too large requests are in progress; try again in a moment";
    STALE = SERVICE_UNAVAILABLE, StoreUnavailable,
        "the database cannot be reached, and what this server knows is older than max_stale allows";
    WAITING = SERVICE_UNAVAILABLE, StoreUnavailable,
        "the server is starting and waits for its database; try again in a moment";
    TIMEOUT = GATEWAY_TIMEOUT, Timeout, "the request took too long";
    INTERNAL = INTERNAL_SERVER_ERROR, Internal, "internal server error";
}

impl HttpError {
    pub(crate) const fn code(self) -> Code {
        self.code
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let Self { status, code, message } = self;
        let mut response = ErrorResponse::new(status, code.as_str(), message).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Returns the status of an error that the server or its database causes, whatever the request: 503 if the same request
/// may succeed later, else 500. `None` for other codes, whose status each surface chooses. The middleware adds
/// `Retry-After` to every 503.
#[must_use]
pub const fn server_error_status(code: Code) -> Option<StatusCode> {
    match code {
        Code::StoreUnavailable
        | Code::StoreFull
        | Code::StoreInUse
        | Code::VaultBusy
        | Code::VaultFull
        | Code::NoMasterKey
        | Code::NoExecutor
        | Code::NoBus
        | Code::Overloaded
        | Code::ShuttingDown
        | Code::WriterStopped => Some(StatusCode::SERVICE_UNAVAILABLE),
        Code::StoreCorrupt
        | Code::StoreError
        | Code::StoreIo
        | Code::StoreNewerSchema
        | Code::VaultCorrupt
        | Code::VaultError
        | Code::VaultIo
        | Code::VaultNewerSchema
        | Code::CorruptEntry
        | Code::Internal
        | Code::NoRandomness
        | Code::OutcomeUnknown
        | Code::UnreadableSecret => Some(StatusCode::INTERNAL_SERVER_ERROR),
        _ => None,
    }
}

/// Returns whether an error means that the same request may succeed later, as in an outage.
#[must_use]
pub fn is_unavailable(code: Code) -> bool {
    server_error_status(code) == Some(StatusCode::SERVICE_UNAVAILABLE)
}

/// Error response in the common format, with the request id, and the code in the access line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorResponse {
    status: StatusCode,
    code: Cow<'static, str>,
    message: Cow<'static, str>,
}

impl ErrorResponse {
    /// Creates an error response.
    pub fn new(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, code: code.into(), message: message.into() }
    }

    /// Creates the response to a failure of the server. It has no details, which concern the machine and not the
    /// request; the caller logs them.
    #[must_use]
    pub fn internal(code: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INTERNAL.status, code, INTERNAL.message)
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let Self { status, code, message } = self;
        let mut body = json!({ "error": { "code": code, "message": message } });
        if let Some(id) = RequestId::current() {
            body["error"]["request_id"] = id.as_str().into();
        }
        let mut response = (status, Json(body)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response.extensions_mut().insert(ErrorCode(code.into_owned()));
        response
    }
}

/// Error format of one surface.
#[derive(Debug, Clone, Copy)]
pub struct ErrorFormat {
    /// Prefix of the surface's paths. The path without the slash at its end belongs to the surface too.
    pub path_prefix: &'static str,
    /// Builds the body from a code and a message. The id of the request is [`RequestId::current`].
    pub body: ErrorBody,
}

/// Builds the body of an error response.
#[derive(Debug, Clone, Copy)]
pub enum ErrorBody {
    /// Builds JSON.
    Json(fn(Code, &str) -> Bytes),
    /// The message itself, for clients that show a body as it is.
    Text,
    /// Builds a page of this program, for clients that name HTML in `Accept`; others get the common format.
    Page(fn(Code, &str) -> Bytes),
}

impl ErrorFormat {
    /// Returns the format of the surface that has a path.
    pub(crate) fn find(formats: &[Self], path: &str) -> Option<Self> {
        let is_below =
            |prefix: &str| path.starts_with(prefix) || prefix.strip_suffix('/') == Some(path);
        formats.iter().find(|format| is_below(format.path_prefix)).copied()
    }

    /// Replaces the body of an error response of this crate; other responses pass unchanged.
    pub(crate) fn apply(self, response: Response, names_html: bool) -> Response {
        let Some(HttpError { code, message, .. }) = response.extensions().get() else {
            return response;
        };
        let (body, media_type) = match self.body {
            ErrorBody::Json(body) => (body(*code, message), None),
            ErrorBody::Text => {
                (Bytes::from_static(message.as_bytes()), Some("text/plain; charset=utf-8"))
            }
            ErrorBody::Page(_) if !names_html => return response,
            ErrorBody::Page(body) => (body(*code, message), Some("text/html; charset=utf-8")),
        };
        let (mut parts, _) = response.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        if let Some(media_type) = media_type {
            parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        if matches!(self.body, ErrorBody::Page(_)) {
            parts.extensions.insert(OwnPage);
        }
        Response::from_parts(parts, Body::from(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_documented_with_its_status() {
        let page = include_str!("../../../docs/http.md");
        for HttpError { status, code, .. } in ALL {
            let row = format!("| {} | `{code}` |", status.as_u16());
            assert!(page.contains(&row), "docs/http.md has no row that starts with {row}");
        }
    }
}
