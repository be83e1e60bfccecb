//! Tables of a store in memory, and the one implementation of all mutations outside SQL.
//!
//! The memory store holds everything in them. The PostgreSQL store loads the part that a group of batches needs, applies
//! the group, and writes the differences.
//!
//! - `entries`: entries with their versions; `entry_selection`: the version that a selector means

mod entries;
mod entry_selection;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use skills_core::{Digest, EntryKey, Timestamp};

pub(crate) use self::entries::Entry;
#[cfg(feature = "postgres")]
pub(crate) use self::entries::Version;
use self::entries::{Outcome, Stamp};
use crate::{
    Action, Batch, BatchError, Change, Effect, EntryContent, LogRecord, Mutation, NewValue,
    Retention, StateChange, StateEntry, model::MAX_HOLDERS,
};

/// Entries, change log, blobs and bus state.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tables {
    pub(crate) entries: BTreeMap<EntryKey, Entry>,
    /// Changes that were made here.
    pub(crate) changes: Vec<(Change, LogRecord)>,
    /// Revision of the newest change.
    pub(crate) revision: u64,
    /// Time of the newest change.
    pub(crate) last_at: Option<Timestamp>,
    pub(crate) blobs: HashMap<Digest, Bytes>,
    /// Sizes of blobs that are stored elsewhere.
    pub(crate) stored_blobs: HashMap<Digest, u64>,
    /// Blobs that versions outside these tables have, with one of those versions.
    pub(crate) other_uses: HashMap<Digest, (EntryKey, u64)>,
    /// Blobs that were removed, in order.
    pub(crate) erased_blobs: Vec<Digest>,
    pub(crate) state: BTreeMap<String, Vec<StateEntry>>,
    /// Newest position of a state value.
    pub(crate) positions: i64,
}

impl Tables {
    /// Applies a batch, all of it or nothing.
    pub(crate) fn apply(
        &mut self,
        batch: Batch,
        now: Timestamp,
    ) -> Result<Vec<Effect>, BatchError> {
        if batch.mutations.len() == 1 {
            // A mutation fails before it changes anything.
            return self.apply_all(batch, now);
        }
        let mut trial = self.clone();
        let effects = trial.apply_all(batch, now)?;
        *self = trial;
        Ok(effects)
    }

    fn apply_all(&mut self, batch: Batch, now: Timestamp) -> Result<Vec<Effect>, BatchError> {
        let Batch { actor, mutations, .. } = batch;
        mutations.into_iter().map(|mutation| self.apply_one(&actor, mutation, now)).collect()
    }

    fn apply_one(
        &mut self,
        actor: &Arc<str>,
        mutation: Mutation,
        now: Timestamp,
    ) -> Result<Effect, BatchError> {
        match mutation {
            Mutation::Put { layer, id, content, blobs, options } => {
                let key = EntryKey { kind: content.kind(), layer, id };
                let stamp = self.next_stamp(actor, now);
                let entry = self.entries.entry(key.clone()).or_default();
                let before = entry.served();
                let action = entry.put(&key, content, options, &stamp)?;
                self.blobs.extend(blobs);
                Ok(Effect::Changed(self.log(&stamp, key, action, before)))
            }
            Mutation::Remove(key) => {
                let stamp = self.next_stamp(actor, now);
                let Some(entry) = self.entries.get_mut(&key) else { return Ok(Effect::Nothing) };
                let before = entry.served();
                if !entry.remove() {
                    return Ok(Effect::Nothing);
                }
                Ok(Effect::Changed(self.log(&stamp, key, Action::Remove, before)))
            }
            Mutation::Version { key, change } => {
                let stamp = self.next_stamp(actor, now);
                let mut unknown = Entry::default();
                let entry = self.entries.get_mut(&key).unwrap_or(&mut unknown);
                let before = entry.served();
                match entry.change(&key, change, &stamp)? {
                    Outcome::Kept => Ok(Effect::Nothing),
                    Outcome::AsBefore(version) => Ok(Effect::Unchanged { version, served: before }),
                    Outcome::Done(action, gone) => {
                        let change = self.log(&stamp, key, action, before);
                        Ok(match gone {
                            Some(content) => self.erase(change, &content),
                            None => Effect::Changed(change),
                        })
                    }
                }
            }
            Mutation::StateSet { scope, key, value } => {
                self.state_set(scope, key, &value).map(Effect::State)
            }
            Mutation::StateDelete { scope, key } => {
                let values = self.state.entry(scope.clone()).or_default();
                let at = values.iter().position(|entry| entry.key == key);
                let old = at.map(|at| values.remove(at).value);
                Ok(Effect::State(StateChange { scope, key, old, new: None }))
            }
        }
    }

