//! Store of skills and prompts in the state of an iii engine, with an index in memory.
//!
//! - `record`: stored shape of an entry
//! - `state_client`: the `state::*` calls
//! - `write`: writes, one call each, concurrently
//! - `index`: the records by key, and the log of changes
//! - `events`: applies events of the `state` trigger to the index
//! - `pending_events`: changes that are indexed before their events arrive
//!
//! The state is the source of truth and has no versions, no transactions and no compare-and-swap. Calls run side by side
//! on the runtime, and everything that changes the index runs on the registry's writer thread: the second steps of own
//! writes and of reads. A record that was read is dropped as stale if it is being written, or changed in the index since
//! the read started. A listing costs no call and no body; a body is fetched when it is read.

mod events;
mod index;
mod pending_events;
pub(crate) mod record;
pub(crate) mod state_client;
mod write;

use std::{collections::HashMap, ops::RangeInclusive, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use skills_bus::{Bus, CallError};
use skills_core::{Code, Coded, Digest, EntryKey, EntryKind, Layer, Timestamp};
use skills_store::{
    Batch, Change, ConcurrentStore, FinishLookup, GroupOutcome, LogFingerprint, StateEntry, Store,
    StoreError, StoredEntry,
};
use tokio::{runtime::Handle, sync::Notify};

use self::{
    index::Index,
    record::Record,
    state_client::{Cursor, ListError, StateClient},
};

pub(crate) use self::index::ReadMark;
pub use state_client::StateLocation;

/// Failed attempts to list a whole scope before it counts as too large. An answer may also be lost with a connection
/// that broke for another reason.
const MAX_LIST_FAILURES: usize = 2;

/// Error message for the bus's own key-value functions, which the engine serves in attached mode.
const STATE_NOT_SUPPORTED: &str = "the state belongs to the engine; call state::* on it";

/// Scopes of the state that hold the content.
#[derive(Debug, Clone)]
pub struct StateScopes {
    /// Scope of skills by id.
    pub skills: String,
    /// Scope of prompts by name.
    pub prompts: String,
}

impl StateScopes {
    fn scope(&self, kind: EntryKind) -> &str {
        match kind {
            EntryKind::Skill => &self.skills,
            EntryKind::Prompt => &self.prompts,
            // The registry stores no collections here.
            EntryKind::Collection => "",
        }
    }

    pub(crate) fn kind(&self, scope: &str) -> Option<EntryKind> {
        [EntryKind::Skill, EntryKind::Prompt].into_iter().find(|kind| self.scope(*kind) == scope)
    }
}

/// A record as the state had it after a read started.
#[derive(Debug)]
pub(crate) struct FetchedRecord {
    pub(crate) key: EntryKey,
    pub(crate) record: Option<Record>,
    pub(crate) read_at: ReadMark,
}

/// A fetched record may be older than the index.
#[derive(Debug)]
pub(crate) struct StaleRead;

/// Progress of reading a scope.
#[derive(Debug)]
pub(crate) enum ScanProgress {
    /// There is another page.
    More(Cursor),
    Complete,
    /// The scope cannot be listed at all.
    Unlistable,
}

/// Store in the state of an engine. Its calls block; they belong on a blocking thread.
pub struct StateStore {
    client: StateClient,
    scopes: StateScopes,
    runtime: Handle,
    index: Mutex<Index>,
    /// Failed attempts to list a whole scope.
    list_failures: Mutex<HashMap<EntryKind, usize>>,
    /// Signals the end of each own write.
    write_ended: Notify,
}

impl std::fmt::Debug for StateStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateStore").field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

pub(crate) fn entry_key(kind: EntryKind, id: &str) -> EntryKey {
    EntryKey { kind, layer: Layer::Official, id: id.into() }
}

fn unavailable(error: &CallError) -> StoreError {
    StoreError::Unavailable { code: error.code_text().into_owned(), message: error.to_string() }
}

fn not_supported() -> StoreError {
    StoreError::Unavailable {
        code: Code::NotSupported.into(),
        message: STATE_NOT_SUPPORTED.to_owned(),
    }
}

impl StateStore {
    /// Creates a store over the `state::*` functions of a bus, which are called on `runtime`.
    #[must_use]
    pub fn new(
        bus: Arc<dyn Bus>,
        location: StateLocation,
        scopes: StateScopes,
        timeout: Duration,
        runtime: Handle,
    ) -> Self {
        let client = StateClient::new(bus, location, timeout);
        Self {
            client,
            scopes,
            runtime,
            index: Mutex::default(),
            list_failures: Mutex::default(),
            write_ended: Notify::new(),
        }
    }

    /// Locates the state functions of a bus; `None` if it has none.
    ///
    /// # Errors
    /// When the functions exist but do not answer.
    pub async fn locate(
        bus: &Arc<dyn Bus>,
        timeout: Duration,
    ) -> Result<Option<StateLocation>, CallError> {
        StateClient::locate(bus, timeout).await
    }

    /// Returns the scopes that hold the content.
    #[must_use]
    pub const fn scopes(&self) -> &StateScopes {
        &self.scopes
    }

    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock()
    }

    /// Reads a page of a scope and visits each valid record.
    pub(crate) fn scan(
        &self,
        kind: EntryKind,
        cursor: Option<&Cursor>,
        visit: &mut dyn FnMut(Record),
    ) -> Result<ScanProgress, StoreError> {
        let scope = self.scopes.scope(kind);
        let mut decode = |key: Option<&str>, value: &str| match Record::decode(kind, key, value) {
            Ok(record) => visit(record),
            Err(reason) => tracing::warn!(scope, key, reason, "invalid record ignored"),
        };
        let failures = self.list_failures.lock().get(&kind).copied().unwrap_or(0);
        let may_list_all = failures < MAX_LIST_FAILURES;
        let page = self.client.list_page(scope, cursor, may_list_all, &mut decode);
        let error = match self.runtime.block_on(page) {
            Ok(next) => {
                self.list_failures.lock().remove(&kind);
                return Ok(next.map_or(ScanProgress::Complete, ScanProgress::More));
            }
            Err(ListError::Failed(error)) => return Err(unavailable(&error)),
            Err(ListError::NoAnswer(error)) if failures + 1 < MAX_LIST_FAILURES => {
                self.list_failures.lock().insert(kind, failures + 1);
                return Err(unavailable(&error));
            }
            Err(ListError::TooLarge(error) | ListError::NoAnswer(error)) => error,
        };
        // Another attempt would only break the connection again.
        self.list_failures.lock().insert(kind, MAX_LIST_FAILURES);
        if may_list_all {
            tracing::warn!(
                scope,
                %error,
                "scope too large to be listed by this state worker; its entries appear as they are used"
            );
        }
        Ok(ScanProgress::Unlistable)
    }

    fn fetch_value(&self, key: &EntryKey) -> Result<Option<String>, StoreError> {
        let value = self.client.get(self.scopes.scope(key.kind), &key.id);
        self.runtime.block_on(value).map_err(|error| unavailable(&error))
    }

    /// Reads a record.
    pub(crate) async fn fetch(&self, key: EntryKey) -> Result<FetchedRecord, StoreError> {
        let read_at = self.index().mark_read();
        let value = self.client.get(self.scopes.scope(key.kind), &key.id).await;
        let value = value.map_err(|error| unavailable(&error))?;
        let decode = |value: String| Record::decode(key.kind, Some(&key.id), &value).ok();
        let record = value.and_then(decode);
        Ok(FetchedRecord { key, record, read_at })
    }

    /// Reads a record on a blocking thread.
    pub(crate) fn fetch_blocking(&self, key: EntryKey) -> Result<FetchedRecord, StoreError> {
        self.runtime.block_on(self.fetch(key))
    }

    /// Applies a record that was read. Its event is still to come. Runs on the writer thread.
    pub(crate) fn apply_fetched(
        &self,
        fetched: FetchedRecord,
        now: Timestamp,
    ) -> Result<Option<Change>, StaleRead> {
        let FetchedRecord { key, record, read_at } = fetched;
        let mut index = self.index();
        if index.is_stale(&key, read_at) {
            return Err(StaleRead);
        }
        Ok(index.apply_fetched(key, record, now))
    }

    /// Returns a future that ends with the next own write, counted from this call.
    pub(crate) fn write_ended(&self) -> tokio::sync::futures::Notified<'_> {
        self.write_ended.notified()
    }

    /// Waits until a write to a record that is in progress has ended. Later writes are not waited for.
    async fn wait_for_write(&self, key: &EntryKey) {
        let started_at = self.index().mark_read();
        let has_ended = || {
            let index = self.index();
            !index.is_writing(key) || index.has_changed(key, started_at)
        };
        loop {
            let ended = self.write_ended();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if has_ended() {
                return;
            }
            ended.await;
        }
    }
}

