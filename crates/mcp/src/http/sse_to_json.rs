//! Plain JSON responses instead of event streams of one event.
//!
//! rmcp responds to every request of a session with an event stream, even if there is just one event. Plain JSON is
//! less to send and to parse, and clients must accept both.

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use serde::{Deserialize, de::IgnoredAny};

#[derive(Deserialize)]
struct Envelope {
    method: Option<IgnoredAny>,
}

/// Converts a stream whose first message is the response; any other response is returned unchanged.
pub(super) async fn convert(response: Response) -> Response {
    let is_stream = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if !is_stream {
        return response;
    }
    let (mut head, mut body) = response.into_parts();
    let mut received = Bytes::new();
    let response = loop {
        if let Some(data) = first_data(&received) {
            // A message with a method is a notification, which comes before the response.
            let envelope = serde_json::from_slice::<Envelope>(&data);
            break envelope.is_ok_and(|envelope| envelope.method.is_none()).then_some(data);
        }
        match body.frame().await {
            Some(Ok(frame)) => received = concat(received, frame.into_data().unwrap_or_default()),
            Some(Err(_)) | None => break None,
        }
    };
    match response {
        Some(data) => {
            let json = HeaderValue::from_static("application/json");
            head.headers.insert(header::CONTENT_TYPE, json);
            Response::from_parts(head, Body::from(data))
        }
        None => {
            let start = futures_util::stream::iter([Ok(received)]);
            Response::from_parts(head, Body::from_stream(start.chain(body.into_data_stream())))
        }
    }
}

/// Concatenates two parts. A response is usually one frame, and may be large: one part alone is not copied.
fn concat(first: Bytes, second: Bytes) -> Bytes {
    if first.is_empty() {
        second
    } else if second.is_empty() {
        first
    } else {
        [first, second].concat().into()
    }
}

/// Returns the data of the first complete event that has any: comments and empty events may come before it.
fn first_data(text: &Bytes) -> Option<Bytes> {
    let mut rest = &text[..];
    while let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") {
        let (event, after) = (&rest[..end], &rest[end + 2..]);
        let data = event.split(|byte| *byte == b'\n').filter_map(|line| {
            let part = line.strip_prefix(b"data:")?;
            Some(text.slice_ref(part.strip_prefix(b" ").unwrap_or(part)))
        });
        let data = data.fold(Bytes::new(), concat);
        if !data.is_empty() {
            return Some(data);
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
        let response = convert(response).await;
        let kind = response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (kind, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_stream_of_one_response_becomes_json() {
        let json = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        for events in [
            "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
            ":\n\nid: 0\nretry: 3000\ndata:\n\nid: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
        ] {
            let expected = ("application/json".to_owned(), json.to_owned());
            assert_eq!(converted(events).await, expected, "{events:?}");
        }
    }

    #[tokio::test]
    async fn a_stream_of_several_messages_stays_a_stream() {
        for events in [
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
            "data: not json\n\n",
            "",
        ] {
            assert_eq!(
                converted(events).await,
                ("text/event-stream".to_owned(), events.to_owned()),
                "{events:?}"
            );
        }
    }
}
