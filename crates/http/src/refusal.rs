//! Every error that this crate answers with, in one shape: `{"error": {"code", "message"}}`. A surface whose errors
//! have another shape gives these that shape too, under its own addresses.

use axum::{
    Json,
    body::{Body, Bytes},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

/// An error as the one who asked gets it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: &'static str,
}

macro_rules! refusals {
    ($($name:ident = $status:ident, $code:literal, $message:literal;)*) => {
        $(pub(crate) const $name: Refusal =
            Refusal { status: StatusCode::$status, code: $code, message: $message };)*
        #[cfg(test)]
        const ALL: &[Refusal] = &[$($name),*];
    };
}

refusals! {
    BAD_HOST = BAD_REQUEST, "bad_host", "the request names no host, or something that is none";
    HOST_NOT_ALLOWED = FORBIDDEN, "host_not_allowed",
        "this server is not known by that name; it can be told so with --allow-host";
    ORIGIN_NOT_ALLOWED = FORBIDDEN, "origin_not_allowed",
        "pages of this origin may not ask; it can be allowed with --allow-origin";
    UNAUTHORIZED = UNAUTHORIZED, "unauthorized",
        "a token is required: send it as \"Authorization: Bearer\"";
    UNKNOWN_KEY = UNAUTHORIZED, "unknown_key",
        "the key is unknown: it was never issued, or it is revoked or expired";
    NOT_FOUND = NOT_FOUND, "not_found", "there is nothing at this address";
    METHOD_NOT_ALLOWED = METHOD_NOT_ALLOWED, "method_not_allowed",
        "what is at this address cannot be asked in this way";
    BODY_TOO_LARGE = PAYLOAD_TOO_LARGE, "body_too_large", "the request's body is too large";
    OVERLOADED = SERVICE_UNAVAILABLE, "overloaded",
        "too many requests are being worked on; try again in a moment";
    TIMEOUT = GATEWAY_TIMEOUT, "timeout", "the request took too long";
    INTERNAL = INTERNAL_SERVER_ERROR, "internal", "the server failed at this request";
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { status, code, message } = self;
        let body = Json(json!({ "error": { "code": code, "message": message } }));
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Refusals as a surface shows them.
#[derive(Debug, Clone, Copy)]
pub struct Wording {
    /// What its addresses begin with.
    pub under: &'static str,
    /// The JSON body for a code and a message.
    pub body: fn(&str, &str) -> Bytes,
}

impl Wording {
    /// That of the surface whose address it is.
    pub(crate) fn of(wordings: &[Self], path: &str) -> Option<Self> {
        wordings.iter().find(|wording| path.starts_with(wording.under)).copied()
    }

    /// Gives a refusal the shape of this surface.
    pub(crate) fn reword(self, response: Response) -> Response {
        let Some(Refusal { code, message, .. }) = response.extensions().get() else {
            return response;
        };
        let body = Body::from((self.body)(code, message));
        let (mut parts, _) = response.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        Response::from_parts(parts, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_documented_with_its_status() {
        let page = include_str!("../../../docs/http.md");
        for Refusal { status, code, .. } in ALL {
            let row = format!("| {} | `{code}` |", status.as_u16());
            assert!(page.contains(&row), "docs/http.md has no row that starts with {row}");
        }
    }
}
