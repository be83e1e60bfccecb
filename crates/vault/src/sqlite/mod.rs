//! Vault in `vault.sqlite`, beside the store.
//!
//! Write-ahead log with `synchronous=FULL`: a change has reached the disk when the call returns. Unlike the store there is
//! no lock file: SQLite's locks let the command line write between two changes of a server.

mod keys;
mod logs;
mod open;
mod secrets;

pub(crate) use open::SCHEMA_VERSION;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rusqlite::{Connection, Params, Row, TransactionBehavior};
use skills_core::Digest;
use skills_sqlite::{DatabaseError, create_private_dir, open_private_file};

use crate::{
    VaultError,
    backend::{KeyChanges, StoredKey, Tables, TablesFn, VaultBackend},
};

/// Name of the file in a data directory.
pub(crate) const FILE_NAME: &str = "vault.sqlite";

/// Time for which the file is taken to be unchanged by other processes. Asking SQLite for a change costs as much as the
/// rest of a small request.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// `vault.sqlite` with one writing and two reading connections.
#[derive(Debug)]
pub(crate) struct SqliteBackend {
    path: PathBuf,
    key_reader: Mutex<KeyReader>,
    /// Declared before the writer, so closed first: the last connection to close checkpoints the write-ahead log.
    reader: Mutex<Connection>,
    pub(crate) writer: Mutex<Connection>,
    /// Number of attempted writes. It changes with every write through this value, before the write returns.
    writes: AtomicU64,
}

/// Connection that keys are looked up with. A connection of its own: its `data_version` counts the changes of all others,
/// also in this process.
#[derive(Debug)]
struct KeyReader {
    connection: Connection,
    version: i64,
    /// Time of the last check of the file, and the number of writes before it.
    checked: Option<(Instant, u64)>,
}

impl SqliteBackend {
    /// Returns whether a data directory has a vault.
    pub(crate) fn exists_in(dir: &Path) -> bool {
        dir.join(FILE_NAME).is_file()
    }

    /// Opens the vault of a data directory and creates both if they are missing.
    pub(crate) fn open(dir: &Path) -> Result<Self, VaultError> {
        create_private_dir(dir)?;
        let path = dir.join(FILE_NAME);
        open_private_file(&path)?;
        let (writer, reader) = open::connect_when_free(&path)?;
        let connection = open::connect_reader(&path)?;
        let key_reader = Mutex::new(KeyReader { connection, version: 0, checked: None });
        let (reader, writer) = (Mutex::new(reader), Mutex::new(writer));
        Ok(Self { path, key_reader, reader, writer, writes: AtomicU64::new(0) })
    }

    fn tables<'a>(&'a self, connection: &'a Connection) -> SqliteTables<'a> {
        SqliteTables { connection, path: &self.path }
    }

    fn error(&self, error: &rusqlite::Error) -> VaultError {
        DatabaseError::new(&self.path, error).into()
    }
}

impl VaultBackend for SqliteBackend {
    fn with_reader(&self, run: &mut TablesFn<'_>) -> Result<(), VaultError> {
        let reader = self.reader.lock();
        run(&mut self.tables(&reader))
    }

    fn with_transaction(&self, run: &mut TablesFn<'_>) -> Result<(), VaultError> {
        let mut writer = self.writer.lock();
        let mut run = || {
            let transaction = writer
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(|error| self.error(&error))?;
            run(&mut self.tables(&transaction))?;
            transaction.commit().map_err(|error| self.error(&error))
        };
        let outcome = run();
        // Also after an error: a commit may have succeeded before it.
        self.writes.fetch_add(1, Ordering::Release);
        outcome
    }

    fn stored_key(&self, hash: &Digest) -> Result<Option<StoredKey>, VaultError> {
        let reader = self.key_reader.lock();
        keys::stored_key(&reader.connection, hash).map_err(|error| self.error(&error))
    }

    fn key_changes(&self) -> Result<KeyChanges, VaultError> {
        let mut reader = self.key_reader.lock();
        let (now, writes) = (Instant::now(), self.writes.load(Ordering::Acquire));
        let is_fresh = |(at, seen): (Instant, u64)| seen == writes && now - at < CHECK_INTERVAL;
        if reader.checked.is_some_and(is_fresh) {
            return Ok(KeyChanges::None);
        }
        // Changes with every commit of another connection.
        let version = reader
            .connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
            .map_err(|error| self.error(&error))?;
        reader.checked = Some((now, writes));
        if reader.version == version {
            return Ok(KeyChanges::None);
        }
        reader.version = version;
        Ok(KeyChanges::All)
    }

    #[cfg(test)]
    fn set_read_only(&self, read_only: bool) {
        let writer = self.writer.lock();
        writer.pragma_update(None, "query_only", read_only).unwrap();
    }
}

/// Tables of `vault.sqlite` on one connection.
struct SqliteTables<'a> {
    connection: &'a Connection,
    path: &'a Path,
}

impl SqliteTables<'_> {
    fn run<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, VaultError> {
        query(self.connection).map_err(|error| DatabaseError::new(self.path, &error).into())
    }

    /// Executes a statement and returns the number of changed rows.
    fn execute(&self, sql: &str, params: impl Params) -> Result<usize, VaultError> {
        self.run(|connection| connection.prepare_cached(sql)?.execute(params))
    }

    fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        convert: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, VaultError> {
        self.run(|connection| connection.prepare_cached(sql)?.query_map(params, convert)?.collect())
    }

    fn count(&self, sql: &str, params: impl Params) -> Result<usize, VaultError> {
        self.run(|connection| connection.prepare_cached(sql)?.query_row(params, |row| row.get(0)))
    }
}

impl Tables for SqliteTables<'_> {
    fn begin_savepoint(&mut self) -> Result<(), VaultError> {
        self.execute("SAVEPOINT part", []).map(drop)
    }

    fn end_savepoint(&mut self, keep: bool) -> Result<(), VaultError> {
        if !keep {
            self.execute("ROLLBACK TO part", [])?;
        }
        self.execute("RELEASE part", []).map(drop)
    }

    fn prepare_commit(&mut self) -> Result<(), VaultError> {
        // The changed pages are written.
        self.run(Connection::cache_flush)
    }
}

/// Creates the error for a column whose stored value is invalid.
fn corrupt_column(column: &'static str) -> rusqlite::Error {
    let error = format!("a stored {column} is invalid");
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
}
