//! Store in memory, for tests: same rules, nothing durable.

use bytes::Bytes;
use parking_lot::Mutex;
use skills_core::{Digest, EntryKey, Timestamp, VersionSelector};

use crate::{
    Batch, Change, CollectionSize, ExpiredVersions, FoundVersion, GroupOutcome, LogFilter,
    LogRecord, Retention, ServedRecord, StateEntry, Store, StoreError, StoredEntry, VersionPage,
    tables::Tables,
};

/// Store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<Tables>);

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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
        Ok(self.0.lock().revision)
    }

    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError> {
        let mut tables = self.0.lock();
        Ok(group.into_iter().map(|batch| tables.apply(batch, now)).collect())
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
