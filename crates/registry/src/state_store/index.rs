//! What is known of each record, and the changes that led there.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use skills_core::{Digest, EntryKey, Kind, Timestamp};
use skills_store::{Change, Entry, StoreError};

use super::{ahead::Ahead, record::Record};

/// How many changes are remembered for subscribers that fall behind. The state keeps no log.
const LOG: usize = 100_000;

/// Who is named for changes that were made elsewhere.
const ELSEWHERE: &str = "state";

#[derive(Debug, Default)]
pub(super) struct Index {
    known: BTreeMap<EntryKey, (Record, u64)>,
    /// Which skills have a body; more than one may have the same.
    by_digest: HashMap<Digest, BTreeSet<EntryKey>>,
    log: VecDeque<Change>,
    /// The last change that is not in the log any more.
    forgotten: u64,
    revision: u64,
    /// What was found out or done without an event, which is still to come.
    pub(super) ahead: Ahead,
    /// What could not be listed.
    pub(super) incomplete: BTreeSet<Kind>,
}

impl Index {
    /// Takes in a record that was there before anyone listened: no change.
    pub(super) fn load(&mut self, key: EntryKey, record: Record) {
        self.revision += 1;
        self.by_digest.entry(record.body_digest()).or_default().insert(key.clone());
        self.known.insert(key, (record, self.revision));
    }

    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        let entry = |(key, (record, revision)): (&EntryKey, &(Record, u64))| Entry {
            key: key.clone(),
            revision: *revision,
            registered_at: record.registered_at,
            content: Arc::clone(&record.content),
        };
        self.known.iter().map(entry).collect()
    }

    /// The records of a kind that are as they were at a revision.
    pub(super) fn keys_until(&self, kind: Kind, revision: u64) -> impl Iterator<Item = &EntryKey> {
        let is_meant = move |(key, (_, since)): &(&EntryKey, &(Record, u64))| {
            key.kind == kind && *since <= revision
        };
        self.known.iter().filter(is_meant).map(|(key, _)| key)
    }

    pub(super) fn with_digest(&self, digest: &Digest) -> Option<EntryKey> {
        self.by_digest.get(digest)?.first().cloned()
    }

    /// Whether the index has just this record, or none.
    pub(super) fn knows(&self, key: &EntryKey, record: Option<&Record>) -> bool {
        self.known.get(key).map(|(known, _)| known) == record
    }

    /// The moment to stamp a record with: later than the one it replaces.
    pub(super) fn moment(&self, key: &EntryKey, now: Timestamp) -> Timestamp {
        match self.known.get(key) {
            Some((known, _)) => Timestamp::after(now, known.registered_at),
            None => now,
        }
    }

    /// Takes in a record that is about to be removed and that nobody has heard of yet.
    pub(super) fn adopt(&mut self, key: EntryKey, record: Record) {
        if !self.known.contains_key(&key) {
            self.load(key, record);
        }
    }

    /// Takes in what a look at the state has found, ahead of the event that tells of it.
    pub(super) fn find(
        &mut self,
        key: EntryKey,
        record: Option<Record>,
        now: Timestamp,
    ) -> Option<Change> {
        let change = self.absorb(key.clone(), record.clone(), now)?;
        self.ahead.expect(key, record, now);
        Some(change)
    }

    /// Takes in what somebody else wrote; `None` when it is what is known already.
    pub(super) fn absorb(
        &mut self,
        key: EntryKey,
        record: Option<Record>,
        now: Timestamp,
    ) -> Option<Change> {
        if self.knows(&key, record.as_ref()) {
            return None;
        }
        self.put(key, record, &ELSEWHERE.into(), now)
    }

    /// Notes a write; `None` when there was nothing to remove.
    pub(super) fn put(
        &mut self,
        key: EntryKey,
        record: Option<Record>,
        actor: &Arc<str>,
        now: Timestamp,
    ) -> Option<Change> {
        let before = self.known.remove(&key);
        if let Some((old, _)) = &before
            && let Some(keys) = self.by_digest.get_mut(&old.body_digest())
            && keys.remove(&key)
            && keys.is_empty()
        {
            self.by_digest.remove(&old.body_digest());
        }
        if before.is_none() && record.is_none() {
            return None;
        }
        self.revision += 1;
        let change = Change {
            revision: self.revision,
            at: record.as_ref().map_or(now, |record| record.registered_at),
            actor: Arc::clone(actor),
            key: key.clone(),
            before: before.map(|(old, _)| old.content.digest()),
            content: record.as_ref().map(|record| Arc::clone(&record.content)),
        };
        if let Some(record) = record {
            self.by_digest.entry(record.body_digest()).or_default().insert(key.clone());
            self.known.insert(key, (record, self.revision));
        }
        self.log.push_back(change.clone());
        if self.log.len() > LOG
            && let Some(oldest) = self.log.pop_front()
        {
            self.forgotten = oldest.revision;
        }
        Some(change)
    }

    /// The changes after a revision, unless some of them have been forgotten.
    pub(super) fn log(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        if after < self.forgotten {
            return Err(StoreError::Forgotten { until: self.forgotten });
        }
        let start = self.log.partition_point(|change| change.revision <= after);
        Ok(self.log.range(start..).take(limit).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use skills_core::{Kind, Layer};

    use super::*;

    #[test]
    fn the_log_is_read_from_any_revision_that_it_still_has() {
        let mut index = Index::default();
        let key = EntryKey { kind: Kind::Skill, layer: Layer::Official, id: "a".into() };
        let value = serde_json::json!({ "id": "a", "skill": "x" }).to_string();
        let record = Record::decode(Kind::Skill, Some("a"), &value).unwrap();
        let now = Timestamp::from_micros(0);
        // What was there before anyone listened has revisions and no changes.
        index.load(EntryKey { id: "b".into(), ..key.clone() }, record.clone());
        let kept = LOG as u64;
        for _ in 0..kept {
            index.put(key.clone(), Some(record.clone()), &"t".into(), now);
        }
        let revisions = |index: &Index, after| {
            let page = index.log(after, 3).unwrap();
            page.iter().map(|change| change.revision).collect::<Vec<_>>()
        };
        assert_eq!(revisions(&index, 0), [2, 3, 4]);
        assert_eq!(revisions(&index, 777), [778, 779, 780]);
        assert_eq!(revisions(&index, kept), [kept + 1]);
        assert!(revisions(&index, kept + 1).is_empty());
        index.put(key, None, &"t".into(), now);
        assert!(matches!(index.log(1, 3), Err(StoreError::Forgotten { until: 2 })));
        assert_eq!(revisions(&index, 2), [3, 4, 5]);
    }
}
