//! Ids of calls.

use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

/// Source of invocation ids: a random session and a counter, which costs no system call per id.
#[derive(Debug)]
pub(crate) struct InvocationIds {
    session: u64,
    next: AtomicU64,
}

impl Default for InvocationIds {
    fn default() -> Self {
        Self { session: Uuid::new_v4().as_u64_pair().0, next: AtomicU64::new(0) }
    }
}

impl InvocationIds {
    /// Returns a UUID, as Rust SDKs require. It must be unique, not secret: an answer counts only from the callee.
    pub(crate) fn next_id(&self) -> Uuid {
        let low = self.next.fetch_add(1, Ordering::Relaxed);
        let bytes = ((u128::from(self.session) << 64) | u128::from(low)).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}
