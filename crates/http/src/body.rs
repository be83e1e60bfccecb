//! Memory accounting of bodies. A request body is received whole, within limits of size, time and memory, before the
//! handler runs. A response body counts against the budget until the client has read it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderName, HeaderValue, request::Parts},
    response::Response,
};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use skills_core::{
    RequestBudget, Reservation, SharedReservation,
    json_size::{count_values, memory_size},
};
use tokio::time::{Instant, timeout_at};

use crate::{
    HttpLimits,
    error::{self, HttpError},
    min_rate::MinRate,
};

/// Responses below this size are not reserved: a connection queues at most 16 of them.
const SMALL_RESPONSE: usize = 1 << 10;

/// Memory of a request or a stream besides the bytes of its head and body: tasks, and the tables of its headers.
const REQUEST_OVERHEAD: usize = 16 << 10;

/// Limits of one request body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    bytes: usize,
    /// JSON values; `None` for bodies that are not parsed.
    values: Option<usize>,
    rate: MinRate,
}

impl BodyLimits {
    pub(crate) fn new(limits: &HttpLimits) -> Self {
        let HttpLimits { body_bytes, body_values, body_timeout, body_rate, .. } = *limits;
        let rate = MinRate::new(body_timeout, body_rate);
        Self { bytes: body_bytes, values: Some(body_values), rate }
    }

    pub(crate) fn with_bytes(self, bytes: Option<usize>) -> Self {
        Self { bytes: bytes.unwrap_or(self.bytes), ..self }
    }

    /// Derives the limits of bodies that no handler parses.
    pub(crate) const fn unparsed(self) -> Self {
        Self { values: None, ..self }
    }

    /// Receives a body, and adds the memory for parsing it to the reservation of its request.
    pub(crate) async fn receive(
        &self,
        mut body: Body,
        reservation: &mut Reservation,
    ) -> Result<Bytes, HttpError> {
        if body.size_hint().lower() > self.bytes as u64 {
            return Err(error::BODY_TOO_LARGE);
        }
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        let start = Instant::now();
        let mut received = Received::Empty;
        loop {
            let frame = timeout_at(self.rate.deadline(start, received.len()), body.frame());
            let frame = frame.await.map_err(|_| error::BODY_TIMEOUT)?;
            let Some(frame) = frame else { break };
            let Ok(part) = frame.map_err(|_| error::UNREADABLE_BODY)?.into_data() else {
                continue;
            };
            if received.len() + part.len() > self.bytes {
                return Err(error::BODY_TOO_LARGE);
            }
            // Reserves the bytes that arrive, not those announced: an announcement costs the client nothing.
            let size = if self.values.is_some() { memory_size(part.len(), 0) } else { part.len() };
            reservation.try_grow(size).map_err(|_| error::OVERLOADED)?;
            received.push(part);
            if body.is_end_stream() {
                break;
            }
        }
        let bytes = received.into_bytes();
        let Some(max_values) = self.values else { return Ok(bytes) };
        let values = if is_json_container(&bytes) { count_values(&bytes) } else { 1 };
        if values > max_values {
            return Err(error::TOO_MANY_VALUES);
        }
        reservation.try_grow(memory_size(0, values)).map_err(|_| error::OVERLOADED)?;
        Ok(bytes)
    }
}

/// Returns the memory of a request before its body arrives.
pub(crate) fn head_size(head: &Parts) -> usize {
    let header = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    REQUEST_OVERHEAD + target + head.headers.iter().map(header).sum::<usize>()
}

/// Returns whether a body, read as JSON, can have more than one value.
fn is_json_container(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Received part of a body. Most bodies arrive in one piece, which is not copied.
enum Received {
    Empty,
    One(Bytes),
    Several(Vec<u8>),
}

impl Received {
    fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(bytes) => bytes.len(),
            Self::Several(bytes) => bytes.len(),
        }
    }

    fn push(&mut self, part: Bytes) {
        match self {
            Self::Empty => *self = Self::One(part),
            Self::One(first) => *self = Self::Several([&first[..], &part].concat()),
            Self::Several(bytes) => bytes.extend_from_slice(&part),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Empty => Bytes::new(),
            Self::One(bytes) => bytes,
            Self::Several(bytes) => bytes.into(),
        }
    }
}

