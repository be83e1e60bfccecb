//! Opening the file: everything that can speak against using it is found out before it is written to.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
    sync::Mutex,
};

use rusqlite::{Connection, OpenFlags};
use skills_core::Timestamp;

use super::{CHECKPOINT_PAGES, SqliteStore, Writer, store_error};
use crate::StoreError;

/// Bumped with every change of the tables; kept in the file's `user_version`.
const SCHEMA_VERSION: i64 = 1;
/// Marks the file as ours: "skil".
const APPLICATION_ID: i64 = 0x736b_696c;

const SCHEMA: &str = include_str!("schema.sql");

/// What makes reading faster and is not part of the tables: a file of before gets it when it is opened.
/// With it, a page of a scope costs as much as the page; without, the whole scope is sorted for each.
const INDEXES: &str = "CREATE INDEX IF NOT EXISTS state_by_scope ON state (scope)";

/// A file up to this size is walked whenever it is opened: it takes some tens of milliseconds.
const WALKED_ALWAYS: u64 = 32 << 20;
/// A file that was not closed in order is walked up to this size, which takes about a second. Beyond it
/// damage shows where it is read.
const WALKED_AFTER_A_CRASH: u64 = 512 << 20;

pub(super) fn open(dir: &Path) -> Result<SqliteStore, StoreError> {
    let io = |action, path: &Path| {
        let path = path.to_owned();
        move |source| StoreError::Io { action, path, source }
    };
    create_dir(dir).map_err(io("create the data directory", dir))?;
    let lock = lock(dir)?;
    let path = dir.join("skills.db");
    let walk = inspect_header(&path)?;
    private_file().open(&path).map_err(io("write to", &path))?;

    let sql = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly) => StoreError::Io {
            action: "write to",
            path: path.clone(),
            source: io::Error::new(io::ErrorKind::PermissionDenied, error.to_string()),
        },
        _ => store_error(&path, &error),
    };
    let connection = Connection::open(&path).map_err(sql)?;
    let version: i64 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sql)?;
    check_version(&path, version)?;
    if version > 0 && walk {
        check_structure(&path, &connection)?;
    }
    configure_writer(&connection).map_err(sql)?;
    if version == 0 {
        create(&connection).map_err(sql)?;
    }
    connection.execute_batch(INDEXES).map_err(sql)?;
    let reader =
        Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(sql)?;
    let writer = Writer::resume(connection).map_err(sql)?;
    Ok(SqliteStore { writer: Mutex::new(writer), reader: Mutex::new(reader), _lock: lock, path })
}

/// Creates what is missing of the directory, for this user alone, and makes sure that it is still there
/// after a power cut.
fn create_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Skills may be public, but what workers keep in the bus state may not.
fn private_file() -> OpenOptions {
    let mut options = File::options();
    options.create(true).truncate(false).write(true).mode(0o600);
    options
}

/// Walks the whole file, which takes a while.
fn check_structure(path: &Path, connection: &Connection) -> Result<(), StoreError> {
    let found = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
        .map_err(|error| store_error(path, &error))?;
    if found == "ok" {
        return Ok(());
    }
    Err(StoreError::Corrupt { path: path.to_owned(), detail: format!("it is malformed: {found}") })
}

/// A lock of our own beside the database: SQLite's would let a second process in between two commits.
fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join("skills.lock");
    let lock = private_file().open(&path).map_err(|source| StoreError::Io {
        action: "write to",
        path: path.clone(),
        source,
    })?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse { path: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(StoreError::Io { action: "lock", path, source }),
    }
}

/// Reads the first hundred bytes ourselves: letting SQLite look would already create files beside it.
/// Tells whether the rest is worth a walk.
fn inspect_header(path: &Path) -> Result<bool, StoreError> {
    let io = |source| StoreError::Io { action: "read", path: path.to_owned(), source };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(io(error)),
    };
    let mut header = Vec::with_capacity(100);
    (&mut file).take(100).read_to_end(&mut header).map_err(io)?;
    if header.is_empty() {
        return Ok(false);
    }
    let corrupt =
        |detail: &str| StoreError::Corrupt { path: path.to_owned(), detail: detail.into() };
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
    check_version(path, user_version)?;
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
    Ok(length <= if has_log { WALKED_AFTER_A_CRASH } else { WALKED_ALWAYS })
}

fn check_version(path: &Path, found: i64) -> Result<(), StoreError> {
    if found <= SCHEMA_VERSION {
        return Ok(());
    }
    Err(StoreError::NewerSchema { path: path.to_owned(), found, supported: SCHEMA_VERSION })
}

fn configure_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         {SCHEMA}
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {SCHEMA_VERSION};
         COMMIT;"
    ))
}

impl Writer {
    /// Takes up the log where it ends.
    fn resume(connection: Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT coalesce(max(revision), 0), coalesce(max(at), 0) FROM change
                   WHERE revision = (SELECT max(revision) FROM change)";
        let (last_revision, last_at) =
            connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self { connection, last_revision, last_at: Timestamp::from_micros(last_at) })
    }
}