    fn next_stamp<'a>(&self, actor: &'a Arc<str>, now: Timestamp) -> Stamp<'a> {
        Stamp {
            revision: self.revision + 1,
            at: self.last_at.map_or(now, |last| Timestamp::next_after(now, last)),
            actor,
        }
    }

    fn log(
        &mut self,
        stamp: &Stamp<'_>,
        key: EntryKey,
        action: Action,
        before: Option<u64>,
    ) -> Change {
        let entry = self.entries.get(&key);
        let served = entry.and_then(Entry::served);
        let is_put = matches!(action, Action::Put { .. }) && action.version() == served;
        let affects_served = before != served || (served.is_some() && is_put);
        let Stamp { revision, at, actor } = *stamp;
        let change = Change {
            revision,
            at,
            actor: Arc::clone(actor),
            key: key.clone(),
            action: action.clone(),
            affects_served,
            served: entry.and_then(|entry| entry.served_version(affects_served)),
        };
        let record =
            LogRecord { revision, at, actor: Arc::clone(actor), key, action, before, served };
        (self.revision, self.last_at) = (revision, Some(at));
        self.changes.push((change.clone(), record));
        change
    }

    /// Removes the blobs of a version whose content is gone, unless other versions have them.
    fn erase(&mut self, change: Change, content: &EntryContent) -> Effect {
        let digests = content.blob_digests();
        let holders = match change.action {
            Action::Purge { .. } => self.holders(&digests),
            _ => vec![],
        };
        let mut blobs = digests;
        blobs.retain(|digest| !self.is_referenced(digest, &[]));
        let mut bytes = 0;
        for digest in &blobs {
            let (new, stored) = (self.blobs.remove(digest), self.stored_blobs.remove(digest));
            bytes += new.map(|bytes| bytes.len() as u64).or(stored).unwrap_or_default();
            self.erased_blobs.push(*digest);
        }
        Effect::Erased { change, blobs, bytes, holders }
    }

    /// Returns the entries that have one of some blobs, with the newest version of each that has one.
    fn holders(&self, digests: &[Digest]) -> Vec<(EntryKey, u64)> {
        let has_blob = |content: &Arc<EntryContent>| {
            content.blob_digests().iter().any(|digest| digests.contains(digest))
        };
        let holders = self.entries.iter().filter_map(|(key, entry)| {
            let mut newest_first = entry.versions.iter().rev();
            let holder =
                newest_first.find(|version| version.content.as_ref().is_some_and(has_blob));
            Some((key.clone(), holder?.info.number))
        });
        let mut holders: BTreeMap<EntryKey, u64> = holders.collect();
        for (key, number) in digests.iter().filter_map(|digest| self.other_uses.get(digest)) {
            holders.entry(key.clone()).or_insert(*number);
        }
        holders.into_iter().take(MAX_HOLDERS).collect()
    }

    /// Returns whether a version that is not among `except` has a blob.
    pub(crate) fn is_referenced(&self, digest: &Digest, except: &[(&EntryKey, u64)]) -> bool {
        if self.other_uses.contains_key(digest) {
            return true;
        }
        self.entries.iter().any(|(key, entry)| {
            entry.versions.iter().any(|version| {
                !except.contains(&(key, version.info.number))
                    && version
                        .content
                        .as_ref()
                        .is_some_and(|content| content.blob_digests().contains(digest))
            })
        })
    }

    pub(crate) fn expired(&self, retention: &Retention, now: Timestamp) -> Vec<(&EntryKey, u64)> {
        let expired = |(key, entry)| {
            let entry: &Entry = entry;
            entry.expired(retention, now).into_iter().map(move |number| (key, number))
        };
        self.entries.iter().flat_map(expired).collect()
    }

    fn state_set(
        &mut self,
        scope: String,
        key: String,
        value: &NewValue,
    ) -> Result<StateChange, BatchError> {
        let values = self.state.entry(scope.clone()).or_default();
        let current = values.iter_mut().find(|entry| entry.key == key);
        let old = current.as_ref().map(|entry| entry.value.clone());
        let value = match value.apply(old.as_deref()) {
            Ok(value) => value,
            Err(refusal) => return Err(refusal.into_error(scope, key, old)),
        };
        match current {
            Some(entry) => entry.value.clone_from(&value),
            None => {
                self.positions += 1;
                let entry =
                    StateEntry { position: self.positions, key: key.clone(), value: value.clone() };
                values.push(entry);
            }
        }
        Ok(StateChange { scope, key, old, new: Some(value) })
    }
}
