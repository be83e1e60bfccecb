//! Queued writes.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{FutureExt as _, future::BoxFuture};

use crate::RegistryError;

/// A write in the queue of the writer thread. It is queued when it is requested, so writes keep the order of their
/// calls. Awaiting returns its result; dropping does not cancel it.
#[must_use = "only the result says whether the write was stored"]
pub struct PendingWrite<T>(BoxFuture<'static, Result<T, RegistryError>>);

impl<T: Send + 'static> PendingWrite<T> {
    pub(crate) fn new(
        result: impl Future<Output = Result<T, RegistryError>> + Send + 'static,
    ) -> Self {
        Self(result.boxed())
    }

    /// Returns a write that was refused before it was queued.
    pub(crate) fn reject(error: impl Into<RegistryError>) -> Self {
        Self::new(std::future::ready(Err(error.into())))
    }
}

impl<T> Future for PendingWrite<T> {
    type Output = Result<T, RegistryError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_unpin(context)
    }
}

impl<T> fmt::Debug for PendingWrite<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingWrite")
    }
}
