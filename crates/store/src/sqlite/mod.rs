//! Durable store in one SQLite file.
//!
//! - `open`: checks of the file before anything is written
//! - `schema.sql`, `versions.sql`: the tables; `migrate`: those of earlier releases
//! - `write`: commits of groups of batches; `write_entry`: registrations; `write_version`: labels, yanks and purges
//! - `entry_rows`: reads of an entry and its versions; `log`: reads of the change log;
//!   `retention`: versions that are no longer kept
//! - `blob_readers`: reads of blobs
//! - `rows`: conversion of rows
//!
//! Write-ahead log with `synchronous=FULL`: a commit has reached the disk when it returns. One
//! connection writes, others read, so that a read never waits for a write.

mod blob_readers;
mod entry_rows;
mod log;
mod migrate;
mod open;
mod retention;
mod rows;
mod transfer;
mod write;
mod write_entry;
mod write_version;

use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use parking_lot::Mutex;
use rusqlite::{Connection, params};
use skills_core::{Digest, EntryKey, Label, Timestamp, VersionSelector};
use skills_sqlite::DatabaseError;

use self::{
    blob_readers::{BlobReaders, StoredBlob},
    write::LogEnd,
};
use crate::{
    Batch, Change, CollectionSize, ExpiredVersions, FoundVersion, GroupOutcome, LogFilter,
    LogRecord, Retention, ServedRecord, StateEntry, Store, StoreError, StoredEntry, VersionHeads,
    VersionPage, selection::SelectionPurpose,
};

/// Free pages that are given back to the system at once.
const RELEASED_PAGES: u32 = 1000;

/// Pages in the write-ahead log at which they are moved into the database file.
const CHECKPOINT_PAGES: i64 = 2000;

/// Store in `DIR/skills.db`.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    /// Closed first: the last connection to go moves the write-ahead log into the file, and readers
    /// cannot write.
    reader: Mutex<Connection>,
    /// Reads of the log and of all versions, which may take long.
    history_reader: Mutex<Connection>,
    blob_readers: BlobReaders,
    writer: Mutex<Writer>,
    /// Lock of the data directory, held while the store is open and released with the process.
    _lock: File,
}

#[derive(Debug)]
struct Writer {
    connection: Connection,
    end: LogEnd,
}

impl SqliteStore {
    /// Opens the store in a directory. Creates missing ones.
    ///
    /// # Errors
    /// When the directory cannot be used, another process holds it, or the file is damaged or newer than this program.
    /// The file is then unchanged.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        open::open(dir)
    }

    /// Returns the path of the database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Limits the size of the database file; a commit beyond it fails as on a full disk.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn limit_bytes(&self, bytes: u64) -> Result<(), StoreError> {
        let limit = || {
            let writer = self.writer.lock();
            let page_size: u64 =
                writer.connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
            let pages = (bytes / page_size).max(1);
            let sql = format!("PRAGMA max_page_count = {pages}");
            writer.connection.query_row(&sql, [], |_| Ok(()))
        };
        limit().map_err(|error| self.error(&error))
    }

    fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        query(&self.reader.lock()).map_err(|error| self.error(&error))
    }

    /// Reads what may take long, so that no other read waits for it.
    fn scan<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        query(&self.history_reader.lock()).map_err(|error| self.error(&error))
    }

    fn error(&self, error: &rusqlite::Error) -> StoreError {
        store_error(&self.path, error)
    }
}

/// Returns the labels of all entries.
fn all_labels(connection: &Connection) -> rusqlite::Result<HashMap<i64, Vec<(Label, u64)>>> {
    let mut statement = connection.prepare("SELECT entry, name, version FROM label")?;
    let mut rows = statement.query([])?;
    let mut labels: HashMap<i64, Vec<(Label, u64)>> = HashMap::new();
    while let Some(row) = rows.next()? {
        labels.entry(row.get(0)?).or_default().push(entry_rows::label(row, 1)?);
    }
    Ok(labels)
}

/// Converts errors of the database engine. Only a process that holds the directory's lock opens the file.
fn store_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    match DatabaseError::new(path, error) {
        DatabaseError::Busy { path } => {
            StoreError::InUse { path: path.parent().unwrap_or(&path).to_owned() }
        }
        error => error.into(),
    }
}

impl Store for SqliteStore {
    fn entries(&self) -> Result<Vec<StoredEntry>, StoreError> {
        self.read(|connection| {
            let mut labels = all_labels(connection)?;
            let sql = "SELECT e.number, e.kind, e.tier, e.owner, e.id, e.latest, v.number,
                              v.revision, v.registered_at, v.content
                       FROM entry e JOIN version v ON v.entry = e.number AND v.number = e.served";
            let mut statement = connection.prepare(sql)?;
            let entries = statement.query_map([], |row| {
                let (number, revision) = (row.get(0)?, row.get(7)?);
                let key = rows::key(row, 1, revision)?;
                let content = rows::served_content(key.kind, row.get_ref(9)?);
                let labels = labels.remove(&number).unwrap_or_default().into();
                let heads = VersionHeads { served: row.get(6)?, latest: row.get(5)?, labels };
                Ok(StoredEntry {
                    key,
                    revision,
                    registered_at: Timestamp::from_micros(row.get(8)?),
                    content,
                    heads: Some(heads),
                })
            })?;
            entries.collect()
        })
    }

