//! Notices that the store lost commits that the catalog has, and reads the catalog again.
//!
//! A failover to a server that lacked the last transactions loses them, and so does a restored backup. Revisions are then
//! given out again, so a newer revision alone says nothing. Each look compares the fingerprint of the changes since the
//! last look that agreed with the one of the store's log.

use parking_lot::Mutex;
use skills_core::resolve::Prefix;
use skills_store::{Change, Fingerprint, Store, StoreError};

use crate::{Catalog, catalog::StoredRevision, legacy_summary, publisher::Publisher};

/// Position of a catalog in the history of its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HistoryPosition {
    /// Number of the history, which grows each time the store lost commits.
    pub(crate) history: u64,
    /// Revision of the newest change.
    pub(crate) revision: u64,
    /// Fingerprint of the newest change alone.
    newest: Fingerprint,
    /// Fingerprint of all changes since the catalog was read.
    since_read: Fingerprint,
}

impl HistoryPosition {
    /// Returns the position of a catalog that was read when the newest change had a fingerprint.
    pub(crate) fn new(revision: u64, newest: Fingerprint) -> Self {
        Self { revision, newest, ..Self::default() }
    }

    /// Moves on to the next change.
    pub(crate) fn advance(&mut self, change: &Change) {
        self.revision = change.revision;
        self.newest = Fingerprint::of(change);
        self.since_read = self.since_read.plus(self.newest);
    }

    pub(crate) const fn stored_revision(&self) -> StoredRevision {
        StoredRevision { history: self.history, revision: self.revision }
    }

    /// Returns the fingerprint of the changes from the newest one of an earlier position to the newest one of this.
    const fn fingerprint_from(&self, earlier: &Self) -> Fingerprint {
        earlier.newest.plus(self.since_read.minus(earlier.since_read))
    }
}

/// Newest position that the store was seen to contain.
#[derive(Debug)]
pub(crate) struct VerifiedPosition(Mutex<HistoryPosition>);

impl VerifiedPosition {
    pub(crate) fn new(position: HistoryPosition) -> Self {
        Self(Mutex::new(position))
    }

    /// Records a position, unless the history was replaced meanwhile.
    fn record(&self, position: HistoryPosition) {
        let mut verified = self.0.lock();
        if verified.history == position.history {
            *verified = position;
        }
    }

    /// Swaps in a catalog with another history.
    pub(crate) fn replace(&self, position: HistoryPosition, swap: impl FnOnce()) {
        let mut verified = self.0.lock();
        *verified = position;
        swap();
    }

    /// Returns the verified position and that of the catalog, which is later in the same history.
    fn with_catalog(&self, publisher: &Publisher) -> (HistoryPosition, HistoryPosition) {
        let verified = self.0.lock();
        (*verified, publisher.catalog.load().position())
    }
}

/// Compares the log of a store with the catalog. Returns the revision of the store, or `None` if the store lost commits.
pub(crate) fn check(store: &dyn Store, publisher: &Publisher) -> Result<Option<u64>, StoreError> {
    let (verified, current) = publisher.verified.with_catalog(publisher);
    let log = store.fingerprint(verified.revision..=current.revision)?;
    match log.fingerprint {
        Some(found) if found != current.fingerprint_from(&verified) => return Ok(None),
        Some(_) => publisher.verified.record(current),
        // A copy of the database that lags behind lost nothing. If it has the newest change, it has all before too.
        None if current.revision > verified.revision
            && read_fingerprint(store, current.revision)? == Some(current.newest) =>
        {
            publisher.verified.record(current);
        }
        None => {}
    }
    Ok(Some(log.revision))
}

