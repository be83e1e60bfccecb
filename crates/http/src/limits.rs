//! Limits on connections and requests, and the middleware that enforces those on requests.
//!
//! A request reserves memory for its head, receives its body, and takes a permit. The permit is released with the head
//! of the response: a stream that lasts for hours is not a request in progress. The memory is released when the response
//! is sent. A handler that continues after its client has disconnected keeps both, through its clone of the
//! [`RequestBudget`]. Work on blocking threads counts against the client's [account](skills_core::WorkAccount), in whose
//! scope the handler runs.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc, task::Poll, time::Duration};

use axum::{
    body::Body,
    extract::{DefaultBodyLimit, Request},
    response::{IntoResponse, Response},
};
use futures_util::FutureExt as _;
use skills_core::{Caller, RequestBudget, json_size::MAX_VALUES, work::client_share};
use tokio::time::timeout;

use crate::{
    body::{BodyLimits, head_size, reserve_response},
    client_shares::{ClientShares, PeerAddress, RequestLimits, RequestSlot},
    error::{self, HttpError},
    middleware::Next,
    poll_once::poll_once,
    route_group::{BodyLimit, RoutePolicy, SessionLookup},
};

/// Limits on connections and requests.
#[derive(Debug, Clone, Copy)]
pub struct HttpLimits {
    /// Open connections, of one address three quarters. Beyond them the one that is idle longest is closed.
    pub connections: usize,
    /// Bytes of a request head.
    pub head_bytes: usize,
    /// Time in which a request head has to arrive; also the maximum idle time of a connection.
    pub head_timeout: Duration,
    /// Bytes of a request body.
    pub body_bytes: usize,
    /// JSON values of a request body.
    pub body_values: usize,
    /// Time in which a request body has to arrive, extended by [`body_rate`](Self::body_rate).
    pub body_timeout: Duration,
    /// Minimum bytes per second of a request body after [`body_timeout`](Self::body_timeout).
    pub body_rate: usize,
    /// Requests in progress. One credential, or one address without a credential, may have three eighths of them.
    pub requests: usize,
    /// Time in which a handler has to return the head of its response.
    pub response_timeout: Duration,
    /// Time for which a client may leave a response unread before its connection ends.
    pub unread_timeout: Duration,
    /// Minimum bytes per second that a client reads after [`unread_timeout`](Self::unread_timeout), while it has
    /// something left to read.
    pub unread_rate: usize,
    /// Time for which the server reads and drops what a client still sends after the last response. Without it the
    /// client might not see that response.
    pub linger: Duration,
    /// Time in which requests in progress have to finish when the server stops.
    pub drain: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            head_bytes: 32 << 10,
            head_timeout: Duration::from_secs(10),
            body_bytes: 4 << 20,
            body_values: MAX_VALUES,
            body_timeout: Duration::from_secs(10),
            body_rate: 16 << 10,
            requests: 512,
            response_timeout: Duration::from_secs(60),
            unread_timeout: Duration::from_secs(30),
            unread_rate: 16 << 10,
            linger: Duration::from_secs(2),
            drain: Duration::from_secs(2),
        }
    }
}

/// Limit on requests in progress, in total and per client.
#[derive(Debug, Clone)]
pub(crate) struct ConcurrencyLimit {
    requests: RequestLimits,
    shares: Arc<ClientShares>,
    body: BodyLimits,
    /// Limit of a route group on the bytes of a body.
    body_limit: Option<BodyLimit>,
    /// Sessions of a route group.
    session: Option<SessionLookup>,
    response_timeout: Duration,
    /// Requests only wait, so they need no permit.
    long_poll: bool,
}

impl ConcurrencyLimit {
    pub(crate) fn new(limits: &HttpLimits, shares: Arc<ClientShares>) -> Self {
        let HttpLimits { requests, response_timeout, .. } = *limits;
        let requests = RequestLimits { total: requests, per_client: client_share(requests) };
        let body = BodyLimits::new(limits);
        let (body_limit, session) = (None, None);
        Self { requests, shares, body, body_limit, session, response_timeout, long_poll: false }
    }

    /// Derives the limit of a route group. All groups share the counters.
    pub(crate) fn with_policy(&self, policy: &RoutePolicy) -> Self {
        let response_timeout = if policy.long_poll { Duration::MAX } else { self.response_timeout };
        let body_limit = policy.body_limit.clone();
        let body = if policy.raw_bodies { self.body.unparsed() } else { self.body };
        let (session, long_poll) = (policy.session.clone(), policy.long_poll);
        Self { body, body_limit, session, response_timeout, long_poll, ..self.clone() }
    }

    /// Takes the permit for a request of a client; `None` if the route group needs none.
    fn permit(&self, client: usize) -> Result<Option<RequestSlot>, HttpError> {
        if self.long_poll {
            return Ok(None);
        }
        let slot = self.shares.try_acquire(client, self.requests);
        slot.map(Some).ok_or(error::OVERLOADED)
    }
}

/// Runs a request within the limits. A handler that panics gets an error response.
pub(crate) async fn run_within_limits(
    limit: &ConcurrencyLimit,
    caller: &Caller,
    request: Request,
    next: Next,
) -> Response {
    try_run(limit, caller, request, next).await.unwrap_or_else(IntoResponse::into_response)
}

async fn try_run(
    limit: &ConcurrencyLimit,
    caller: &Caller,
    request: Request,
    next: Next,
) -> Result<Response, HttpError> {
    let session = limit.session.as_ref().and_then(|session| session.caller(request.headers()));
    let caller = session.as_ref().unwrap_or(caller);
    let client = limit.shares.client_index(caller, PeerAddress::from_request(&request));
    let (mut head, body) = request.into_parts();
    let account = limit.shares.account(client).clone();
    let reserved = account.memory().try_reserve(head_size(&head));
    let mut reservation = reserved.map_err(|_| error::OVERLOADED)?;
    // The permit comes after the body: a body that arrives slowly takes no permit from other requests.
    let body_limit = limit.body_limit.as_ref().map(|limit| limit.bytes(&head));
    let body = limit.body.with_bytes(body_limit).receive(body, &mut reservation).await?;
    let mut budget = RequestBudget::new(account.clone(), reservation);
    if let Some(permit) = limit.permit(client)? {
        budget = budget.with_permit(permit);
    }
    head.extensions.insert(budget.clone());
    let (method, uri) = (head.method.clone(), head.uri.clone());
    let request = if body.is_empty() {
        Request::from_parts(head, Body::empty())
    } else {
        let mut request = Request::from_parts(head, Body::from(body));
        // The limit of this crate counts the bytes of every reader, axum's only those of its extractors.
        DefaultBodyLimit::disable().apply(&mut request);
        request
    };
    let handling = AssertUnwindSafe(next.run(request)).catch_unwind();
    let mut handling = pin!(account.scope(handling));
    let handled = match poll_once(handling.as_mut()).await {
        Poll::Ready(handled) => handled,
        Poll::Pending => {
            timeout(limit.response_timeout, handling).await.map_err(|_| error::TIMEOUT)?
        }
    };
    let response = handled.map_err(|_| {
        tracing::error!(%method, path = uri.path(), "request handler panicked");
        error::INTERNAL
    })?;
    if budget.is_refused() {
        return Err(error::OVERLOADED);
    }
    budget.drop_permit();
    reserve_response(response, budget)
}
