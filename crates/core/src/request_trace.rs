//! Request ids, request spans and access lines.
//!
//! Every surface runs its requests through [`trace`], or through a middleware of the same shape. At the default log
//! level a request costs one check of a cached filter decision: no span, no line, no string.
//!
//! | emitted | target | level |
//! |---|---|---|
//! | span `request` | [`SPAN_TARGET`] | info |
//! | access line of a request that enters the process | [`ACCESS_TARGET`] | info |
//! | line of a call inside such a request | [`ACCESS_TARGET`] | debug |
//!
//! Fields never contain a credential, a payload or a query string.

use std::{
    borrow::Cow,
    cell::RefCell,
    fmt,
    future::poll_fn,
    hash::{BuildHasher as _, RandomState},
    pin::pin,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tracing::{Instrument as _, Level, Span, field::Empty};

use crate::{Caller, text::first_chars};

/// Target of request spans.
pub const SPAN_TARGET: &str = "request";
/// Target of access lines.
pub const ACCESS_TARGET: &str = "access";

/// Most bytes of a request id that a client chooses.
const MAX_CLIENT_ID_BYTES: usize = 128;

/// Most characters of a method or route in a span.
const MAX_NAME_CHARS: usize = 200;

/// Bytes of a request id that this process chooses.
const OWN_ID_BYTES: usize = 33;

/// Id of a request; cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(IdText);

#[derive(Debug, Clone, PartialEq, Eq)]
enum IdText {
    /// Hexadecimal digits, stored without an allocation: every request has an id.
    Own([u8; OWN_ID_BYTES]),
    Client(Arc<str>),
}

impl RequestId {
    /// Creates an id from a random prefix of the process and a permuted counter: unique, without a system call, and
    /// without telling clients how many requests others send.
    #[must_use]
    pub fn next() -> Self {
        static RANDOM: LazyLock<[u64; 2]> =
            LazyLock::new(|| [0, 1].map(|number| RandomState::new().hash_one(number)));
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let [prefix, key] = *RANDOM;
        let mut text = [b'-'; OWN_ID_BYTES];
        write_hex(&mut text[..16], prefix);
        write_hex(&mut text[17..], permute(COUNTER.fetch_add(1, Ordering::Relaxed) ^ key));
        Self(IdText::Own(text))
    }

    /// Takes over the id of a client: up to 128 visible ASCII characters.
    #[must_use]
    pub fn from_client(id: &[u8]) -> Option<Self> {
        let is_valid =
            (1..=MAX_CLIENT_ID_BYTES).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic);
        let text = std::str::from_utf8(id).ok().filter(|_| is_valid)?;
        Some(Self(IdText::Client(text.into())))
    }

    /// Returns the id of the request that the current task works on.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Returns the id of the request that the current task works on, or else a new one.
    #[must_use]
    pub fn current_or_next() -> Self {
        Self::current().unwrap_or_else(Self::next)
    }

    /// Runs a future whose code finds this id as [`current`](Self::current). Tasks that it spawns do not.
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(move |context| {
            let _entered = EnteredId::new(self.clone());
            future.as_mut().poll(context)
        })
        .await
    }

    /// Returns the text of the id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            IdText::Own(digits) => std::str::from_utf8(digits).unwrap_or_default(),
            IdText::Client(text) => text,
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Maps numbers one to one to numbers in no apparent order (the finalizer of MurmurHash3).
const fn permute(mut number: u64) -> u64 {
    number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    number = (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}

/// Writes the low digits of a number.
fn write_hex(text: &mut [u8], mut number: u64) {
    for digit in text.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 0xf) as usize];
        number >>= 4;
    }
}

thread_local! {
    static CURRENT: RefCell<Option<RequestId>> = const { RefCell::new(None) };
}

/// Restores the previous id when it is dropped, also by a panic.
struct EnteredId(Option<RequestId>);

impl EnteredId {
    fn new(id: RequestId) -> Self {
        Self(CURRENT.replace(Some(id)))
    }
}

impl Drop for EnteredId {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Returns whether spans or access lines are enabled at all.
#[must_use]
pub fn is_enabled() -> bool {
    tracing::enabled!(target: ACCESS_TARGET, Level::INFO)
        || tracing::span_enabled!(target: SPAN_TARGET, Level::INFO)
}

/// Converts a duration to milliseconds with three decimals.
#[must_use]
pub fn duration_ms(duration: Duration) -> f64 {
    let micros = u32::try_from(duration.as_micros()).unwrap_or(u32::MAX);
    f64::from(micros) / 1000.0
}

/// Kind of a caller in spans and access lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerKind {
    /// Caller without a credential.
    Anonymous,
    /// Caller with a user key.
    User,
    /// Caller with an administrator secret.
    Admin,
    /// Worker on the bus. The credential, if any, is in the payload and unknown to the bus.
    Worker,
    /// This process or the local program that started it.
    Local,
}

impl CallerKind {
    /// Returns the name in spans and access lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::User => "user",
            Self::Admin => "admin",
            Self::Worker => "worker",
            Self::Local => "local",
        }
    }
}