    fn withdrawn(&self) -> Result<Vec<EntryKey>, StoreError> {
        self.read(|connection| {
            let sql = "SELECT kind, tier, owner, id, latest FROM entry
                       WHERE is_present = 1 AND served IS NULL";
            let mut statement = connection.prepare(sql)?;
            let keys = statement.query_map([], |row| rows::key(row, 0, row.get(4)?))?;
            keys.collect()
        })
    }

    fn revision(&self) -> Result<u64, StoreError> {
        self.read(|connection| {
            let sql = "SELECT coalesce(max(revision), 0) FROM change";
            connection.query_row(sql, [], |row| row.get(0))
        })
    }

    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError> {
        self.writer.lock().commit(group, now).map_err(|error| self.error(&error))
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        let stored = self.blob_readers.read(digest).map_err(|error| self.error(&error))?;
        match stored {
            Some(StoredBlob { bytes, crc32 }) if crc32fast::hash(&bytes) != crc32 => {
                let detail = format!("the body {digest} is damaged");
                Err(DatabaseError::Corrupt { path: self.path.clone(), detail }.into())
            }
            stored => Ok(stored.map(|stored| stored.bytes)),
        }
    }

    fn is_local(&self) -> bool {
        true
    }

    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.read(|connection| log::changes(connection, after, limit))
    }

    fn versions(
        &self,
        key: &EntryKey,
        before: Option<u64>,
        limit: usize,
    ) -> Result<VersionPage, StoreError> {
        self.read(|connection| entry_rows::page(connection, key, before, limit))
    }

    fn version(
        &self,
        key: &EntryKey,
        selector: &VersionSelector,
    ) -> Result<FoundVersion, StoreError> {
        self.read(|connection| match entry_rows::entry(connection, key)? {
            Some(entry) => {
                let purpose = SelectionPurpose::Read;
                entry_rows::select(connection, key.kind, &entry, selector, purpose).map(Into::into)
            }
            None => Ok(FoundVersion::Missing),
        })
    }

    fn log(
        &self,
        filter: &LogFilter,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<LogRecord>, StoreError> {
        self.scan(|connection| log::log(connection, filter, before, limit))
    }

    fn log_after(
        &self,
        filter: &LogFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ServedRecord>, StoreError> {
        self.scan(|connection| log::log_after(connection, filter, after, limit))
    }

    fn expired(
        &self,
        retention: &Retention,
        now: Timestamp,
        from: Option<&EntryKey>,
        limit: usize,
    ) -> Result<ExpiredVersions, StoreError> {
        self.scan(|connection| retention::expired(connection, retention, now, from, limit))
    }

    fn expired_size(
        &self,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<CollectionSize, StoreError> {
        self.scan(|connection| retention::expired_size(connection, retention, now))
    }

    fn release_space(&self) -> Result<bool, StoreError> {
        let release = || -> rusqlite::Result<bool> {
            let writer = self.writer.lock();
            let pragma = |name: &str| {
                let sql = format!("PRAGMA {name}");
                writer.connection.query_row(&sql, [], |row| row.get::<_, i64>(0))
            };
            // A file of an earlier release that could not be rewritten keeps its free pages for later writes.
            if pragma("auto_vacuum")? == 0 || pragma("freelist_count")? == 0 {
                return Ok(false);
            }
            writer
                .connection
                .execute_batch(&format!("PRAGMA incremental_vacuum({RELEASED_PAGES})"))?;
            Ok(pragma("freelist_count")? > 0)
        };
        release().map_err(|error| self.error(&error))
    }

    fn state_get(&self, scope: &str, key: &str) -> Result<Option<String>, StoreError> {
        self.read(|connection| rows::state_value(connection, scope, key))
    }

    fn state_page(
        &self,
        scope: &str,
        after: i64,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<StateEntry>, StoreError> {
        self.read(|connection| {
            let sql = "SELECT position, key, value FROM state INDEXED BY state_by_scope
                       WHERE scope = ?1 AND position > ?2 ORDER BY position LIMIT ?3";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(params![scope, after, limit])?;
            let (mut page, mut bytes) = (Vec::new(), 0);
            while bytes <= max_bytes
                && let Some(row) = rows.next()?
            {
                let entry =
                    StateEntry { position: row.get(0)?, key: row.get(1)?, value: row.get(2)? };
                bytes += entry.value.len();
                page.push(entry);
            }
            Ok(page)
        })
    }

    fn state_size(&self, scope: &str) -> Result<(u64, u64), StoreError> {
        self.read(|connection| {
            let sql = "SELECT count(*), coalesce(sum(octet_length(value)), 0) FROM state WHERE scope = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            statement.query_row([scope], |row| Ok((row.get(0)?, row.get(1)?)))
        })
    }

    fn state_scopes(&self) -> Result<Vec<String>, StoreError> {
        self.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT DISTINCT scope FROM state ORDER BY scope")?;
            statement.query_map([], |row| row.get(0))?.collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_waits_for_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(dir.path()).unwrap();
        let writer = store.writer.lock();
        let pragma = |name: &str| {
            let sql = format!("PRAGMA {name}");
            writer.connection.query_row(&sql, [], |row| row.get::<_, rusqlite::types::Value>(0))
        };
        assert_eq!(pragma("journal_mode").unwrap(), "wal".to_owned().into());
        assert_eq!(pragma("synchronous").unwrap(), 2.into(), "2 is FULL");
    }
}
