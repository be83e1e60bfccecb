//! Store in memory that several registries share, and that can go away or lose commits. For tests.

use std::{
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use skills_core::{Code, Digest, EntryKey, Timestamp, VersionSelector};

use crate::{
    Batch, Change, DatabaseError, FoundVersion, GroupOutcome, LogFilter, LogFingerprint, LogRecord,
    MemoryPresence, MemoryStore, Presence, ServedRecord, StateEntry, Store, StoreError,
    StoredEntry, Subscription, VersionPage, Wake,
};

/// Store in memory that several registries share, and that can go away.
#[derive(Default)]
pub struct SharedMemoryStore {
    /// Replaced when the store loses commits.
    memory: Mutex<Arc<MemoryStore>>,
    presence: Arc<MemoryPresence>,
    wakes: Mutex<Vec<Wake>>,
    is_down: AtomicBool,
    are_blobs_down: AtomicBool,
    unanswered_blob: Mutex<Option<Digest>>,
    is_log_unreadable: AtomicBool,
    #[cfg(feature = "postgres")]
    is_read_only: AtomicBool,
    is_full: AtomicBool,
    is_silent: AtomicBool,
    is_standby: AtomicBool,
    after_entries: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    after_revision: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    is_hanging: Mutex<bool>,
    resumed: Condvar,
}

impl std::fmt::Debug for SharedMemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedMemoryStore")
    }
}

impl SharedMemoryStore {
    /// Makes all calls fail, or none.
    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Refuses writes like a standby, or takes them.
    #[cfg(feature = "postgres")]
    pub fn set_read_only(&self, is_read_only: bool) {
        self.is_read_only.store(is_read_only, Ordering::SeqCst);
    }

    /// Refuses writes like a full disk, or takes them.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    /// Drops notifications, so that only the poll finds changes.
    pub fn set_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::SeqCst);
    }

    /// Makes reads of blobs fail as in an outage, or none.
    pub fn set_blobs_down(&self, are_down: bool) {
        self.are_blobs_down.store(are_down, Ordering::SeqCst);
    }

    /// Makes reads of one blob fail as in an outage.
    pub fn set_unanswered_blob(&self, digest: Digest) {
        *self.unanswered_blob.lock() = Some(digest);
    }

    /// Makes reads of the change log fail, as with an unreadable row, or none.
    pub fn set_log_unreadable(&self, is_unreadable: bool) {
        self.is_log_unreadable.store(is_unreadable, Ordering::SeqCst);
    }

    /// Answers like a copy that may lag behind the store, or like the store.
    pub fn set_standby(&self, is_standby: bool) {
        self.is_standby.store(is_standby, Ordering::SeqCst);
    }

    /// Notifies the registries of a change that was made without this store.
    pub fn wake(&self) {
        self.wakes.lock().iter().for_each(|wake| wake());
    }

    /// Calls a function after the next read of all entries, before the read returns.
    pub fn after_next_entries(&self, then: impl FnOnce() + Send + 'static) {
        *self.after_entries.lock() = Some(Box::new(then));
    }

    /// Calls a function after the next read of the revision, before the read returns.
    pub fn after_next_revision(&self, then: impl FnOnce() + Send + 'static) {
        *self.after_revision.lock() = Some(Box::new(then));
    }

    /// Makes commits hang, as on a connection that swallows what is sent, or lets them go on.
    pub fn set_hanging(&self, is_hanging: bool) {
        *self.is_hanging.lock() = is_hanging;
        self.resumed.notify_all();
    }

    /// Replaces the history, as a failover does that loses commits.
    pub fn replace(&self, memory: Arc<MemoryStore>) {
        *self.memory.lock() = memory;
    }

    fn up(&self) -> Result<Arc<MemoryStore>, StoreError> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(gone());
        }
        Ok(Arc::clone(&self.memory.lock()))
    }

    fn readable_log(&self) -> Result<Arc<MemoryStore>, StoreError> {
        let memory = self.up()?;
        if self.is_log_unreadable.load(Ordering::SeqCst) {
            return Err(DatabaseError::Other("a row cannot be read".to_owned()).into());
        }
        Ok(memory)
    }
}

