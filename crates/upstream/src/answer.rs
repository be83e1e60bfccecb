//! From the answer of an upstream to a result.
//!
//! JSON is the result itself. An answer of type `text/*` is a JSON string, unless its text is a JSON object or
//! list: many serve those as plain text. An empty answer is null. Anything else that is not JSON cannot be read.
//! Bytes that are not UTF-8 are replaced; answers are never decompressed.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{
    HeaderMap, Response, StatusCode,
    body::Body,
    header::{self, HeaderName},
};
use serde_json::Value;

use crate::ExecuteError;

/// How much of a failure is read.
const MAX_FAILURE_BYTES: usize = 16 << 10;
/// How much of a failure's message is told, in characters.
pub(crate) const MAX_MESSAGE_CHARS: usize = 300;

/// Reads an answer to its end.
pub(crate) async fn result<B>(answer: Response<B>, max: usize) -> Result<Value, ExecuteError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::error::Error,
{
    let (head, body) = answer.into_parts();
    let media_type = text(&head.headers, header::CONTENT_TYPE).to_ascii_lowercase();
    if !head.status.is_success() {
        let read = Reading::of(body, MAX_FAILURE_BYTES).await;
        let message = message(&media_type, &read.bytes);
        return Err(ExecuteError::UpstreamStatus { status: head.status.as_u16(), message });
    }
    let encoding = text(&head.headers, header::CONTENT_ENCODING);
    if !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity") {
        let reason = "it is compressed, which was not asked for".to_owned();
        return Err(ExecuteError::Unreadable { reason });
    }
    if head.status == StatusCode::NO_CONTENT || head.status == StatusCode::RESET_CONTENT {
        return Ok(Value::Null);
    }
    if body.size_hint().lower() > u64::try_from(max).unwrap_or(u64::MAX) {
        return Err(ExecuteError::TooLarge { max });
    }
    let read = Reading::of(body, max).await;
    match read.end {
        End::Complete => value(&media_type, &read.bytes),
        End::Cut => Err(ExecuteError::TooLarge { max }),
        End::Broken(reason) => Err(ExecuteError::Unreadable { reason }),
    }
}

/// What was read of a body, and why no more.
struct Reading {
    bytes: Vec<u8>,
    end: End,
}

enum End {
    Complete,
    /// There is more than is wanted.
    Cut,
    Broken(String),
}

impl Reading {
    /// Never holds more than `max` bytes.
    async fn of<B>(mut body: B, max: usize) -> Self
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::error::Error,
    {
        let mut bytes = Vec::new();
        let end = loop {
            match body.frame().await {
                None => break End::Complete,
                Some(Err(error)) => break End::Broken(error.to_string()),
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let room = max - bytes.len();
                    bytes.extend_from_slice(&data[..data.len().min(room)]);
                    if data.len() > room {
                        break End::Cut;
                    }
                }
            }
        };
        Self { bytes, end }
    }
}

/// The result that a complete answer is.
fn value(media_type: &str, bytes: &[u8]) -> Result<Value, ExecuteError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    match serde_json::from_slice(bytes) {
        Ok(value @ (Value::Array(_) | Value::Object(_))) => Ok(value),
        _ if media_type.starts_with("text/") => Ok(String::from_utf8_lossy(bytes).into()),
        Ok(value) => Ok(value),
        Err(error) => {
            let reason = format!("it is neither text nor JSON ({error})");
            Err(ExecuteError::Unreadable { reason })
        }
    }
}

/// What a failure says: its `detail`, `message` or `error`, or else its text if that is not a page. Not yet
/// redacted, so not yet cut.
fn message(media_type: &str, bytes: &[u8]) -> String {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(fields)) => ["detail", "message", "error"]
            .into_iter()
            .filter_map(|name| fields.get(name))
            .map(said)
            .find(|text| !text.is_empty())
            .unwrap_or_default(),
        Ok(Value::String(text)) => text,
        _ if media_type.starts_with("text/html") => String::new(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn said(value: &Value) -> String {
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

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn answer(status: u16, media_type: &str, body: &[u8]) -> Result<Value, ExecuteError> {
        let answer = Response::builder().status(status).header(header::CONTENT_TYPE, media_type);
        let answer = answer.body(Full::new(Bytes::copy_from_slice(body))).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(result(answer, 100))
    }

    #[test]
    fn results() {
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
            assert_eq!(answer(200, media_type, body.as_bytes()), Ok(wanted), "{media_type} {body}");
        }
        assert_eq!(answer(204, "application/json", b""), Ok(json!(null)));
        assert_eq!(answer(200, "text/plain", b"a\xff"), Ok(json!("a\u{fffd}")));
    }

    #[test]
    fn what_cannot_be_read() {
        let code = |media_type, body| answer(200, media_type, body).unwrap_err().code();
        assert_eq!(code("application/json", b"{"), "unreadable");
        assert_eq!(code("image/png", b"\x89PNG"), "unreadable");
        assert_eq!(code("text/plain", &[b'x'; 101]), "too_large");
        assert_eq!(code("application/json", "[".repeat(100).as_bytes()), "unreadable");
        assert!(answer(200, "text/plain", &[b'x'; 100]).is_ok());
    }

    #[test]
    fn failures_say_what_they_say() {
        for (media_type, body, wanted) in [
            ("application/json", r#"{"error":"e","detail":"d"}"#, "d"),
            ("application/json", r#"{"detail":"","message":"m"}"#, "m"),
            ("application/json", r#"{"error":{"message":"inner"}}"#, "inner"),
            ("application/json", r#"{"error":{"code":7}}"#, r#"{"code":7}"#),
            ("application/json", r#"{"other":1}"#, ""),
            ("text/plain", "no such thing", "no such thing"),
            ("text/html", "<h1>Bad Gateway</h1>", ""),
        ] {
            let wanted = ExecuteError::UpstreamStatus { status: 418, message: wanted.to_owned() };
            assert_eq!(answer(418, media_type, body.as_bytes()), Err(wanted), "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_is_a_danger(status in 200_u16..600, kind in "[a-z/]{0,12}", body: Vec<u8>) {
            let _ = answer(status, &kind, &body);
        }
    }
}
