//! Comparing everything with the state, after a time whose events never came.
//!
//! It is done in steps of one call each, on the writer thread, so that writes need not wait for all of it.

use std::collections::{HashSet, VecDeque};

use skills_core::{EntryKey, Kind, Timestamp};
use skills_store::StoreError;

use super::{Scanned, StateStore, key, remote::Cursor};
use crate::writer::Foreign;

/// A comparison that is under way.
#[derive(Debug)]
pub(super) struct Comparison {
    kinds: VecDeque<Kind>,
    /// Of the first of them.
    progress: Option<Progress>,
}

#[derive(Debug)]
enum Progress {
    Pages {
        cursor: Cursor,
        pass: Pass,
    },
    /// What is known is looked at one by one.
    ByKey(VecDeque<EntryKey>),
}

/// What was learned from the pages of a scope so far.
#[derive(Debug)]
struct Pass {
    seen: HashSet<String>,
    /// The index when it began: what was written later is not gone because a page does not have it.
    since: u64,
    /// The index after the last page.
    until: u64,
    /// Whether something was written between two pages. It may have moved others past the cursor.
    was_crossed: bool,
}

impl Pass {
    fn since(revision: u64) -> Self {
        Self { seen: HashSet::new(), since: revision, until: revision, was_crossed: false }
    }
}

impl Default for Comparison {
    fn default() -> Self {
        Self { kinds: [Kind::Skill, Kind::Prompt].into(), progress: None }
    }
}

impl Comparison {
    pub(super) fn is_done(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Takes the next step. After one that failed there is no other.
    pub(super) fn step(&mut self, store: &StateStore, now: Timestamp) -> Foreign {
        let mut found = Foreign::default();
        let Some(kind) = self.kinds.front().copied() else { return found };
        let progress = match self.progress.take() {
            Some(Progress::ByKey(keys)) => by_key(store, keys, now, &mut found),
            Some(Progress::Pages { cursor, pass }) => {
                page(store, kind, Some(&cursor), pass, now, &mut found)
            }
            None => {
                let pass = Pass::since(store.index().revision());
                page(store, kind, None, pass, now, &mut found)
            }
        };
        let progress = match progress {
            Ok(progress) => progress,
            Err(error) => return Foreign { error: Some(error), ..found },
        };
        self.progress =
            progress.filter(|left| !matches!(left, Progress::ByKey(keys) if keys.is_empty()));
        if self.progress.is_none() {
            self.kinds.pop_front();
        }
        found
    }
}

fn by_key(
    store: &StateStore,
    mut keys: VecDeque<EntryKey>,
    now: Timestamp,
    found: &mut Foreign,
) -> Result<Option<Progress>, StoreError> {
    if let Some(key) = keys.pop_front() {
        found.changes.extend(store.look(&key, now)?);
    }
    Ok(Some(Progress::ByKey(keys)))
}

/// Compares a page, and after the last one what no page had. Returns what is left to do.
fn page(
    store: &StateStore,
    kind: Kind,
    cursor: Option<&Cursor>,
    mut pass: Pass,
    now: Timestamp,
    found: &mut Foreign,
) -> Result<Option<Progress>, StoreError> {
    pass.was_crossed |= store.index().revision() != pass.until;
    let scanned = store.scan(kind, cursor, &mut |record| {
        pass.seen.insert(record.id.clone());
        found.changes.extend(store.index().find(key(kind, &record.id), Some(record), now));
    })?;
    let mut index = store.index();
    pass.until = index.revision();
    let is_unseen = |key: &&EntryKey| !pass.seen.contains(&*key.id);
    Ok(match scanned {
        Scanned::More(cursor) => Some(Progress::Pages { cursor, pass }),
        Scanned::Unlistable => {
            let known = index.keys_until(kind, u64::MAX).cloned().collect();
            drop(index);
            store.listed(kind, false);
            Some(Progress::ByKey(known))
        }
        Scanned::All => {
            let unseen = index.keys_until(kind, pass.since).filter(is_unseen);
            let unseen: VecDeque<EntryKey> = unseen.cloned().collect();
            let left = if pass.was_crossed {
                Some(Progress::ByKey(unseen))
            } else {
                let gone = unseen.into_iter().filter_map(|key| index.find(key, None, now));
                found.changes.extend(gone);
                None
            };
            drop(index);
            store.listed(kind, true);
            left
        }
    })
}