fn gone() -> StoreError {
    let (code, message) = (Code::StoreUnavailable.into(), "it is gone".to_owned());
    StoreError::Unavailable { code, message }
}

impl Store for SharedMemoryStore {
    fn entries(&self) -> Result<Vec<StoredEntry>, StoreError> {
        let entries = self.up()?.entries();
        let after_entries = self.after_entries.lock().take();
        after_entries.into_iter().for_each(|then| then());
        entries
    }

    fn withdrawn(&self) -> Result<Vec<EntryKey>, StoreError> {
        self.up()?.withdrawn()
    }

    fn revision(&self) -> Result<u64, StoreError> {
        let revision = self.up()?.revision();
        let after_revision = self.after_revision.lock().take();
        after_revision.into_iter().for_each(|then| then());
        revision
    }

    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError> {
        self.resumed.wait_while(&mut self.is_hanging.lock(), |is_hanging| *is_hanging);
        self.check_writable()?;
        if self.is_full.load(Ordering::SeqCst) {
            return Err(DatabaseError::DiskFull { path: "memory".into() }.into());
        }
        let outcome = self.up()?.commit(group, now)?;
        if !self.is_silent.load(Ordering::SeqCst) {
            self.wake();
        }
        Ok(outcome)
    }

    #[cfg(feature = "postgres")]
    fn check_writable(&self) -> Result<(), StoreError> {
        if self.is_read_only.load(Ordering::SeqCst) {
            return Err(skills_postgres::PgError::ReadOnly("a standby".to_owned()).into());
        }
        self.up().map(drop)
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        let is_unanswered = self.unanswered_blob.lock().as_ref() == Some(digest);
        if is_unanswered || self.are_blobs_down.load(Ordering::SeqCst) {
            return Err(gone());
        }
        self.up()?.blob(digest)
    }

    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.readable_log()?.changes(after, limit)
    }

    fn fingerprint(&self, revisions: RangeInclusive<u64>) -> Result<LogFingerprint, StoreError> {
        let log = self.readable_log()?.fingerprint(revisions)?;
        let is_standby = self.is_standby.load(Ordering::SeqCst);
        Ok(LogFingerprint { fingerprint: log.fingerprint.filter(|_| !is_standby), ..log })
    }

    fn follow(&self, wake: Wake) -> Result<Option<Subscription>, StoreError> {
        self.wakes.lock().push(wake);
        Ok(Some(Box::new(())))
    }

    fn presence(self: Arc<Self>) -> Option<Arc<dyn Presence>> {
        Some(Arc::clone(&self.presence) as _)
    }

    fn versions(
        &self,
        key: &EntryKey,
        before: Option<u64>,
        limit: usize,
    ) -> Result<VersionPage, StoreError> {
        self.up()?.versions(key, before, limit)
    }

    fn log(
        &self,
        filter: &LogFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<LogRecord>, StoreError> {
        self.up()?.log(filter, before, limit)
    }

    fn log_after(
        &self,
        filter: &LogFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ServedRecord>, StoreError> {
        self.up()?.log_after(filter, after, limit)
    }

    fn version(
        &self,
        key: &EntryKey,
        selector: &VersionSelector,
    ) -> Result<FoundVersion, StoreError> {
        self.up()?.version(key, selector)
    }

    fn state_get(&self, scope: &str, key: &str) -> Result<Option<String>, StoreError> {
        self.up()?.state_get(scope, key)
    }

    fn state_page(
        &self,
        scope: &str,
        after: i64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<StateEntry>, StoreError> {
        self.up()?.state_page(scope, after, limit, max_bytes)
    }

    fn state_size(&self, scope: &str) -> Result<(u64, u64), StoreError> {
        self.up()?.state_size(scope)
    }

    fn state_scopes(&self) -> Result<Vec<String>, StoreError> {
        self.up()?.state_scopes()
    }
}