/// Makes a response body hold the reservation of its request until it is sent or dropped.
///
/// # Errors
/// When the response is too large for the rest of the budget.
pub(crate) fn reserve_response(
    response: Response,
    request: RequestBudget,
) -> Result<Response, HttpError> {
    let (head, body) = response.into_parts();
    let bytes = body.size_hint().exact();
    let bytes = bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let mut shared = None;
    match (bytes, head.extensions.get::<SharedReservation>()) {
        // Drops the reservation: nothing else of the request is left.
        (Some(bytes), _) if bytes < SMALL_RESPONSE => return Ok(Response::from_parts(head, body)),
        (Some(bytes), Some(reservation)) => {
            request.resize(REQUEST_OVERHEAD).map_err(|_| error::OVERLOADED)?;
            let reserved = reservation.hold(&request.share(), bytes);
            shared = Some(reserved.map_err(|_| error::OVERLOADED)?);
        }
        (Some(bytes), None) => request.resize(bytes).map_err(|_| error::OVERLOADED)?,
        // A stream keeps the reservation of its request.
        (None, _) => {}
    }
    let reservations = Reservations { _request: request, _shared: shared };
    Ok(Response::from_parts(head, Body::new(ReservedBody { body, reservations })))
}

/// Reservations that a response holds.
#[derive(Clone)]
struct Reservations {
    _request: RequestBudget,
    _shared: Option<Arc<Reservation>>,
}

/// Body whose bytes hold reservations.
struct ReservedBody {
    body: Body,
    reservations: Reservations,
}

