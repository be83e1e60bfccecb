//! A store in memory, for tests: the same rules, nothing durable.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use skills_core::{Digest, EntryKey, Timestamp};

use crate::{
    Batch, BatchError, Change, Effect, Entry, EntryContent, GroupOutcome, Mutation, NewValue,
    StateChange, StateEntry, Store, StoreError,
};

/// Keeps everything in maps.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Tables>);

#[derive(Debug, Default, Clone)]
struct Tables {
    entries: BTreeMap<EntryKey, Entry>,
    changes: Vec<Change>,
    blobs: HashMap<Digest, Bytes>,
    state: BTreeMap<String, Vec<StateEntry>>,
    positions: i64,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn apply(&mut self, batch: Batch, now: Timestamp) -> Result<Vec<Effect>, BatchError> {
        let Batch { actor, mutations } = batch;
        mutations
            .into_iter()
            .map(|mutation| match mutation {
                Mutation::Put { layer, id, content, blobs } => {
                    self.blobs.extend(blobs);
                    let key = EntryKey { kind: content.kind(), layer, id };
                    Ok(Effect::Changed(self.log(&actor, key, Some(content), now)))
                }
                Mutation::Remove(key) if self.entries.contains_key(&key) => {
                    Ok(Effect::Changed(self.log(&actor, key, None, now)))
                }
                Mutation::Remove(_) => Ok(Effect::Nothing),
                Mutation::StateSet { scope, key, value } => {
                    self.state_set(scope, key, &value).map(Effect::State)
                }
                Mutation::StateDelete { scope, key } => {
                    let values = self.state.entry(scope.clone()).or_default();
                    let at = values.iter().position(|entry| entry.key == key);
                    let old = at.map(|at| values.remove(at).value);
                    Ok(Effect::State(StateChange { scope, key, old, new: None }))
                }
            })
            .collect()
    }

    fn log(
        &mut self,
        actor: &std::sync::Arc<str>,
        key: EntryKey,
        content: Option<EntryContent>,
        now: Timestamp,
    ) -> Change {
        let last = self.changes.last();
        let change = Change {
            revision: last.map_or(1, |change| change.revision + 1),
            at: last.map_or(now, |change| Timestamp::after(now, change.at)),
            actor: actor.clone(),
            before: self.entries.get(&key).map(|entry| entry.content.digest()),
            key,
            content: content.map(Into::into),
        };
        match &change.content {
            Some(content) => {
                let entry = Entry {
                    key: change.key.clone(),
                    revision: change.revision,
                    registered_at: change.at,
                    content: content.clone(),
                };
                self.entries.insert(change.key.clone(), entry);
            }
            None => {
                self.entries.remove(&change.key);
            }
        }
        self.changes.push(change.clone());
        change
    }

    fn state_set(
        &mut self,
        scope: String,
        key: String,
        value: &NewValue,
    ) -> Result<StateChange, BatchError> {
        let values = self.state.entry(scope.clone()).or_default();
        let present = values.iter_mut().find(|entry| entry.key == key);
        let old = present.as_ref().map(|entry| entry.value.clone());
        let value = match value.after(old.as_deref()) {
            Ok(value) => value,
            Err(refusal) => return Err(refusal.into_error(scope, key, old)),
        };
        match present {
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
    fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        Ok(self.tables().entries.values().cloned().collect())
    }

    fn revision(&self) -> Result<u64, StoreError> {
        Ok(self.tables().changes.last().map_or(0, |change| change.revision))
    }

    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError> {
        let mut tables = self.tables();
        let apply = |batch| {
            let mut trial = tables.clone();
            let effects = trial.apply(batch, now)?;
            *tables = trial;
            Ok(effects)
        };
        Ok(group.into_iter().map(apply).collect())
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        Ok(self.tables().blobs.get(digest).cloned())
    }

    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        let tables = self.tables();
        let newer = tables.changes.iter().filter(|change| change.revision > after);
        Ok(newer.take(limit).cloned().collect())
    }

    fn state_get(&self, scope: &str, key: &str) -> Result<Option<String>, StoreError> {
        let tables = self.tables();
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
        let tables = self.tables();
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
        let tables = self.tables();
        let values = || tables.state.get(scope).into_iter().flatten();
        let bytes = values().map(|entry| entry.value.len() as u64).sum();
        Ok((values().count() as u64, bytes))
    }

    fn state_scopes(&self) -> Result<Vec<String>, StoreError> {
        let tables = self.tables();
        let used = tables.state.iter().filter(|(_, values)| !values.is_empty());
        Ok(used.map(|(scope, _)| scope.clone()).collect())
    }
}
