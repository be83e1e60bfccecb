//! Where entries, their change log, blobs and bus state are kept.
//!
//! - [`Store`]: the trait; one commit is one group of batches, each all or nothing
//! - [`model`]: batches, changes and entries, the plain data that crosses the trait
//! - [`memory`]: in memory, for tests
//! - [`sqlite`]: durable, in one file
//!
//! A store keeps what it is given. It does not know what a function, a protocol or a caller is, and
//! it applies no rule of content: that happened before.

mod error;
pub mod memory;
pub mod model;
pub mod sqlite;

use bytes::Bytes;
use skills_core::{Digest, EntryKey, Timestamp};

pub use error::{BatchError, StoreError};
pub use memory::MemoryStore;
pub use model::{
    Batch, Change, Compute, Effect, Entry, EntryContent, Mutation, NewValue, Refusal, StateChange,
    StateEntry,
};
pub use sqlite::SqliteStore;

/// What happened to each batch of a group, in the order of the group.
pub type GroupOutcome = Vec<Result<Vec<Effect>, BatchError>>;

/// A durable home for the registry. All calls block; the caller decides on which thread.
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// The newest version of every entry, without bodies, in no particular order.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn entries(&self) -> Result<Vec<Entry>, StoreError>;

    /// The revision of the newest change, of an entry that may be gone since; 0 when there is none.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn revision(&self) -> Result<u64, StoreError>;

    /// Commits a group of batches and returns when it is durable. Each batch happens as a whole or
    /// not at all, whatever becomes of the others. `now` is the wall clock; the moment a change is
    /// stamped with is never earlier than that of the change before it.
    ///
    /// # Errors
    /// When nothing of the group was stored.
    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError>;

    /// The bytes with this digest.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError>;

    /// The changes after a revision, oldest first, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot be read, or does not have all of them any more.
    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError>;

    /// Looks for an entry where it is kept, for stores that others write to as well; a difference to
    /// what was known comes back as a change. Called on the writer's thread only.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn lookup(&self, _key: &EntryKey, _now: Timestamp) -> Result<Option<Change>, StoreError> {
        Ok(None)
    }

    /// Whether [`entries`](Self::entries) has told of all there is.
    fn is_complete(&self) -> bool {
        true
    }

    /// One value of the bus state, as JSON text.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn state_get(&self, scope: &str, key: &str) -> Result<Option<String>, StoreError>;

    /// The values of a scope in the order of their first insertion, after the position `after`
    /// (0 for the start), at most `limit` of them and at most one more than fits in `max_bytes`.
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

    /// How many values a scope has, and their size in bytes.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn state_size(&self, scope: &str) -> Result<(u64, u64), StoreError>;

    /// The scopes that hold at least one value, sorted.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn state_scopes(&self) -> Result<Vec<String>, StoreError>;
}
