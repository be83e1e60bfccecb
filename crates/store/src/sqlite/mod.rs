//! A durable store in one SQLite file.
//!
//! - `open`: finding out whether the file may be used, before anything is written
//! - `schema.sql`: the tables
//! - `write`: carrying out a batch inside a transaction
//! - `rows`: from rows to the model
//!
//! Write-ahead log with `synchronous=FULL`: a commit has reached the disk when it returns. One
//! connection writes, another reads, so that a read never waits for a write.

mod open;
mod rows;
mod write;

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, params};
use skills_core::{Digest, Timestamp};

use crate::{Batch, Change, Entry, GroupOutcome, StateEntry, Store, StoreError};

/// After how many pages in the write-ahead log they are moved into the database file.
const CHECKPOINT_PAGES: i64 = 2000;

/// The store in `DIR/skills.db`.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    /// Closed first: the last connection to go moves the write-ahead log into the file, and this one
    /// cannot write.
    reader: Mutex<Connection>,
    writer: Mutex<Writer>,
    /// Held for as long as the store is open; the lock goes with the process.
    _lock: File,
}

#[derive(Debug)]
struct Writer {
    connection: Connection,
    last_revision: u64,
    last_at: Timestamp,
}

impl SqliteStore {
    /// Opens the store in a directory, creating both when they are not there.
    ///
    /// # Errors
    /// When the directory cannot be used, another process holds it, or the file is damaged or newer
    /// than this program; the file is then as it was.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        open::open(dir)
    }

    /// The database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bounds the size of the database file; a commit that would pass it fails as on a full disk.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub fn limit_bytes(&self, bytes: u64) -> Result<(), StoreError> {
        let limit = || {
            let writer = self.writer();
            let page_size: u64 =
                writer.connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
            let pages = (bytes / page_size).max(1);
            let sql = format!("PRAGMA max_page_count = {pages}");
            writer.connection.query_row(&sql, [], |_| Ok(()))
        };
        limit().map_err(|error| self.error(&error))
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        query(&reader).map_err(|error| self.error(&error))
    }

    fn error(&self, error: &rusqlite::Error) -> StoreError {
        store_error(&self.path, error)
    }
}

/// The one place where the engine's errors become ours.
fn store_error(path: &Path, error: &rusqlite::Error) -> StoreError {
    let corrupt = || StoreError::Corrupt { path: path.to_owned(), detail: error.to_string() };
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => corrupt(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::InUse { path: path.parent().unwrap_or(path).to_owned() }
        }
        None if matches!(error, rusqlite::Error::FromSqlConversionFailure(..)) => corrupt(),
        _ => StoreError::Database(error.to_string()),
    }
}

impl Store for SqliteStore {
    fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        self.read(|connection| {
            let sql = "SELECT c.revision, c.at, c.actor, c.kind, c.tier, c.owner, c.id, c.before, c.content
                       FROM entry e JOIN change c USING (revision)";
            let mut statement = connection.prepare(sql)?;
            statement.query_map([], rows::entry)?.collect()
        })
    }

    fn revision(&self) -> Result<u64, StoreError> {
        self.read(|connection| {
            let sql = "SELECT coalesce(max(revision), 0) FROM change";
            connection.query_row(sql, [], |row| row.get(0))
        })
    }

    fn commit(&self, group: Vec<Batch>, now: Timestamp) -> Result<GroupOutcome, StoreError> {
        self.writer().commit(group, now).map_err(|error| self.error(&error))
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        self.read(|connection| {
            let sql = "SELECT bytes, crc32 FROM blob WHERE digest = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let stored = |row: &Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, u32>(1)?));
            statement.query_row([digest.as_bytes()], stored).optional()
        })
        .and_then(|stored| match stored {
            Some((bytes, crc32)) if crc32fast::hash(&bytes) != crc32 => Err(StoreError::Corrupt {
                path: self.path.clone(),
                detail: format!("the body {digest} is damaged"),
            }),
            stored => Ok(stored.map(|(bytes, _)| Bytes::from(bytes))),
        })
    }

    fn changes(&self, after: u64, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.read(|connection| {
            let sql = "SELECT revision, at, actor, kind, tier, owner, id, before, content
                       FROM change WHERE revision > ?1 ORDER BY revision LIMIT ?2";
            let mut statement = connection.prepare_cached(sql)?;
            statement.query_map(params![after, limit], rows::change)?.collect()
        })
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
        let writer = store.writer();
        let pragma = |name: &str| {
            let sql = format!("PRAGMA {name}");
            writer.connection.query_row(&sql, [], |row| row.get::<_, rusqlite::types::Value>(0))
        };
        assert_eq!(pragma("journal_mode").unwrap(), "wal".to_owned().into());
        assert_eq!(pragma("synchronous").unwrap(), 2.into(), "2 is FULL");
    }
}
