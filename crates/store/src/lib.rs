//! Stores for entries, their change log, blobs and bus state.
//!
//! - [`Store`]: the trait; one commit is one group of batches, each all or nothing
//! - [`concurrent`]: batches of a store behind a network
//! - [`model`]: batches, changes and entries: the plain data of the trait
//! - [`presence`]: servers that share a store
//! - [`import_records`]: records of imports that these servers share
//! - [`transfer`]: tables, for copies of whole registries
//! - [`versions`]: versions of entries, labels and the log
//! - [`selection`]: the version that a selector means, and the versions that retention keeps
//! - [`memory`], [`shared_memory`]: in memory, for tests
//! - [`sqlite`]: durable, in one file
//! - [`postgres`]: durable, in a database that several servers share
//!
//! A store knows no function, protocol or caller, and checks no rule of content: the registry does that before.

pub mod concurrent;
mod content_json;
mod error;
mod history;
pub mod import_records;
pub mod memory;
pub mod model;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod presence;
pub mod selection;
pub mod shared_memory;
pub mod sqlite;
mod tables;
pub mod transfer;
pub mod versions;

use std::{any::Any, ops::RangeInclusive, sync::Arc};

use bytes::Bytes;
use skills_core::{Digest, EntryKey, Timestamp, VersionSelector};

pub use concurrent::{BatchCallback, ConcurrentStore, FinishBatch, FinishLookup};
pub use error::{BatchError, StoreError};
pub use history::{Fingerprint, LogFingerprint};
pub use import_records::{ImportRecords, LeasedRecord, MemoryImportRecords};
pub use memory::MemoryStore;
pub use model::{
    Batch, BatchId, Change, Compute, Effect, EntryContent, Mutation, NewValue, Refusal,
    ServedVersion, StateChange, StateEntry, StoredEntry,
};
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
pub use presence::{MemoryPresence, Presence, ServerId};
pub use shared_memory::SharedMemoryStore;
#[cfg(feature = "postgres")]
pub use skills_postgres::{DatabaseUrl, UrlError};
pub use skills_sqlite::DatabaseError;
pub use sqlite::SqliteStore;
pub use versions::{
    Action, CollectionSize, ExpiredVersions, FoundVersion, Labels, LogFilter, LogRecord,
    PublishOptions, Removal, Retention, ServedRecord, StoredVersion, VersionHeads, VersionMutation,
    VersionPage,
};

/// Message of [`StoreError::NoHistory`].
pub const NO_HISTORY: &str =
    "this store keeps no history; versions and labels need the embedded store (store: embedded)";

/// Results of the batches of a group, in the order of the group.
pub type GroupOutcome = Vec<Result<Vec<Effect>, BatchError>>;

/// Function that is called when another process may have changed a store. It must not block.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Subscription that ends when it is dropped.
pub type Subscription = Box<dyn Any + Send + Sync>;

