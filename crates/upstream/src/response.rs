//! Conversion of an upstream's response to a result.
//!
//! | response | result |
//! |---|---|
//! | JSON | the value |
//! | `text/*` | a string, or the value if the text is a JSON object or list, which many servers send as plain text |
//! | empty | null |
//! | anything else | an error |
//!
//! Bytes that are not UTF-8 are replaced; responses are never decompressed.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{
    HeaderMap, Response, StatusCode,
    body::Body,
    header::{self, HeaderName},
};
use serde_json::Value;
use skills_core::json_size::{MAX_VALUES, count_values};

use crate::UpstreamError;

/// Maximum bytes that are read of an error response.
const MAX_FAILURE_BYTES: usize = 16 << 10;
/// Maximum characters of an upstream's error message.
pub(crate) const MAX_MESSAGE_CHARS: usize = 300;

/// Reads a response to its end.
pub(crate) async fn read_result<B>(
    response: Response<B>,
    max: usize,
) -> Result<Value, UpstreamError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error,
{
    let (head, body) = response.into_parts();
    let media_type = header_text(&head.headers, header::CONTENT_TYPE).to_ascii_lowercase();
    if !head.status.is_success() {
        let read = BodyRead::new(body, MAX_FAILURE_BYTES).await;
        let message = error_message(&media_type, &read.bytes);
        return Err(UpstreamError::UpstreamStatus { status: head.status.as_u16(), message });
    }
    let encoding = header_text(&head.headers, header::CONTENT_ENCODING);
    if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
        let reason = "it is compressed, and no encoding was accepted".to_owned();
        return Err(UpstreamError::Unreadable { reason });
    }
    if head.status == StatusCode::NO_CONTENT || head.status == StatusCode::RESET_CONTENT {
        return Ok(Value::Null);
    }
    if body.size_hint().lower() > u64::try_from(max).unwrap_or(u64::MAX) {
        return Err(UpstreamError::TooLarge { max });
    }
    let read = BodyRead::new(body, max).await;
    match read.end {
        ReadEnd::Complete => parse_body(&media_type, &read.bytes),
        ReadEnd::Truncated => Err(UpstreamError::TooLarge { max }),
        ReadEnd::Broken(reason) => Err(UpstreamError::Unreadable { reason }),
    }
}

/// Bytes that were read of a body, and the reason why reading ended.
struct BodyRead {
    bytes: Vec<u8>,
    end: ReadEnd,
}

enum ReadEnd {
    Complete,
    /// The body exceeds the limit.
    Truncated,
    Broken(String),
}

impl BodyRead {
    /// Reads at most `max` bytes.
    async fn new<B>(mut body: B, max: usize) -> Self
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::error::Error,
    {
        let mut bytes = Vec::new();
        let end = loop {
            match body.frame().await {
                None => break ReadEnd::Complete,
                Some(Err(error)) => break ReadEnd::Broken(error.to_string()),
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let remaining = max - bytes.len();
                    bytes.extend_from_slice(&data[..data.len().min(remaining)]);
                    if data.len() > remaining {
                        break ReadEnd::Truncated;
                    }
                }
            }
        };
        Self { bytes, end }
    }
}

/// Parses a complete body.
fn parse_body(media_type: &str, bytes: &[u8]) -> Result<Value, UpstreamError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    // Parsed, they would take hundreds of times the memory of the text.
    if count_values(bytes) > MAX_VALUES {
        if media_type.starts_with("text/") {
            return Ok(String::from_utf8_lossy(bytes).into());
        }
        let reason = format!("it has more than {MAX_VALUES} values");
        return Err(UpstreamError::Unreadable { reason });
    }
    match serde_json::from_slice(bytes) {
        Ok(value @ (Value::Array(_) | Value::Object(_))) => Ok(value),
        _ if media_type.starts_with("text/") => Ok(String::from_utf8_lossy(bytes).into()),
        Ok(value) => Ok(value),
        Err(error) => {
            let reason = format!("it is neither text nor JSON ({error})");
            Err(UpstreamError::Unreadable { reason })
        }
    }
}

/// Returns the message of an error response: its `detail`, `message` or `error`, or else its text unless that is HTML.
/// It is not truncated, because it has to be redacted first.
fn error_message(media_type: &str, bytes: &[u8]) -> String {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(fields)) => ["detail", "message", "error"]
            .into_iter()
            .filter_map(|name| fields.get(name))
            .map(message_text)
            .find(|text| !text.is_empty())
            .unwrap_or_default(),
        Ok(Value::String(text)) => text,
        _ if media_type.starts_with("text/html") => String::new(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn message_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(fields) => match fields.get("message") {
            Some(Value::String(text)) => text.clone(),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

fn header_text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use proptest::prelude::*;
    use serde_json::json;

    use skills_core::Coded as _;

    use super::*;

    fn read(status: u16, media_type: &str, body: &[u8]) -> Result<Value, UpstreamError> {
        let response = Response::builder().status(status).header(header::CONTENT_TYPE, media_type);
        let response = response.body(Full::new(Bytes::copy_from_slice(body))).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read_result(response, 100))
    }

    #[test]
    fn bodies_become_results() {
        for (media_type, body, wanted) in [
            ("application/json", "{\"a\":1}", json!({"a": 1})),
            ("application/problem+json", "[1]", json!([1])),
            ("", "true", json!(true)),
            ("application/json", "", json!(null)),
            ("text/plain", "hello", json!("hello")),
            ("Text/Plain; charset=utf-8", "42", json!("42")),
            ("text/plain", "{\"a\":1}", json!({"a": 1})),
            ("text/html", "<p>", json!("<p>")),
        ] {
            assert_eq!(read(200, media_type, body.as_bytes()), Ok(wanted), "{media_type} {body}");
        }
        assert_eq!(read(204, "application/json", b""), Ok(json!(null)));
        assert_eq!(read(200, "text/plain", b"a\xff"), Ok(json!("a\u{fffd}")));
    }

    #[test]
    fn unreadable_bodies_are_refused() {
        let code = |media_type, body| read(200, media_type, body).unwrap_err().code().as_str();
        assert_eq!(code("application/json", b"{"), "upstream_unreadable");
        assert_eq!(code("image/png", b"\x89PNG"), "upstream_unreadable");
        assert_eq!(code("text/plain", &[b'x'; 101]), "upstream_too_large");
        assert_eq!(code("application/json", "[".repeat(100).as_bytes()), "upstream_unreadable");
        assert!(read(200, "text/plain", &[b'x'; 100]).is_ok());
    }

    #[test]
    fn the_message_of_an_error_response_is_reported() {
        for (media_type, body, wanted) in [
            ("application/json", r#"{"error":"e","detail":"d"}"#, "d"),
            ("application/json", r#"{"detail":"","message":"m"}"#, "m"),
            ("application/json", r#"{"error":{"message":"inner"}}"#, "inner"),
            ("application/json", r#"{"error":{"code":7}}"#, r#"{"code":7}"#),
            ("application/json", r#"{"other":1}"#, ""),
            ("text/plain", "no such thing", "no such thing"),
            ("text/html", "<h1>Bad Gateway</h1>", ""),
        ] {
            let wanted = UpstreamError::UpstreamStatus { status: 418, message: wanted.to_owned() };
            assert_eq!(read(418, media_type, body.as_bytes()), Err(wanted), "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_response_panics(status in 200_u16..600, kind in "[a-z/]{0,12}", body: Vec<u8>) {
            let _ = read(status, &kind, &body);
        }
    }
}