impl Store for StateStore {
    fn entries(&self) -> Result<Vec<StoredEntry>, StoreError> {
        // Records of a failed attempt may be gone by now.
        *self.index() = Index::default();
        for kind in [EntryKind::Skill, EntryKind::Prompt] {
            let mut cursor = None;
            loop {
                let mut load =
                    |record: Record| self.index().load(entry_key(kind, &record.id), record);
                match self.scan(kind, cursor.as_ref(), &mut load)? {
                    ScanProgress::More(next) => cursor = Some(next),
                    ScanProgress::Complete => break,
                    ScanProgress::Unlistable => {
                        self.index().incomplete.insert(kind);
                        break;
                    }
                }
            }
        }
        Ok(self.index().entries())
    }

    fn revision(&self) -> Result<u64, StoreError> {
        Ok(self.index().revision())
    }

    fn fingerprint(&self, _: RangeInclusive<u64>) -> Result<LogFingerprint, StoreError> {
        // Revisions are those of this process, so no other one can give them out again.
        Ok(LogFingerprint { revision: self.revision()?, ..LogFingerprint::default() })
    }

    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError> {
        Ok(group.into_iter().map(|batch| self.commit_one(batch, now)).collect())
    }

    fn as_concurrent(self: Arc<Self>) -> Option<Arc<dyn ConcurrentStore>> {
        Some(self)
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        let Some(key) = self.index().key_by_digest(digest) else { return Ok(None) };
        let body = self.fetch_value(&key)?.and_then(|value| record::extract_body(&value));
        // Another body means that the record has just been replaced: the caller retries.
        Ok(body.filter(|body| Digest::of(body) == *digest))
    }

    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.index().changes_after(after, limit)
    }

    fn lookup(self: Arc<Self>, key: &EntryKey) -> Result<Option<FinishLookup>, StoreError> {
        let fetched = self.runtime.block_on(async {
            // The catalog has the record once its write has ended.
            self.wait_for_write(key).await;
            self.fetch(key.clone()).await
        })?;
        // The catalog is newer than a stale read.
        Ok(Some(Box::new(move |now| self.apply_fetched(fetched, now).unwrap_or_default())))
    }

    fn is_complete(&self) -> bool {
        self.index().incomplete.is_empty()
    }

    fn state_get(&self, _: &str, _: &str) -> Result<Option<String>, StoreError> {
        Err(not_supported())
    }

    fn state_page(
        &self,
        _: &str,
        _: i64,
        _: usize,
        _: usize,
    ) -> Result<Vec<StateEntry>, StoreError> {
        Err(not_supported())
    }

    fn state_size(&self, _: &str) -> Result<(u64, u64), StoreError> {
        Err(not_supported())
    }

    fn state_scopes(&self) -> Result<Vec<String>, StoreError> {
        Err(not_supported())
    }
}
