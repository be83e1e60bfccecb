//! Opens the file. All checks come before the first write.

use std::{
    fs::{self, File, TryLockError},
    io::Read as _,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use rusqlite::Connection;
use skills_core::Timestamp;
use skills_sqlite::{
    Access, DatabaseError, check_version, connect, create_private_dir, open_existing_file,
    open_private_file,
};

use super::{
    CHECKPOINT_PAGES, SqliteStore, Writer, blob_readers::BlobReaders, migrate, store_error,
    write::LogEnd,
};
use crate::StoreError;

/// Version of the tables, in the file's `user_version`.
pub(super) const SCHEMA_VERSION: i64 = 2;
/// Marks the file as ours: "skil".
const APPLICATION_ID: i64 = 0x736b_696c;

const SCHEMA: &str = include_str!("schema.sql");

/// Tables of entries and versions.
pub(super) const VERSIONS_SCHEMA: &str = include_str!("versions.sql");

/// Indexes, which older files get when they are opened. With the first, the cost of a page of a scope depends on the page;
/// without it, each page sorts the whole scope. With the others, a lookup of a version by its digest or the author's version
/// does not read all versions of the entry.
const INDEXES: &str = "CREATE INDEX IF NOT EXISTS state_by_scope ON state (scope);
     CREATE INDEX IF NOT EXISTS version_by_digest ON version (entry, digest);
     CREATE INDEX IF NOT EXISTS version_by_author_version ON version (entry, author_version, number)
         WHERE author_version IS NOT NULL;";

/// Largest file whose structure is checked at every start: it takes some tens of milliseconds.
const MAX_CHECKED_BYTES: u64 = 32 << 20;
/// Largest file whose structure is checked after a crash, which takes about a second. In larger files, damage shows where
/// it is read.
const MAX_CHECKED_BYTES_AFTER_CRASH: u64 = 512 << 20;

pub(super) fn open(dir: &Path) -> Result<SqliteStore, StoreError> {
    create_private_dir(dir)?;
    let lock = lock(dir)?;
    let path = dir.join("skills.db");
    let Some(check) = inspect_header(&path)? else {
        create_file(dir, &path)?;
        return open_file(path, lock, false);
    };
    open_file(path, lock, check)
}

/// Creates the database under another name and renames it: a file without content is never ours.
fn create_file(dir: &Path, path: &Path) -> Result<(), StoreError> {
    let draft = dir.join("skills.db.new");
    let _ = fs::remove_file(&draft);
    let _ = fs::remove_file(dir.join("skills.db.new-journal"));
    open_private_file(&draft)?;
    let connection = connect(&draft, Access::Write)?;
    create(&connection).map_err(|error| store_error(path, &error))?;
    drop(connection);
    let renamed = fs::rename(&draft, path).and_then(|()| File::open(dir)?.sync_all());
    Ok(renamed.map_err(|source| DatabaseError::io("create", path, source))?)
}

/// Opens an existing file.
fn open_file(path: PathBuf, lock: File, check: bool) -> Result<SqliteStore, StoreError> {
    open_private_file(&path)?;

    let sql = |error: rusqlite::Error| store_error(&path, &error);
    let mut connection = connect(&path, Access::Write)?;
    let version: i64 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sql)?;
    check_version(&path, version, SCHEMA_VERSION)?;
    if version > 0 && check {
        check_structure(&path, &connection)?;
    }
    configure_writer(&connection).map_err(sql)?;
    match version {
        0 => create(&connection).map_err(sql)?,
        1 => {
            migrate::from_version_1(&mut connection).map_err(sql)?;
            migrate::enable_vacuum(&connection);
        }
        _ => {}
    }
    connection.execute_batch(INDEXES).map_err(sql)?;
    let reader = Mutex::new(connect(&path, Access::Read)?);
    let history_reader = Mutex::new(connect(&path, Access::Read)?);
    let blob_readers = BlobReaders::open(|| connect(&path, Access::Read))?;
    let writer = Mutex::new(Writer::resume(connection).map_err(sql)?);
    Ok(SqliteStore { path, reader, history_reader, blob_readers, writer, _lock: lock })
}

/// Checks the structure of the whole file.
fn check_structure(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let found = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
        .map_err(|error| store_error(path, &error))?;
    if found == "ok" {
        return Ok(());
    }
    let detail = format!("it is malformed: {found}");
    Err(DatabaseError::Corrupt { path: path.to_owned(), detail }.into())
}