/// Durable storage of a registry. All calls block; the caller decides on which thread.
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the served version of every entry that has one, without bodies, in no particular order.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn entries(&self) -> Result<Vec<StoredEntry>, StoreError>;

    /// Returns the entries that exist and serve nothing, because all versions that they could serve are yanked.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn withdrawn(&self) -> Result<Vec<EntryKey>, StoreError> {
        Ok(vec![])
    }

    /// Returns the revision of the newest change, or 0. Its entry may have been removed.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn revision(&self) -> Result<u64, StoreError>;

    /// Commits a group of batches and returns when it is durable. Each batch is atomic by itself. `now` is the wall
    /// clock; the time of a change is always later than that of the change before it.
    ///
    /// # Errors
    /// When nothing of the group was stored.
    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError>;

    /// Checks, without a write, that the store takes writes: it is not read-only, as a standby is.
    ///
    /// # Errors
    /// When it is, or cannot be reached.
    fn check_writable(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the blob with this digest.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError>;

    /// Returns several blobs, in the order of their digests. The caller limits their size.
    ///
    /// # Errors
    /// When the store cannot be read, or one of them is damaged.
    fn blobs(&self, digests: &[Digest]) -> Result<Vec<Option<Bytes>>, StoreError> {
        digests.iter().map(|digest| self.blob(digest)).collect()
    }

    /// Returns whether [`blob`](Self::blob) reads from memory or a local file. It then takes microseconds, unless the
    /// file has to be read from the disk.
    fn is_local(&self) -> bool {
        false
    }

    /// Returns the changes after a revision, oldest first, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read, or has dropped some of these changes.
    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError>;

    /// Returns what [`changes`](Self::changes) returns, for the threads that publish them: without waiting for reads of
    /// clients, and within seconds.
    ///
    /// # Errors
    /// Those of [`changes`](Self::changes).
    fn unpublished_changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.changes(after, limit)
    }

    /// Returns the revision of the newest change, and the fingerprint of the changes with the given revisions as far as
    /// the log has them.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn fingerprint(&self, revisions: RangeInclusive<u64>) -> Result<LogFingerprint, StoreError> {
        let revision = self.revision()?;
        let (after, until) = (revisions.start().saturating_sub(1), *revisions.end());
        let limit = usize::try_from(until.saturating_sub(after)).unwrap_or(usize::MAX);
        let changes = self.changes(after, limit)?;
        let fingerprint = Fingerprint::of_part(&changes, &revisions);
        Ok(LogFingerprint { revision, fingerprint: Some(fingerprint) })
    }

    /// Calls `wake` when another process may have changed the store, from any thread, until the returned value is
    /// dropped. Calls may be missing, so the store is asked for its revision from time to time too. Returns `None` if
    /// no other process writes to the store by [`commit`](Self::commit).
    ///
    /// # Errors
    /// When the store cannot be followed.
    fn follow(&self, _wake: Wake) -> Result<Option<Subscription>, StoreError> {
        Ok(None)
    }

    /// Returns versions of an entry, newest first, with numbers below `before`, at most `limit`. Versions of a removed
    /// entry count; a page without versions and `is_present` stands for an entry that never existed.
    ///
    /// # Errors
    /// When the store cannot be read, or keeps no history.
    fn versions(
        &self,
        _key: &EntryKey,
        _before: Option<u64>,
        _limit: usize,
    ) -> Result<VersionPage, StoreError> {
        Err(StoreError::NoHistory(NO_HISTORY))
    }

    /// Returns the version of an entry that a selector means for a reader, by the rules of
    /// [`select_version`](selection::select_version). A digest and the author's version mean the newest version that is not
    /// yanked, or else the newest; a label and `latest` never mean a yanked one.
    ///
    /// # Errors
    /// When the store cannot be read, or keeps no history.
    fn version(
        &self,
        _key: &EntryKey,
        _selector: &VersionSelector,
    ) -> Result<FoundVersion, StoreError> {
        Err(StoreError::NoHistory(NO_HISTORY))
    }

    /// Returns records of the change log that pass a filter, newest first, with revisions below `before`, at most
    /// `limit`.
    ///
    /// # Errors
    /// When the store cannot be read, or keeps no history.
    fn log(
        &self,
        _filter: &LogFilter,
        _before: Option<u64>,
        _limit: usize,
    ) -> Result<Vec<LogRecord>, StoreError> {
        Err(StoreError::NoHistory(NO_HISTORY))
    }

    /// Returns records of the change log that pass a filter, oldest first, with revisions above `after`, at most `limit`.
    /// Each has the content of the version that was served then, unless it is gone by now.
    ///
    /// # Errors
    /// When the store cannot be read, or keeps no history.
    fn log_after(
        &self,
        _filter: &LogFilter,
        _after: u64,
        _limit: usize,
    ) -> Result<Vec<ServedRecord>, StoreError> {
        Err(StoreError::NoHistory(NO_HISTORY))
    }

    /// Returns versions that a retention rule no longer keeps, at most `limit`, from an entry on. Versions with a label,
    /// served ones, and the newest of each entry are always kept.
    ///
    /// # Errors
    /// When the store cannot be read, or keeps no history.
    fn expired(
        &self,
        _retention: &Retention,
        _now: Timestamp,
        _from: Option<&EntryKey>,
        _limit: usize,
    ) -> Result<ExpiredVersions, StoreError> {
        Err(StoreError::NoHistory(NO_HISTORY))
    }

    /// Returns the size of all versions that a retention rule no longer keeps.
    ///
    /// # Errors
    /// When the store cannot be read, or keeps no history.
    fn expired_size(
        &self,
        _retention: &Retention,
        _now: Timestamp,
    ) -> Result<CollectionSize, StoreError> {
        Err(StoreError::NoHistory(NO_HISTORY))
    }

    /// Gives space of removed content back to the system, a bounded amount of it. Returns whether there is more.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn release_space(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Returns this store as one that carries out batches concurrently. The registry then does not use
    /// [`commit`](Self::commit).
    fn as_concurrent(self: Arc<Self>) -> Option<Arc<dyn ConcurrentStore>> {
        None
    }

    /// Returns the presence of the servers that share the store. `None` if it has only one.
    fn presence(self: Arc<Self>) -> Option<Arc<dyn Presence>> {
        None
    }

    /// Returns the records of imports of the servers that share the store. `None` if it has only one.
    fn import_records(self: Arc<Self>) -> Option<Arc<dyn ImportRecords>> {
        None
    }

    /// Looks up an entry in a store that other processes write to. Returns the step that compares it with the known
    /// version, or `None` if no other process writes to the store.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn lookup(self: Arc<Self>, _key: &EntryKey) -> Result<Option<FinishLookup>, StoreError> {
        Ok(None)
    }

    /// Returns whether [`entries`](Self::entries) has listed all entries.
    fn is_complete(&self) -> bool {
        true
    }

    /// Returns a value of the bus state as JSON text.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn state_get(&self, scope: &str, key: &str) -> Result<Option<String>, StoreError>;

    /// Returns the values of a scope in the order of their first insertion, after the position `after` (0 for the
    /// start), at most `limit` of them and at most one more than fits in `max_bytes`.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn state_page(
        &self,
        scope: &str,
        after: i64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<StateEntry>, StoreError>;

    /// Returns the number of values of a scope and their size in bytes.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn state_size(&self, scope: &str) -> Result<(u64, u64), StoreError>;

    /// Returns the scopes that have at least one value, sorted.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn state_scopes(&self) -> Result<Vec<String>, StoreError>;
}
