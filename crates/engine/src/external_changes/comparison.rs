//! Comparison of all records with the state, for times whose events were lost.
//!
//! It runs in steps of one call each. A step reads a page or a record, on any thread, and applies it on the writer
//! thread. Writes proceed meanwhile.

use std::collections::{HashSet, VecDeque};

use skills_core::{EntryKey, EntryKind, Timestamp};
use skills_store::{Change, StoreError};

use crate::state_store::{
    FetchedRecord, ReadMark, ScanProgress, StateStore, entry_key, record::Record,
    state_client::Cursor,
};

/// A running comparison.
#[derive(Debug)]
pub(super) struct Comparison {
    kinds: VecDeque<EntryKind>,
    /// Progress within the first of `kinds`.
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    NotStarted,
    Pages {
        cursor: Cursor,
        pass: Pass,
    },
    /// Rechecks the indexed records one by one.
    ByKey(VecDeque<EntryKey>),
}

/// Findings from the pages of a scope so far.
#[derive(Debug)]
pub(super) struct Pass {
    seen: HashSet<String>,
    /// Index revision at the start. Records that were written later are not gone because no page has them.
    started_at: u64,
    /// Number of changes that this pass found.
    changes: u64,
    /// Number of own writes at the start; `None` if one was in progress.
    own_writes: Option<u64>,
}

/// Result of the read of a step.
#[derive(Debug)]
pub(super) enum StepRead {
    Record(FetchedRecord),
    Page { pass: Pass, records: Vec<Record>, read_at: ReadMark, progress: ScanProgress },
    Nothing,
}

/// Findings of a step.
#[derive(Debug, Default)]
pub(super) struct StepFindings {
    pub(super) changes: Vec<Change>,
    /// Records that were written meanwhile and have to be rechecked.
    pub(super) stale: Vec<EntryKey>,
}

impl Default for Comparison {
    fn default() -> Self {
        Self { kinds: [EntryKind::Skill, EntryKind::Prompt].into(), progress: Progress::NotStarted }
    }
}

impl Pass {
    fn start(store: &StateStore) -> Self {
        let index = store.index();
        let (own_writes, is_writing) = index.write_activity();
        Self {
            seen: HashSet::new(),
            started_at: index.revision(),
            changes: 0,
            own_writes: (!is_writing).then_some(own_writes),
        }
    }

    /// Returns whether a write happened during the pass. It may have moved other records past the cursor.
    fn has_crossed_write(&self, store: &StateStore) -> bool {
        let index = store.index();
        self.own_writes != Some(index.write_activity().0)
            || index.revision() != self.started_at + self.changes
    }
}

impl Comparison {
    pub(super) fn is_done(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Reads what the next step compares. A comparison with a failed read must not be continued.
    pub(super) fn read(&mut self, store: &StateStore) -> Result<StepRead, StoreError> {
        let Some(kind) = self.kinds.front().copied() else { return Ok(StepRead::Nothing) };
        let (cursor, pass) = match std::mem::replace(&mut self.progress, Progress::NotStarted) {
            Progress::ByKey(mut keys) => {
                let key = keys.pop_front();
                self.progress = Progress::ByKey(keys);
                return key.map_or(Ok(StepRead::Nothing), |key| {
                    store.fetch_blocking(key).map(StepRead::Record)
                });
            }
            Progress::Pages { cursor, pass } => (Some(cursor), pass),
            Progress::NotStarted => (None, Pass::start(store)),
        };
        let read_at = store.index().mark_read();
        let mut records = Vec::new();
        let progress = store.scan(kind, cursor.as_ref(), &mut |record| records.push(record))?;
        Ok(StepRead::Page { pass, records, read_at, progress })
    }

    /// Compares what was read with the index. Runs on the writer thread.
    pub(super) fn apply(
        &mut self,
        read: StepRead,
        store: &StateStore,
        now: Timestamp,
    ) -> StepFindings {
        let mut found = StepFindings::default();
        let Some(kind) = self.kinds.front().copied() else { return found };
        match read {
            StepRead::Record(fetched) => found.apply(store, fetched, now),
            StepRead::Page { mut pass, records, read_at, progress } => {
                for record in records {
                    pass.seen.insert(record.id.clone());
                    let key = entry_key(kind, &record.id);
                    found.apply(store, FetchedRecord { key, record: Some(record), read_at }, now);
                }
                pass.changes += found.changes.len() as u64;
                self.progress = match progress {
                    ScanProgress::More(cursor) => Progress::Pages { cursor, pass },
                    ScanProgress::Unlistable => {
                        let mut index = store.index();
                        index.incomplete.insert(kind);
                        Progress::ByKey(index.keys_up_to(kind, u64::MAX).cloned().collect())
                    }
                    ScanProgress::Complete => {
                        Progress::ByKey(found.apply_unseen(store, kind, &pass, read_at, now))
                    }
                };
            }
            StepRead::Nothing => {}
        }
        if matches!(&self.progress, Progress::ByKey(keys) if keys.is_empty()) {
            self.progress = Progress::NotStarted;
            self.kinds.pop_front();
        }
        found
    }
}

impl StepFindings {
    fn apply(&mut self, store: &StateStore, fetched: FetchedRecord, now: Timestamp) {
        let key = fetched.key.clone();
        match store.apply_fetched(fetched, now) {
            Ok(change) => self.changes.extend(change),
            Err(_) => self.stale.push(key),
        }
    }

    /// Removes the indexed records that no page had. Returns those that have to be read one by one instead.
    fn apply_unseen(
        &mut self,
        store: &StateStore,
        kind: EntryKind,
        pass: &Pass,
        read_at: ReadMark,
        now: Timestamp,
    ) -> VecDeque<EntryKey> {
        let mut index = store.index();
        index.incomplete.remove(&kind);
        let unseen = index.keys_up_to(kind, pass.started_at);
        let unseen: VecDeque<_> =
            unseen.filter(|key| !pass.seen.contains(&*key.id)).cloned().collect();
        drop(index);
        if pass.has_crossed_write(store) {
            return unseen;
        }
        for key in unseen {
            self.apply(store, FetchedRecord { key, record: None, read_at }, now);
        }
        VecDeque::new()
    }
}
