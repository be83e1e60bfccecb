//! How much may be asked, and what happens to a request that asks for more.
//!
//! A request's permit is given back with the head of its answer: a stream that lasts for hours is not work
//! under way.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    body::{Body, HttpBody as _},
    extract::Request,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures_util::FutureExt as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::{sync::Semaphore, time::timeout};

use crate::{refusal, wing::Terms};

/// Bounds for everyone who connects.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Open connections; more wait until one closes.
    pub connections: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// How long a request's head may take to arrive; also how long a connection may be idle.
    pub head_within: Duration,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Requests that are being worked on at once.
    pub requests: usize,
    /// How long a request may take until the head of its answer.
    pub answer_within: Duration,
    /// How long a client may leave what it is sent unread before its connection ends.
    pub unread_within: Duration,
    /// How long what a client still sends is read and dropped after the last answer, which it would
    /// otherwise not get to see.
    pub linger: Duration,
    /// How long requests that are under way may take to finish when the server stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 8192,
            head_bytes: 64 << 10,
            head_within: Duration::from_secs(10),
            body_bytes: 4 << 20,
            requests: 512,
            answer_within: Duration::from_secs(60),
            unread_within: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            drain: Duration::from_secs(2),
        }
    }
}

/// The work that is under way.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    permits: Arc<Semaphore>,
    body_bytes: usize,
    answer_within: Duration,
    /// Whether it is none: requests that only wait.
    waits: bool,
}

impl Work {
    pub(crate) fn new(limits: Limits) -> Self {
        let Limits { requests, body_bytes, answer_within, .. } = limits;
        let permits = Arc::new(Semaphore::new(requests));
        Self { permits, body_bytes, answer_within, waits: false }
    }

    /// The same work under other terms.
    pub(crate) fn under(&self, terms: &Terms) -> Self {
        let answer_within = if terms.waits { Duration::MAX } else { self.answer_within };
        let body_bytes = terms.body_bytes.unwrap_or(self.body_bytes);
        Self { permits: Arc::clone(&self.permits), body_bytes, answer_within, waits: terms.waits }
    }
}

/// Lets a request through within the limits, and answers for a handler that panics.
pub(crate) async fn bounded(work: &Work, request: Request, next: Next) -> Response {
    let permit = (!work.waits).then(|| work.permits.try_acquire());
    let Ok(_permit) = permit.transpose() else {
        return refusal::OVERLOADED.into_response();
    };
    let Some((request, overrun)) = bound_body(request, work.body_bytes) else {
        return refusal::BODY_TOO_LARGE.into_response();
    };
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let handled = AssertUnwindSafe(next.run(request)).catch_unwind();
    match timeout(work.answer_within, handled).await {
        Err(_) => refusal::TIMEOUT.into_response(),
        Ok(Err(_)) => {
            tracing::error!("the handler of {method} {} panicked", uri.path());
            refusal::INTERNAL.into_response()
        }
        // Whatever the handler made of half a body is not what was asked for.
        Ok(Ok(_)) if overrun.is_some_and(|overrun| overrun.load(Ordering::Relaxed)) => {
            refusal::BODY_TOO_LARGE.into_response()
        }
        Ok(Ok(response)) => response,
    }
}

/// A body that ends with an error where it becomes too large, and whether it did, if there is one; `None` when
/// it says so itself beforehand.
fn bound_body(request: Request, limit: usize) -> Option<(Request, Option<Arc<AtomicBool>>)> {
    if request.body().size_hint().lower() > u64::try_from(limit).unwrap_or(u64::MAX) {
        return None;
    }
    if request.body().is_end_stream() {
        return Some((request, None));
    }
    let overrun = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&overrun);
    let request = request.map(|body| {
        let limited = Limited::new(body, limit).map_err(move |error| {
            seen.fetch_or(error.is::<LengthLimitError>(), Ordering::Relaxed);
            error
        });
        Body::new(limited)
    });
    Some((request, Some(overrun)))
}
