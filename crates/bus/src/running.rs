//! Functions of this process while they run, whichever bus they run on.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::FutureExt as _;
use tokio::sync::Notify;

use crate::{Call, CallError, Function, Json};

/// A function that panics fails its call and nothing else.
pub(crate) async fn guarded(function: Arc<dyn Function>, call: Call) -> Result<Json, CallError> {
    let run = AssertUnwindSafe(async move { function.call(call).await });
    run.catch_unwind().await.unwrap_or_else(|_| {
        Err(CallError::remote("invocation_failed", "the function failed unexpectedly; see the log"))
    })
}

/// Counts what is under way, so that a stop can wait for it.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    count: AtomicUsize,
    idle: Notify,
}

impl Gauge {
    pub(crate) fn enter(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn leave(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.idle.notify_waiters();
        }
    }

    pub(crate) async fn idle(&self) {
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }
}