/// Locks the directory with a file of its own: SQLite's lock would let a second process in between two commits.
fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join("skills.lock");
    let lock = open_private_file(&path)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: dir.to_owned() }),
        Err(TryLockError::Error(source)) => {
            Err(DatabaseError::Io { action: "lock", path, source }.into())
        }
    }
}

/// Checks the first hundred bytes without SQLite, which would create files beside it. Returns whether the structure should
/// be checked; `None` if there is no file.
fn inspect_header(path: &Path) -> Result<Option<bool>, DatabaseError> {
    let io = |source| DatabaseError::io("read", path, source);
    let Some(mut file) = open_existing_file(path)? else { return Ok(None) };
    let mut header = Vec::with_capacity(100);
    (&mut file).take(100).read_to_end(&mut header).map_err(io)?;
    let corrupt =
        |detail: &str| DatabaseError::Corrupt { path: path.to_owned(), detail: detail.into() };
    if header.is_empty() {
        return Err(corrupt("it is empty"));
    }
    if header.len() < 100 || !header.starts_with(b"SQLite format 3\0") {
        return Err(corrupt("it is not an SQLite database"));
    }
    let number = |at: usize| {
        header[at..at + 4].iter().fold(0, |number, byte| (number << 8) | i64::from(*byte))
    };
    let (page_count, change_counter, valid_for, user_version, application_id) =
        (number(28), number(24), number(92), number(60), number(68));
    // A file that was created but never filled has neither mark.
    if (user_version, application_id) != (0, 0) && application_id != APPLICATION_ID {
        return Err(corrupt("it is a database of another program"));
    }
    check_version(path, user_version, SCHEMA_VERSION)?;
    let page_size = match (i64::from(header[16]) << 8) | i64::from(header[17]) {
        1 => 65_536,
        size => size,
    };
    let length = file.metadata().map_err(io)?.len();
    let expected = u64::try_from(page_count * page_size).unwrap_or_default();
    // After a crash in a checkpoint the header may be ahead of the pages; they are in the log then.
    let log = path.with_extension("db-wal");
    let has_log = fs::metadata(log).is_ok_and(|log| log.len() > 0);
    if change_counter == valid_for && length < expected && !has_log {
        return Err(corrupt(&format!("it is cut off: {length} bytes where {expected} are due")));
    }
    Ok(Some(length <= if has_log { MAX_CHECKED_BYTES_AFTER_CRASH } else { MAX_CHECKED_BYTES }))
}

fn configure_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "PRAGMA auto_vacuum = INCREMENTAL;
         BEGIN IMMEDIATE;
         {SCHEMA}
         {VERSIONS_SCHEMA}
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {SCHEMA_VERSION};
         COMMIT;"
    ))
}

impl Writer {
    /// Creates a writer that continues the change log.
    fn resume(connection: Connection) -> rusqlite::Result<Self> {
        let end = log_end(&connection)?;
        Ok(Self { connection, end })
    }
}

/// Reads the end of the change log.
pub(super) fn log_end(connection: &Connection) -> rusqlite::Result<LogEnd> {
    let sql = "SELECT coalesce(max(revision), 0), coalesce(max(at), 0) FROM change
               WHERE revision = (SELECT max(revision) FROM change)";
    let (last_revision, last_at) =
        connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(LogEnd { revision: last_revision, at: Timestamp::from_micros(last_at) })
}

#[cfg(test)]
mod tests {
    use rusqlite::config::DbConfig;

    use super::*;

    #[test]
    fn every_connection_distrusts_the_schema_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).unwrap();
        let (reader, history_reader) = (store.reader.lock(), store.history_reader.lock());
        let writer = store.writer.lock();
        let blob_readers: Vec<_> = store.blob_readers.lock_all().collect();
        assert!(!blob_readers.is_empty());
        let connections = [&*reader, &*history_reader, &writer.connection].into_iter();
        for connection in connections.chain(blob_readers.iter().map(|reader| &**reader)) {
            let is_set = |config| connection.db_config(config).unwrap();
            assert!(!is_set(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA));
            assert!(is_set(DbConfig::SQLITE_DBCONFIG_DEFENSIVE));
        }
    }
}
