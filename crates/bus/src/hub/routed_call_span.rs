//! Span of a call that the hub routes to a worker, at level debug.

use std::time::Instant;

use skills_core::{
    CallerKind, RequestId,
    request_trace::{ACCESS_TARGET, SPAN_TARGET, duration_ms},
};
use tracing::{Level, Span, field::Empty};

/// Open span of a routed call. Dropping it without an outcome records `cancelled`.
#[derive(Debug)]
pub(super) struct RoutedCallSpan {
    id: RequestId,
    function: String,
    caller: &'static str,
    span: Span,
    started: Instant,
    is_finished: bool,
}

impl RoutedCallSpan {
    /// Opens a span; `None` if neither it nor the line at its end is enabled.
    pub(super) fn begin(function: &str, caller: CallerKind) -> Option<Box<Self>> {
        let is_enabled = tracing::enabled!(target: ACCESS_TARGET, Level::DEBUG)
            || tracing::span_enabled!(target: SPAN_TARGET, Level::DEBUG);
        if !is_enabled {
            return None;
        }
        let (id, caller) = (RequestId::current_or_next(), caller.as_str());
        let span = tracing::debug_span!(
            target: SPAN_TARGET,
            "request",
            id = id.as_str(),
            surface = "bus",
            method = "route",
            route = function,
            caller,
            code = Empty,
            duration_ms = Empty,
        );
        let (function, started) = (function.to_owned(), Instant::now());
        Some(Box::new(Self { id, function, caller, span, started, is_finished: false }))
    }

    /// Records the outcome.
    pub(super) fn finish(mut self, code: &str) {
        self.record(code);
    }

    fn record(&mut self, code: &str) {
        self.is_finished = true;
        let duration_ms = duration_ms(self.started.elapsed());
        self.span.record("code", code).record("duration_ms", duration_ms);
        tracing::debug!(
            target: ACCESS_TARGET,
            parent: None,
            id = self.id.as_str(),
            surface = "bus",
            method = "route",
            route = self.function,
            caller = self.caller,
            code,
            duration_ms,
        );
    }
}

impl Drop for RoutedCallSpan {
    fn drop(&mut self) {
        if !self.is_finished {
            self.record("cancelled");
        }
    }
}
