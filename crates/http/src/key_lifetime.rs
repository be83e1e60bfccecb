//! Ends the requests of a key when the key is revoked or expires: those that still wait and those whose response still
//! streams.
//!
//! The middleware of every route applies it, so no surface has to handle the end of a key. WebSockets and sessions of
//! several requests are ended by their surface.

use std::{
    pin::{Pin, pin},
    task::{Context, Poll},
};

use axum::{
    BoxError,
    body::{Body, Bytes, HttpBody},
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};
use hyper::body::{Frame, SizeHint};
use skills_core::KeyEnd;

use crate::{error, poll_once::poll_once};

/// Awaits a response until the key ends, and ends a response that still streams then. `key_end` is `None` for a caller
/// without a key; it is not called for a response that is there at once, as most are.
pub(crate) async fn end_with_key(
    key_end: impl FnOnce() -> Option<KeyEnd>,
    response: impl Future<Output = Response>,
) -> Response {
    let mut response = pin!(response);
    let first = match poll_once(response.as_mut()).await {
        Poll::Ready(response) if is_complete(&response) => return response,
        first => first,
    };
    let Some(mut end) = key_end() else {
        return match first {
            Poll::Ready(response) => response,
            Poll::Pending => response.await,
        };
    };
    let response = match first {
        Poll::Ready(response) => response,
        Poll::Pending => tokio::select! {
            biased;
            response = response => response,
            () = &mut end => return error::UNKNOWN_KEY.into_response(),
        },
    };
    if is_complete(&response) {
        return response;
    }
    let is_event_stream = is_event_stream(response.headers());
    response.map(|body| Body::new(BodyUntilKeyEnd { body, end, is_event_stream }))
}

/// Returns whether the body has a known size, so that it is not long-lived.
fn is_complete(response: &Response) -> bool {
    response.body().size_hint().exact().is_some()
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| value.trim_start().starts_with("text/event-stream"))
}

/// Body that ends when a key ends.
struct BodyUntilKeyEnd {
    body: Body,
    end: KeyEnd,
    /// An event stream may end after any event. Another body would look complete, so it fails instead.
    is_event_stream: bool,
}

impl HttpBody for BodyUntilKeyEnd {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.end.as_mut().poll(context).is_ready() {
            // A finished future must not be polled again.
            self.end = Box::pin(std::future::ready(()));
            let failed = (!self.is_event_stream).then(|| Err("the key has ended".into()));
            return Poll::Ready(failed);
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::StatusCode;
    use futures_util::stream;
    use http_body_util::BodyExt as _;

    use super::*;

    fn after(moment: Duration) -> impl FnOnce() -> Option<KeyEnd> {
        move || Some(Box::pin(tokio::time::sleep(moment)))
    }

    async fn stream_of(content_type: &'static str) -> Response {
        let first = stream::iter([Ok::<_, BoxError>(Bytes::from_static(b"data: 1\n\n"))]);
        let never = futures_util::StreamExt::chain(first, stream::pending());
        ([(header::CONTENT_TYPE, content_type)], Body::from_stream(never)).into_response()
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_request_gets_401_when_the_key_ends() {
        let answer = end_with_key(after(Duration::from_secs(1)), std::future::pending()).await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    }

    #[tokio::test(start_paused = true)]
    async fn the_key_is_not_watched_for_a_response_that_is_there_at_once() {
        let whole = async { "whole".into_response() };
        let answer = end_with_key(|| panic!("not needed"), whole).await;
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "whole");
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_without_a_key_is_awaited() {
        let late = async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            stream_of("text/plain").await
        };
        let mut body = end_with_key(|| None, late).await.into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "data: 1\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_stream_ends_with_the_key_and_other_bodies_fail() {
        for (content_type, is_good) in [("text/event-stream", true), ("text/plain", false)] {
            let answer = end_with_key(after(Duration::from_secs(1)), stream_of(content_type)).await;
            let mut body = answer.into_body();
            let first = body.frame().await.unwrap().unwrap();
            assert_eq!(first.into_data().unwrap(), "data: 1\n\n", "{content_type}");
            let rest = body.frame().await;
            assert_eq!(rest.is_none(), is_good, "{content_type}");
            assert_eq!(matches!(rest, Some(Err(_))), !is_good, "{content_type}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_complete_response_is_unchanged() {
        let whole = async {
            tokio::task::yield_now().await;
            "whole".into_response()
        };
        let answer = end_with_key(after(Duration::from_secs(1)), whole).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "whole");
    }
}
