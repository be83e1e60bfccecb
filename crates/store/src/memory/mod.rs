//! Store in memory, for tests: same rules, nothing durable.
//!
//! - `entries`: entries with their versions; `entry_selection`: the version that a selector means

mod entries;
mod entry_selection;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;
use skills_core::{Digest, EntryKey, Timestamp, VersionSelector};

use self::entries::{Entry, Outcome, Stamp};
use crate::{
    Action, Batch, BatchError, Change, CollectionSize, Effect, EntryContent, ExpiredVersions,
    FoundVersion, GroupOutcome, LogFilter, LogRecord, Mutation, NewValue, Retention, ServedRecord,
    StateChange, StateEntry, Store, StoreError, StoredEntry, VersionPage, model::MAX_HOLDERS,
};

/// Store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Tables>);

#[derive(Debug, Default, Clone)]
struct Tables {
    entries: BTreeMap<EntryKey, Entry>,
    changes: Vec<(Change, LogRecord)>,
    blobs: HashMap<Digest, Bytes>,
    state: BTreeMap<String, Vec<StateEntry>>,
    positions: i64,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Tables {
    fn apply(&mut self, batch: Batch, now: Timestamp) -> Result<Vec<Effect>, BatchError> {
        let Batch { actor, mutations } = batch;
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
        let last = self.changes.last().map(|(change, _)| change);
        Stamp {
            revision: last.map_or(1, |change| change.revision + 1),
            at: last.map_or(now, |change| Timestamp::next_after(now, change.at)),
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
        let removed = blobs.iter().filter_map(|digest| self.blobs.remove(digest));
        let bytes = removed.map(|bytes| bytes.len() as u64).sum();
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
        holders.take(MAX_HOLDERS).collect()
    }

    /// Returns whether a version that is not among `except` has a blob.
    fn is_referenced(&self, digest: &Digest, except: &[(&EntryKey, u64)]) -> bool {
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

    fn expired(&self, retention: &Retention, now: Timestamp) -> Vec<(&EntryKey, u64)> {
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

impl Store for MemoryStore {
    fn entries(&self) -> Result<Vec<StoredEntry>, StoreError> {
        let tables = self.0.lock();
        Ok(tables.entries.iter().filter_map(|(key, entry)| entry.stored(key)).collect())
    }

    fn withdrawn(&self) -> Result<Vec<EntryKey>, StoreError> {
        let tables = self.0.lock();
        let withdrawn = tables.entries.iter().filter(|(_, entry)| entry.is_withdrawn());
        Ok(withdrawn.map(|(key, _)| key.clone()).collect())
    }

    fn revision(&self) -> Result<u64, StoreError> {
        Ok(self.0.lock().changes.last().map_or(0, |(change, _)| change.revision))
    }

    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError> {
        let mut tables = self.0.lock();
        let apply = |batch: Batch| {
            if batch.mutations.len() == 1 {
                // A mutation fails before it changes anything.
                return tables.apply(batch, now);
            }
            let mut trial = tables.clone();
            let effects = trial.apply(batch, now)?;
            *tables = trial;
            Ok(effects)
        };
        Ok(group.into_iter().map(apply).collect())
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.lock().blobs.get(digest).cloned())
    }

    fn is_local(&self) -> bool {
        true
    }

    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        let tables = self.0.lock();
        let changes = tables.changes.iter().map(|(change, _)| change);
        Ok(changes.filter(|change| change.revision > after).take(limit).cloned().collect())
    }

    fn versions(
        &self,
        key: &EntryKey,
        before: Option<u64>,
        limit: usize,
    ) -> Result<VersionPage, StoreError> {
        let tables = self.0.lock();
        let entry = tables.entries.get(key);
        Ok(entry.map(|entry| entry.page(before, limit)).unwrap_or_default())
    }

    fn version(
        &self,
        key: &EntryKey,
        selector: &VersionSelector,
    ) -> Result<FoundVersion, StoreError> {
        let tables = self.0.lock();
        let entry = tables.entries.get(key);
        Ok(entry.map_or(FoundVersion::Missing, |entry| entry.find(selector)))
    }

    fn log(
        &self,
        filter: &LogFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<LogRecord>, StoreError> {
        let tables = self.0.lock();
        let records = tables.changes.iter().rev().map(|(_, record)| record);
        let records = records.filter(|record| {
            before.is_none_or(|before| record.revision < before) && filter.matches(record)
        });
        Ok(records.take(limit).cloned().collect())
    }

    fn log_after(
        &self,
        filter: &LogFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ServedRecord>, StoreError> {
        let tables = self.0.lock();
        let records = tables.changes.iter().map(|(_, record)| record);
        let records = records.filter(|record| record.revision > after && filter.matches(record));
        let served = |record: &LogRecord| {
            let versions = &tables.entries.get(&record.key)?.versions;
            let served = versions.iter().find(|version| Some(version.info.number) == record.served);
            served?.content.clone()
        };
        let records = records.take(limit);
        Ok(records
            .map(|record| ServedRecord { record: record.clone(), content: served(record) })
            .collect())
    }

    fn expired(
        &self,
        retention: &Retention,
        now: Timestamp,
        from: Option<&EntryKey>,
        limit: usize,
    ) -> Result<ExpiredVersions, StoreError> {
        let tables = self.0.lock();
        let expired = tables.expired(retention, now).into_iter();
        let mut expired = expired.filter(|(key, _)| from.is_none_or(|from| *key >= from));
        let page = expired.by_ref().take(limit);
        let versions = page.map(|(key, number)| (key.clone(), number)).collect();
        Ok(ExpiredVersions { versions, has_more: expired.next().is_some() })
    }

    fn expired_size(
        &self,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<CollectionSize, StoreError> {
        let tables = self.0.lock();
        let expired = tables.expired(retention, now);
        let contents = expired.iter().filter_map(|(key, number)| {
            let versions = &tables.entries.get(*key)?.versions;
            versions.iter().find(|version| version.info.number == *number)?.content.as_ref()
        });
        let mut digests: Vec<_> = contents.flat_map(|content| content.blob_digests()).collect();
        digests.sort_unstable();
        digests.dedup();
        digests.retain(|digest| !tables.is_referenced(digest, &expired));
        let blobs = digests.iter().filter_map(|digest| tables.blobs.get(digest));
        let bytes = blobs.map(|bytes| bytes.len() as u64).sum();
        Ok(CollectionSize { versions: expired.len() as u64, bytes })
    }

    fn state_get(&self, scope: &str, key: &str) -> Result<Option<String>, StoreError> {
        let tables = self.0.lock();
        let value = tables.state.get(scope).and_then(|all| all.iter().find(|e| e.key == key));
        Ok(value.map(|entry| entry.value.clone()))
    }

    fn state_page(
        &self,
        scope: &str,
        after: i64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<StateEntry>, StoreError> {
        let tables = self.0.lock();
        let mut bytes = 0;
        let values = tables.state.get(scope).into_iter().flatten();
        let page = values.filter(|entry| entry.position > after).take(limit).take_while(|entry| {
            let fits = bytes <= max_bytes;
            bytes += entry.value.len();
            fits
        });
        Ok(page.cloned().collect())
    }

    fn state_size(&self, scope: &str) -> Result<(u64, u64), StoreError> {
        let tables = self.0.lock();
        let values = || tables.state.get(scope).into_iter().flatten();
        let bytes = values().map(|entry| entry.value.len() as u64).sum();
        Ok((values().count() as u64, bytes))
    }

    fn state_scopes(&self) -> Result<Vec<String>, StoreError> {
        let tables = self.0.lock();
        let used = tables.state.iter().filter(|(_, values)| !values.is_empty());
        Ok(used.map(|(scope, _)| scope.clone()).collect())
    }
}
