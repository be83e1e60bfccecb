//! What a body gets that is no message.
//!
//! rmcp says that its type is not supported, in plain text; but the type is right, the body is not.

use axum::{
    body::Body,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use http_body_util::BodyExt as _;
use rmcp::model::ErrorCode;
use serde_json::json;

/// How rmcp begins to say it.
const SAID: &[u8] = b"fail to deserialize request body";
/// How it says that it was JSON, at least.
const NOT_RPC: &[u8] = b"unrecognized JSON-RPC message";

/// The same response, or the error of JSON-RPC in place of what rmcp says of a body.
pub(super) async fn as_error(response: Response) -> Response {
    if response.status() != StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return response;
    }
    let (head, body) = response.into_parts();
    // A sentence that is whole in memory.
    let said = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if !said.starts_with(SAID) {
        return Response::from_parts(head, Body::from(said));
    }
    let (code, message) = match said.ends_with(NOT_RPC) {
        true => (ErrorCode::INVALID_REQUEST, "the body is not one JSON-RPC message"),
        false => (ErrorCode::PARSE_ERROR, "the body is not JSON"),
    };
    let error = json!({ "code": code, "message": message });
    let answer = json!({ "jsonrpc": "2.0", "id": null, "error": error });
    let json = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::BAD_REQUEST, json, answer.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(status: StatusCode, said: &'static str) -> (StatusCode, String) {
        let response = as_error((status, said).into_response()).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn only_what_is_said_of_a_body_is_replaced() {
        let wrong = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        for (said, code) in [
            ("fail to deserialize request body unrecognized JSON-RPC message", "-32600"),
            ("fail to deserialize request body expected value at line 1 column 1", "-32700"),
        ] {
            let (status, body) = answer(wrong, said).await;
            assert_eq!(status, StatusCode::BAD_REQUEST);
            assert!(body.contains(code), "{body}");
        }
        let kept = "Unsupported Media Type: Content-Type must be application/json";
        assert_eq!(answer(wrong, kept).await, (wrong, kept.to_owned()));
        assert_eq!(answer(StatusCode::OK, "fine").await, (StatusCode::OK, "fine".to_owned()));
    }
}
