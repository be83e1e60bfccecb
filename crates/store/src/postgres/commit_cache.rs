//! Cache of what the last commit of this server left, by which the next one decides without a look at the database.
//!
//! A group whose entries are all in the cache is written with one statement, which writes nothing unless the head still has
//! the stamp of the cache. Stamps are random, so an equal one means that the database is exactly as that commit left it,
//! also after a failover or a restored backup. While other servers write too, the cache is not used.

use std::collections::HashMap;

use skills_core::{EntryKey, Timestamp};

use super::{differences::Differences, load::Loaded};
use crate::{
    Batch, Mutation,
    tables::{Entry, Tables},
};

/// Most entries of the cache, without their content.
const CAPACITY: usize = 8192;

/// Head and entries as of one commit.
#[derive(Default)]
pub(super) struct CommitCache {
    stamp: Option<i64>,
    revision: u64,
    at: Option<Timestamp>,
    newest_entry: i64,
    positions: i64,
    entries: HashMap<EntryKey, (i64, Entry)>,
    /// No other server wrote between the last two commits.
    is_alone: bool,
}

impl CommitCache {
    /// Returns what a group needs, if the cache has all of it.
    pub(super) fn load(&self, group: &[Batch]) -> Option<Loaded> {
        let stamp = self.stamp.filter(|_| self.is_alone)?;
        let mut loaded = Loaded {
            tables: Tables {
                revision: self.revision,
                last_at: self.at,
                positions: self.positions,
                ..Tables::default()
            },
            numbers: HashMap::new(),
            entries: self.newest_entry,
            stamp,
            stored_blobs: Default::default(),
            committed: HashMap::new(),
        };
        for mutation in group.iter().flat_map(|batch| &batch.mutations) {
            let key = match mutation {
                Mutation::Put { layer, id, content, .. } => {
                    EntryKey { kind: content.kind(), layer: layer.clone(), id: id.clone() }
                }
                Mutation::Remove(key) => key.clone(),
                Mutation::Version { .. }
                | Mutation::StateSet { .. }
                | Mutation::StateDelete { .. } => return None,
            };
            if loaded.numbers.contains_key(&key) {
                continue;
            }
            let (number, entry) = self.entries.get(&key)?;
            loaded.numbers.insert(key.clone(), *number);
            loaded.tables.entries.insert(key, entry.clone());
        }
        Some(loaded)
    }

    /// Takes over what a commit left.
    pub(super) fn store(&mut self, before: &Loaded, after: Tables, written: &Differences) {
        self.is_alone = self.stamp == Some(before.stamp);
        if !self.is_alone || self.entries.len() + after.entries.len() > CAPACITY {
            self.entries.clear();
        }
        self.stamp = Some(written.stamp);
        (self.revision, self.at) = (after.revision, after.last_at);
        (self.newest_entry, self.positions) = (written.entry_count, after.positions);
        let new: HashMap<&EntryKey, i64> =
            written.new_numbers.iter().map(|(key, number)| (key, *number)).collect();
        for (key, mut entry) in after.entries {
            // An entry without a number was refused.
            if let Some(number) = before.numbers.get(&key).or_else(|| new.get(&key)).copied() {
                entry.leave_out_history();
                self.entries.insert(key, (number, entry));
            }
        }
    }

    /// Forgets everything, after another server wrote or the outcome of a commit is not known.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
