//! A store whose commit panics after it has stored everything: the registry reports an unknown outcome.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use skills_core::{Digest, Timestamp};
use skills_store::{
    Batch, Change, GroupOutcome, MemoryStore, StateEntry, Store, StoreError, StoredEntry,
};

#[derive(Debug, Default)]
pub(crate) struct PanickingStore {
    inner: MemoryStore,
    /// Panics in the next commit.
    pub(crate) panics: AtomicBool,
}

impl Store for PanickingStore {
    fn entries(&self) -> Result<Vec<StoredEntry>, StoreError> {
        self.inner.entries()
    }

    fn revision(&self) -> Result<u64, StoreError> {
        self.inner.revision()
    }

    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError> {
        let outcome = self.inner.commit(group, now);
        assert!(!self.panics.swap(false, Ordering::SeqCst), "after the commit");
        outcome
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        self.inner.blob(digest)
    }

    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.inner.changes(after, limit)
    }

    fn state_get(&self, scope: &str, key: &str) -> Result<Option<String>, StoreError> {
        self.inner.state_get(scope, key)
    }

    fn state_page(
        &self,
        scope: &str,
        after: i64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<StateEntry>, StoreError> {
        self.inner.state_page(scope, after, limit, max_bytes)
    }

    fn state_size(&self, scope: &str) -> Result<(u64, u64), StoreError> {
        self.inner.state_size(scope)
    }

    fn state_scopes(&self) -> Result<Vec<String>, StoreError> {
        self.inner.state_scopes()
    }
}
