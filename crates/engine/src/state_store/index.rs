//! In-memory index of the records in the state, and log of the changes since it was loaded.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use skills_core::{Digest, EntryKey, EntryKind, Timestamp};
use skills_store::{Change, StoreError, StoredEntry};

use super::{
    pending_events::PendingEvents,
    record::{Record, SkillIdentity},
};

/// Changes that the log holds for subscribers that fall behind. The state itself has no log.
const LOG_CAPACITY: usize = 100_000;

/// Actor of changes that other processes made.
const EXTERNAL_ACTOR: &str = "state";

#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Records with the revision of their last change.
    records: BTreeMap<EntryKey, (Record, u64)>,
    /// Keys of the skills with a body; several may have the same body.
    by_digest: HashMap<Digest, BTreeSet<EntryKey>>,
    log: VecDeque<Change>,
    /// Revision of the last change that left the log.
    truncated_until: u64,
    revision: u64,
    /// Events of indexed changes that have not arrived yet.
    pub(super) pending_events: PendingEvents,
    /// Kinds whose scope cannot be listed; their records are indexed as they are looked up.
    pub(crate) incomplete: BTreeSet<EntryKind>,
    /// Records that this process is writing: the state may have the write, the index has it later.
    writing: HashMap<EntryKey, OpenWrite>,
    /// Number of own writes that were started.
    started_writes: u64,
}

/// A write of this process whose answer has not arrived.
#[derive(Debug, Default)]
struct OpenWrite {
    /// Record that is written; absent for a removal.
    record: Option<Record>,
    /// The event of the write has arrived: it was executed, and no other event of it will come.
    is_reported: bool,
}

/// State of the index when a read of the state starts. What was read is older than any change of the index since.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadMark {
    revision: u64,
}

impl Index {
    /// Adds a record without logging a change: it existed before the index was loaded.
    pub(super) fn load(&mut self, key: EntryKey, record: Record) {
        self.revision += 1;
        self.insert(key, record);
    }

    /// Adds a record that is about to be removed, unless it has been indexed meanwhile.
    pub(super) fn load_if_absent(&mut self, key: &EntryKey, record: Record) {
        if !self.records.contains_key(key) {
            self.load(key.clone(), record);
        }
    }

    fn insert(&mut self, key: EntryKey, record: Record) {
        self.by_digest.entry(record.content.digest()).or_default().insert(key.clone());
        self.records.insert(key, (record, self.revision));
    }

    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    /// Marks a record as being written.
    pub(super) fn start_write(&mut self, key: EntryKey) {
        self.writing.insert(key, OpenWrite::default());
        self.started_writes += 1;
    }

    /// Adds the record to a started write, so that its event is recognized.
    pub(super) fn describe_write(&mut self, key: &EntryKey, record: &Record) {
        if let Some(write) = self.writing.get_mut(key) {
            write.record = Some(record.clone());
        }
    }

    /// Marks a write as executed if an event is its own. Returns whether it is.
    pub(super) fn report_write(&mut self, key: &EntryKey, event: Option<&Record>) -> bool {
        let Some(write) = self.writing.get_mut(key) else { return false };
        let is_own = event.is_some() && write.record.as_ref() == event && !write.is_reported;
        write.is_reported |= is_own;
        is_own
    }

    /// Ends a write. Returns the written record if its event has arrived.
    pub(super) fn end_write(&mut self, key: &EntryKey) -> Option<Record> {
        let OpenWrite { record, is_reported } = self.writing.remove(key)?;
        record.filter(|_| is_reported)
    }

    /// Returns whether this process is writing a record.
    pub(crate) fn is_writing(&self, key: &EntryKey) -> bool {
        self.writing.contains_key(key)
    }

    /// Returns the number of own writes that were started, and whether one is in progress.
    pub(crate) fn write_activity(&self) -> (u64, bool) {
        (self.started_writes, !self.writing.is_empty())
    }

    pub(crate) const fn mark_read(&self) -> ReadMark {
        ReadMark { revision: self.revision }
    }

    /// Returns whether a record that was read from the state may be older than the index.
    pub(super) fn is_stale(&self, key: &EntryKey, read_at: ReadMark) -> bool {
        self.is_writing(key) || self.has_changed(key, read_at)
    }

    /// Returns whether a record has changed in the index since then.
    pub(super) fn has_changed(&self, key: &EntryKey, since: ReadMark) -> bool {
        since.revision < self.truncated_until
            || self.log_after(since.revision).any(|change| change.key == *key)
    }

    fn log_after(&self, revision: u64) -> impl Iterator<Item = &Change> {
        let start = self.log.partition_point(|change| change.revision <= revision);
        self.log.range(start..)
    }

    pub(super) fn entries(&self) -> Vec<StoredEntry> {
        let entry = |(key, (record, revision)): (&EntryKey, &(Record, u64))| StoredEntry {
            key: key.clone(),
            revision: *revision,
            registered_at: record.registered_at,
            content: Arc::clone(&record.content),
            heads: None,
        };
        self.records.iter().map(entry).collect()
    }