impl HttpBody for ReservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let reservations = &self.reservations;
        Poll::Ready(frame.map(|frame| Ok(frame?.map_data(|bytes| attach(bytes, reservations)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Makes bytes hold reservations: the connection drops a body long before it has written its last bytes.
fn attach(bytes: Bytes, reservations: &Reservations) -> Bytes {
    struct ReservedBytes(
        Bytes,
        #[expect(dead_code, reason = "dropped with the bytes")] Reservations,
    );
    impl AsRef<[u8]> for ReservedBytes {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    if bytes.len() < SMALL_RESPONSE {
        return bytes;
    }
    Bytes::from_owner(ReservedBytes(bytes, reservations.clone()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::{http::Request, response::IntoResponse as _};
    use futures_util::{StreamExt as _, stream};
    use skills_core::MemoryBudget;

    use super::*;

    fn limits() -> BodyLimits {
        BodyLimits::new(&HttpLimits::default())
    }

    async fn receive(
        limits: BodyLimits,
        body: Body,
        budget: &MemoryBudget,
    ) -> Result<(Bytes, Reservation), HttpError> {
        let mut reservation = budget.try_reserve(0).unwrap();
        let bytes = limits.receive(body, &mut reservation).await?;
        Ok((bytes, reservation))
    }

    fn parts(parts: Vec<&'static str>) -> Body {
        Body::from_stream(stream::iter(parts).map(Ok::<_, std::io::Error>))
    }

    #[tokio::test]
    async fn a_body_is_received_whole_and_reserved() {
        let budget = MemoryBudget::default();
        for (sent, values) in [(vec!["[1,", "2,", "3]"], 4), (vec!["[1]"], 2), (vec!["a,b"], 1)] {
            let whole = sent.concat();
            let (bytes, reservation) =
                receive(limits(), parts(sent.clone()), &budget).await.unwrap();
            assert_eq!(bytes, whole, "{sent:?}");
            assert_eq!(reservation.bytes(), memory_size(whole.len(), values), "{sent:?}");
        }
        assert_eq!(budget.reserved(), 0);
    }

    #[tokio::test]
    async fn bodies_beyond_a_limit_are_rejected() {
        let few = BodyLimits { values: Some(3), bytes: 10, ..limits() };
        let rejection = |body, budget| async move {
            receive(few, body, &budget).await.err().map(|error| error.code().as_str())
        };
        let budget = MemoryBudget::default;
        assert_eq!(rejection(parts(vec!["[1,2]"]), budget()).await, None);
        assert_eq!(rejection(parts(vec!["[1,2,3]"]), budget()).await, Some("body_too_large"));
        let (_, file) = receive(few.unparsed(), parts(vec!["[1,2,3]"]), &budget()).await.unwrap();
        assert_eq!(file.bytes(), "[1,2,3]".len(), "values and copies of a file do not count");
        assert_eq!(
            rejection(parts(vec!["12345", "678901"]), budget()).await,
            Some("body_too_large")
        );
        let spent = MemoryBudget::new(10);
        assert_eq!(rejection(parts(vec!["12345"]), spent).await, Some("overloaded"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_arrives_too_slowly_times_out() {
        let trickle = |every: u64| {
            let parts = stream::iter(0..1000).then(move |_| async move {
                tokio::time::sleep(Duration::from_secs(every)).await;
                Ok::<_, std::io::Error>(vec![b'x'; 64 << 10])
            });
            Body::from_stream(parts.take(60))
        };
        let budget = MemoryBudget::default();
        let slow = receive(limits(), trickle(5), &budget).await.unwrap_err();
        assert_eq!(slow.code().as_str(), "body_timeout");
        assert!(receive(limits(), trickle(3), &budget).await.is_ok());
        let silent = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let silent = receive(limits(), silent, &budget).await.unwrap_err();
        assert_eq!((silent.code().as_str(), budget.reserved()), ("body_timeout", 0));
    }

    #[test]
    fn the_size_of_a_request_includes_its_head() {
        let size = |value: String| {
            let request = Request::get("/a?b").header("x-long", value).body(()).unwrap();
            head_size(&request.into_parts().0)
        };
        assert_eq!(size("x".repeat(30_000)) - size(String::new()), 30_000);
        assert_eq!(size(String::new()), REQUEST_OVERHEAD + "/a?b".len() + "x-long".len());
    }

    #[tokio::test]
    async fn a_large_response_is_reserved_until_its_bytes_are_dropped() {
        let budget = MemoryBudget::default();
        let request = || {
            let request = RequestBudget::with_memory(&budget);
            request.try_grow(10).unwrap();
            request
        };
        let large = || vec![b'x'; SMALL_RESPONSE].into_response();
        let mut body = reserve_response(large(), request()).unwrap().into_body();
        let bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        assert_eq!(budget.reserved(), SMALL_RESPONSE);
        drop(bytes);
        assert_eq!(budget.reserved(), 0);
        let small = reserve_response("small".into_response(), request()).unwrap();
        assert_eq!(budget.reserved(), 0);
        drop(small);
        let tight = MemoryBudget::new(10);
        let request = RequestBudget::with_memory(&tight);
        let refused = reserve_response(large(), request).unwrap_err();
        assert_eq!(refused.code().as_str(), "overloaded");
    }

    #[tokio::test]
    async fn bytes_shared_by_many_responses_are_reserved_once() {
        const LARGE: usize = 16 << 20;
        let budget = MemoryBudget::default();
        let (archive, reservation) = (Bytes::from(vec![b'x'; LARGE]), SharedReservation::default());
        let answer = || {
            let mut response = archive.clone().into_response();
            response.extensions_mut().insert(reservation.clone());
            let request = RequestBudget::with_memory(&budget);
            request.try_grow(REQUEST_OVERHEAD).unwrap();
            reserve_response(response, request).unwrap()
        };
        let mut answers: Vec<_> = (0..60).map(|_| answer()).collect();
        assert_eq!(budget.reserved(), LARGE + 60 * REQUEST_OVERHEAD);
        let mut last = answers.pop().unwrap().into_body();
        let bytes = last.frame().await.unwrap().unwrap().into_data().unwrap();
        drop((answers, last));
        assert_eq!(budget.reserved(), LARGE + REQUEST_OVERHEAD);
        drop(bytes);
        assert_eq!(budget.reserved(), 0);
    }
}
