//! Execution of functions of this process, on any bus.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::FutureExt as _;
use skills_core::{CallerKind, Code, Coded, TracedRequest, request_trace};
use tokio::sync::Notify;

use crate::{CallError, Function, FunctionCall, FunctionCaller, Json};

/// Calls a function. A panic fails this call and nothing else.
///
/// # Errors
/// The function's own error, or `invocation_failed` after a panic.
pub async fn call_isolated(
    function: Arc<dyn Function>,
    call: FunctionCall,
) -> Result<Json, CallError> {
    let run = AssertUnwindSafe(async move { function.call(call).await });
    run.catch_unwind().await.unwrap_or_else(|_| {
        Err(CallError::remote(Code::InvocationFailed, "the function panicked; see the log"))
    })
}

/// Calls a function within a span, and emits its access line.
pub(crate) fn call_traced(
    function_id: &str,
    function: Arc<dyn Function>,
    call: FunctionCall,
) -> impl Future<Output = Result<Json, CallError>> + Send + use<> {
    let caller = match call.caller {
        FunctionCaller::Process => CallerKind::Local,
        FunctionCaller::Worker { .. } | FunctionCaller::Unnamed => CallerKind::Worker,
    };
    let traced = TracedRequest::new("bus", "call", function_id, caller);
    request_trace::trace(traced, Coded::code_text, call_isolated(function, call))
}

/// Counter of running calls, so that a shutdown can wait for them.
#[derive(Debug, Default)]
pub struct CallCounter {
    count: AtomicUsize,
    zero: Notify,
}

impl CallCounter {
    /// Counts a call that starts.
    pub fn increment(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a call that has ended.
    pub fn decrement(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.zero.notify_waiters();
        }
    }

    /// Returns the number of running calls.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until no call is running.
    pub async fn wait_until_zero(&self) {
        loop {
            let zero = self.zero.notified();
            tokio::pin!(zero);
            zero.as_mut().enable();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            zero.await;
        }
    }
}
