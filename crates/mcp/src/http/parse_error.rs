//! JSON-RPC errors for bodies that are not a message.
//!
//! rmcp responds to them with 415 in plain text; but the content type is right, the body is not.

use axum::{
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use http_body_util::BodyExt as _;
use rmcp::model::ErrorCode;
use serde_json::json;

/// Prefix of rmcp's message.
const MESSAGE_PREFIX: &[u8] = b"fail to deserialize request body";
/// Suffix of rmcp's message if the body was JSON.
const NOT_JSON_RPC: &[u8] = b"unrecognized JSON-RPC message";

/// Replaces rmcp's plain-text response to an invalid body by a JSON-RPC error.
pub(super) async fn to_json_rpc(response: Response) -> Response {
    if response.status() != StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return response;
    }
    let (head, body) = response.into_parts();
    // One sentence, in memory already.
    let text = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if !text.starts_with(MESSAGE_PREFIX) {
        return Response::from_parts(head, Body::from(text));
    }
    let (code, message) = if text.ends_with(NOT_JSON_RPC) {
        (ErrorCode::INVALID_REQUEST, "the body is not one JSON-RPC message")
    } else {
        (ErrorCode::PARSE_ERROR, "the body is not JSON")
    };
    let error = json!({ "code": code, "message": message });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
    let json = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::BAD_REQUEST, json, body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn converted(status: StatusCode, text: &'static str) -> (StatusCode, String) {
        let response = to_json_rpc((status, text).into_response()).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn only_the_message_about_a_body_is_replaced() {
        let unsupported = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        for (text, code) in [
            ("fail to deserialize request body unrecognized JSON-RPC message", "-32600"),
            ("fail to deserialize request body expected value at line 1 column 1", "-32700"),
        ] {
            let (status, body) = converted(unsupported, text).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{text:?}");
            assert!(body.contains(code), "{body}");
        }
        let other = "Unsupported Media Type: Content-Type must be application/json";
        assert_eq!(converted(unsupported, other).await, (unsupported, other.to_owned()));
        assert_eq!(converted(StatusCode::OK, "fine").await, (StatusCode::OK, "fine".to_owned()));
    }
}