    /// Returns the keys of a kind whose records have not changed after a revision.
    pub(crate) fn keys_up_to(
        &self,
        kind: EntryKind,
        revision: u64,
    ) -> impl Iterator<Item = &EntryKey> {
        let matches = move |(key, (_, changed_at)): &(&EntryKey, &(Record, u64))| {
            key.kind == kind && *changed_at <= revision
        };
        self.records.iter().filter(matches).map(|(key, _)| key)
    }

    pub(super) fn key_by_digest(&self, digest: &Digest) -> Option<EntryKey> {
        self.by_digest.get(digest)?.first().cloned()
    }

    pub(super) fn get(&self, key: &EntryKey) -> Option<&Record> {
        self.records.get(key).map(|(record, _)| record)
    }

    /// Returns the record that is being written, or else the indexed one, if a stored skill is of it.
    pub(super) fn known_skill(&self, key: &EntryKey, identity: &SkillIdentity) -> Option<&Record> {
        let record = match self.writing.get(key) {
            Some(write) => write.record.as_ref(),
            None => self.get(key),
        };
        record.filter(|record| identity.is_of(record))
    }

    /// Returns the timestamp for a new version of a record: later than the indexed one.
    pub(super) fn next_timestamp(&self, key: &EntryKey, now: Timestamp) -> Timestamp {
        self.get(key).map_or(now, |record| Timestamp::next_after(now, record.registered_at))
    }

    /// Applies a record that was read from the state. Its event is still to come.
    pub(super) fn apply_fetched(
        &mut self,
        key: EntryKey,
        record: Option<Record>,
        now: Timestamp,
    ) -> Option<Change> {
        let change = self.apply_external(key.clone(), record.clone(), now)?;
        self.pending_events.expect(key, record, now);
        Some(change)
    }

    /// Applies a record that another process wrote; `None` if the index has it already.
    pub(super) fn apply_external(
        &mut self,
        key: EntryKey,
        record: Option<Record>,
        now: Timestamp,
    ) -> Option<Change> {
        if self.get(&key) == record.as_ref() {
            return None;
        }
        self.apply(key, record, &EXTERNAL_ACTOR.into(), now)
    }

    /// Applies a write or a removal and logs the change; `None` if there was nothing to remove.
    pub(super) fn apply(
        &mut self,
        key: EntryKey,
        record: Option<Record>,
        actor: &Arc<str>,
        now: Timestamp,
    ) -> Option<Change> {
        let before = self.records.remove(&key).map(|(old, _)| old.content.digest());
        if let Some(digest) = &before
            && let Some(keys) = self.by_digest.get_mut(digest)
            && keys.remove(&key)
            && keys.is_empty()
        {
            self.by_digest.remove(digest);
        }
        if before.is_none() && record.is_none() {
            return None;
        }
        self.revision += 1;
        let change = Change::without_history(
            self.revision,
            record.as_ref().map_or(now, |record| record.registered_at),
            Arc::clone(actor),
            key.clone(),
            record.as_ref().map(|record| Arc::clone(&record.content)),
        );
        if let Some(record) = record {
            self.insert(key, record);
        }
        self.log.push_back(change.clone());
        if self.log.len() > LOG_CAPACITY
            && let Some(oldest) = self.log.pop_front()
        {
            self.truncated_until = oldest.revision;
        }
        Some(change)
    }

    /// Returns the changes after a revision, unless some of them have left the log.
    pub(super) fn changes_after(
        &self,
        revision: u64,
        limit: usize,
    ) -> Result<Vec<Change>, StoreError> {
        if revision < self.truncated_until {
            return Err(StoreError::Forgotten { until: self.truncated_until });
        }
        Ok(self.log_after(revision).take(limit).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use skills_core::{EntryKind, Layer};

    use super::*;

    #[test]
    fn the_log_is_read_from_any_revision_that_it_still_has() {
        let mut index = Index::default();
        let key = EntryKey { kind: EntryKind::Skill, layer: Layer::Official, id: "a".into() };
        let value = serde_json::json!({ "id": "a", "skill": "x" }).to_string();
        let record = Record::decode(EntryKind::Skill, Some("a"), &value).unwrap();
        let now = Timestamp::from_micros(0);
        // Loaded records have revisions but no changes.
        index.load(EntryKey { id: "b".into(), ..key.clone() }, record.clone());
        let capacity = LOG_CAPACITY as u64;
        for _ in 0..capacity {
            index.apply(key.clone(), Some(record.clone()), &"t".into(), now);
        }
        let revisions = |index: &Index, after| {
            let page = index.changes_after(after, 3).unwrap();
            page.iter().map(|change| change.revision).collect::<Vec<_>>()
        };
        assert_eq!(revisions(&index, 0), [2, 3, 4]);
        assert_eq!(revisions(&index, 777), [778, 779, 780]);
        assert_eq!(revisions(&index, capacity), [capacity + 1]);
        assert!(revisions(&index, capacity + 1).is_empty());
        index.apply(key, None, &"t".into(), now);
        assert!(matches!(index.changes_after(1, 3), Err(StoreError::Forgotten { until: 2 })));
        assert_eq!(revisions(&index, 2), [3, 4, 5]);
    }
}
