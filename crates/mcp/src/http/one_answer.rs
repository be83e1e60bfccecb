//! A stream of one answer as plain JSON.
//!
//! rmcp answers every request of a session with a stream of events, even if there is just one. A plain
//! answer is less to send and to parse, and clients must take both.

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use serde::{Deserialize, de::IgnoredAny};

#[derive(Deserialize)]
struct Envelope {
    method: Option<IgnoredAny>,
}

/// The same response, or the answer that it begins with if that is one.
pub(super) async fn as_json(response: Response) -> Response {
    let is_stream = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if !is_stream {
        return response;
    }
    let (mut head, mut body) = response.into_parts();
    let mut read = BytesMut::new();
    let answer = loop {
        if let Some(data) = first_data(&read) {
            // Whatever has a method is not the answer yet: notifications come before it.
            let envelope = serde_json::from_slice::<Envelope>(&data);
            break envelope.is_ok_and(|envelope| envelope.method.is_none()).then_some(data);
        }
        match body.frame().await {
            Some(Ok(frame)) => read.extend(frame.into_data().unwrap_or_default()),
            Some(Err(_)) | None => break None,
        }
    };
    match answer {
        Some(data) => {
            let json = HeaderValue::from_static("application/json");
            head.headers.insert(header::CONTENT_TYPE, json);
            Response::from_parts(head, Body::from(data))
        }
        None => {
            let begun = futures_util::stream::iter([Ok(read.freeze())]);
            Response::from_parts(head, Body::from_stream(begun.chain(body.into_data_stream())))
        }
    }
}

/// The data of the first whole event that has any: comments and empty events come before it.
fn first_data(text: &[u8]) -> Option<Bytes> {
    let mut rest = text;
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") {
        let (event, after) = (&rest[..end], &rest[end + 2..]);
        let mut data = BytesMut::new();
        for line in event.split(|byte| *byte == b'\n') {
            if let Some(part) = line.strip_prefix(b"data:") {
                data.extend_from_slice(part.strip_prefix(b" ").unwrap_or(part));
            }
        }
        if !data.is_empty() {
            return Some(data.freeze());
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn converted(events: &'static str) -> (String, String) {
        let mut response = Response::new(Body::from(events));
        let kind = HeaderValue::from_static("text/event-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        let response = as_json(response).await;
        let kind = response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (kind, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn an_answer_becomes_json() {
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        for events in [
            "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
            ":\n\nid: 0\nretry: 3000\ndata:\n\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
        ] {
            let expected = ("application/json".to_owned(), answer.to_owned());
            assert_eq!(converted(events).await, expected);
        }
    }

    #[tokio::test]
    async fn a_stream_stays_one() {
        for events in [
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
            "data: not json\n\n",
            "",
        ] {
            assert_eq!(
                converted(events).await,
                ("text/event-stream".to_owned(), events.to_owned())
            );
        }
    }
}