/// Returns the fingerprint of a change that the log has, from the change itself. A copy of the database that may lag behind
/// gives no other fingerprint.
fn read_fingerprint(store: &dyn Store, revision: u64) -> Result<Option<Fingerprint>, StoreError> {
    let Some(after) = revision.checked_sub(1) else { return Ok(None) };
    match store.unpublished_changes(after, 1) {
        Ok(changes) => {
            let change = changes.first().filter(|change| change.revision == revision);
            Ok(change.map(Fingerprint::of))
        }
        Err(StoreError::Forgotten { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the catalog again if the store lost commits. Runs on the writer thread.
pub(crate) fn repair(store: &dyn Store, publisher: &Publisher) -> Result<(), StoreError> {
    if check(store, publisher)?.is_none() {
        let prefix = publisher.catalog.load().prefix().clone();
        publisher.replace(&read_catalog(store, prefix)?);
    }
    Ok(())
}

/// Reads the catalog of a store.
pub(crate) fn read_catalog(store: &dyn Store, prefix: Prefix) -> Result<Catalog, StoreError> {
    // The revision first: a change of another server between the two reads is then published once more, not lost.
    let (revision, log) = loop {
        let revision = store.revision()?;
        let log = store.fingerprint(revision..=revision)?;
        // Else it lost the change meanwhile.
        if log.revision >= revision {
            break (revision, log);
        }
    };
    let newest = match log.fingerprint {
        Some(newest) => newest,
        None => read_fingerprint(store, revision)?.unwrap_or_default(),
    };
    let mut entries = store.entries()?;
    legacy_summary::restore_paragraphs(store, &mut entries);
    let position = HistoryPosition::new(revision, newest);
    let catalog = Catalog::from_store(entries, position, prefix);
    let withdrawn = store.withdrawn()?;
    Ok(if withdrawn.is_empty() { catalog } else { catalog.with_withdrawn(&withdrawn) })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use skills_core::{Layer, PromptDefinition, Timestamp};
    use skills_store::{
        Batch, Effect, EntryContent, MemoryStore, Mutation, PublishOptions, SharedMemoryStore,
    };

    use super::*;
    use crate::{blob_cache::BlobCache, store_contact::StoreContact};

    fn commit(store: &dyn Store, id: &str, at: i64) -> Vec<Effect> {
        let definition = PromptDefinition {
            description: id.to_owned(),
            arguments: vec![],
            function_id: "f::g".to_owned(),
        };
        let (layer, content) = (Layer::Official, EntryContent::Prompt(definition));
        let (blobs, options) = (vec![], PublishOptions::default());
        let put = Mutation::Put { layer, id: id.into(), content, blobs, options };
        let group = store.commit(vec![Batch::new("t", vec![put])], Timestamp::from_micros(at));
        group.unwrap().into_iter().flat_map(Result::unwrap).collect()
    }

    /// Returns a standby with two changes, and the state of a server that read the first one of it and published the other.
    fn on_standby() -> (Arc<SharedMemoryStore>, Publisher) {
        let store = Arc::new(SharedMemoryStore::default());
        store.set_standby(true);
        commit(&*store, "a", 10);
        let catalog = read_catalog(&*store, Prefix::default()).unwrap();
        let blobs = BlobCache::new(Arc::clone(&store) as _, 0);
        let publisher = Publisher::new(catalog, blobs, StoreContact::new(None));
        publisher.publish(commit(&*store, "b", 20));
        (store, publisher)
    }

    /// Returns another history of two changes.
    fn another() -> Arc<MemoryStore> {
        let store = MemoryStore::new();
        commit(&store, "a", 10);
        commit(&store, "c", 30);
        Arc::new(store)
    }

    #[test]
    fn commits_that_are_lost_while_the_catalog_is_read_are_not_part_of_it() {
        let store = Arc::new(SharedMemoryStore::default());
        store.replace(another());
        let failing = Arc::downgrade(&store);
        store.after_next_revision(move || {
            let shorter = MemoryStore::new();
            commit(&shorter, "a", 10);
            failing.upgrade().unwrap().replace(Arc::new(shorter));
        });
        let catalog = read_catalog(&*store, Prefix::default()).unwrap();
        assert_eq!(catalog.revision(), 1);
        let blobs = BlobCache::new(Arc::clone(&store) as _, 0);
        let publisher = Publisher::new(catalog, blobs, StoreContact::new(None));
        commit(&*store, "other", 20);
        commit(&*store, "c", 30);
        assert_eq!(check(&*store, &publisher).unwrap(), Some(3));
    }

    #[test]
    fn a_standby_with_the_newest_change_verifies_the_catalog() {
        let (store, publisher) = on_standby();
        assert_eq!(check(&*store, &publisher).unwrap(), Some(2));
        assert_eq!(publisher.verified.0.lock().revision, 2);
    }

    #[test]
    fn a_standby_with_another_or_no_newest_change_says_nothing() {
        for (memory, revision) in [(another(), 2), (Arc::default(), 0)] {
            let (store, publisher) = on_standby();
            store.replace(memory);
            assert_eq!(check(&*store, &publisher).unwrap(), Some(revision));
            assert_eq!(publisher.verified.0.lock().revision, 1);
            store.set_standby(false);
            assert_eq!(check(&*store, &publisher).unwrap(), None, "after its promotion");
        }
    }
}