impl From<&Caller> for CallerKind {
    fn from(caller: &Caller) -> Self {
        match caller {
            Caller::Anonymous => Self::Anonymous,
            Caller::User(_) => Self::User,
            Caller::Admin(_) => Self::Admin,
        }
    }
}

/// Description of a request for its span and its access line.
#[derive(Debug)]
pub struct TracedRequest {
    surface: &'static str,
    method: String,
    route: String,
    caller: CallerKind,
}

impl TracedRequest {
    /// Describes a request; `None` if neither spans nor access lines are enabled, so that no string is created.
    #[must_use]
    pub fn new(
        surface: &'static str,
        method: &str,
        route: &str,
        caller: CallerKind,
    ) -> Option<Self> {
        is_enabled().then(|| Self {
            surface,
            method: first_chars(method, MAX_NAME_CHARS).to_owned(),
            route: first_chars(route, MAX_NAME_CHARS).to_owned(),
            caller,
        })
    }
}

/// Runs a request in a span, and emits its access line. The id is that of the surrounding request, or else a new one.
/// `code` returns the error code of a failure.
///
/// # Errors
/// Those of the request.
pub async fn trace<T, E>(
    request: Option<TracedRequest>,
    code: fn(&E) -> Cow<'_, str>,
    run: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let code = |result: &Result<T, E>| Some(result.as_ref().err().map_or("ok".into(), code).into());
    trace_with(request, code, run).await
}

/// Runs a request like [`trace`], but emits no line for `None`: another handler then serves the request.
pub async fn trace_some<T>(
    request: Option<TracedRequest>,
    run: impl Future<Output = Option<T>>,
) -> Option<T> {
    trace_with(request, |result: &Option<T>| result.as_ref().map(|_| "ok".to_owned()), run).await
}

/// Runs a request in a span, and emits an access line unless `code` returns `None`.
async fn trace_with<T>(
    request: Option<TracedRequest>,
    code: impl FnOnce(&T) -> Option<String>,
    run: impl Future<Output = T>,
) -> T {
    let mut run = pin!(run);
    let Some(TracedRequest { surface, method, route, caller }) = request else {
        return run.await;
    };
    let outer = RequestId::current();
    let is_nested = outer.is_some();
    let id = outer.unwrap_or_else(RequestId::next);
    let (method, route, caller) = (&*method, &*route, caller.as_str());
    let span = tracing::info_span!(
        target: SPAN_TARGET,
        "request",
        id = id.as_str(),
        surface,
        method,
        route,
        caller,
        code = Empty,
        duration_ms = Empty,
    );
    let mut guard = Unfinished { span: span.clone(), started: Instant::now(), is_finished: false };
    let result = id.clone().scope(run.as_mut()).instrument(span).await;
    let Some(code) = code(&result) else {
        guard.is_finished = true;
        return result;
    };
    let code = &*code;
    let duration_ms = guard.finish(code);
    let id = id.as_str();
    if is_nested {
        tracing::debug!(
            target: ACCESS_TARGET, parent: None, id, surface, method, route, caller, code, duration_ms
        );
    } else {
        tracing::info!(
            target: ACCESS_TARGET, parent: None, id, surface, method, route, caller, code, duration_ms
        );
    }
    result
}

/// Records the outcome of a request that is dropped before it has one.
struct Unfinished {
    span: Span,
    started: Instant,
    is_finished: bool,
}

impl Unfinished {
    fn finish(&mut self, code: &str) -> f64 {
        self.is_finished = true;
        let duration_ms = duration_ms(self.started.elapsed());
        self.span.record("code", code).record("duration_ms", duration_ms);
        duration_ms
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_finished {
            self.finish("cancelled");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashSet,
        task::{Context, Waker},
    };

    use super::*;

    #[test]
    fn new_ids_are_unique_and_valid_for_clients() {
        let ids: Vec<RequestId> = (0..100).map(|_| RequestId::next()).collect();
        let unique: HashSet<&str> = ids.iter().map(RequestId::as_str).collect();
        assert_eq!(unique.len(), 100);
        assert!(ids.iter().all(|id| RequestId::from_client(id.as_str().as_bytes()).is_some()));
    }

    #[test]
    fn client_ids_are_short_and_visible() {
        let long = "x".repeat(129);
        for (id, is_valid) in [
            ("a", true),
            ("req-1_{}~!", true),
            (&long[..128], true),
            (&long, false),
            ("", false),
            ("a b", false),
            ("a\n", false),
            ("é", false),
        ] {
            assert_eq!(RequestId::from_client(id.as_bytes()).is_some(), is_valid, "{id:?}");
        }
    }

    #[test]
    fn the_current_id_is_that_of_the_innermost_scope() {
        let id = |text: &str| RequestId::from_client(text.as_bytes()).unwrap();
        let inner = async { RequestId::current() };
        let outer = async {
            let inner = id("inner").scope(inner).await;
            (inner, RequestId::current())
        };
        let mut run = pin!(id("outer").scope(outer));
        let polled = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let expected = (Some(id("inner")), Some(id("outer")));
        assert_eq!(polled, std::task::Poll::Ready(expected));
        assert_eq!(RequestId::current(), None);
    }
}
