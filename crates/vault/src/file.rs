//! `vault.sqlite`: opening, reading, and transactions.
//!
//! Write-ahead log with `synchronous=FULL`: a change has reached the disk when the call returns. Unlike the store there is
//! no lock file: SQLite's locks let the command line write between two changes of a server.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use skills_sqlite::{DatabaseError, check_version, create_private_dir, harden, open_private_file};

use crate::VaultError;

/// Name of the file in a data directory.
const FILE_NAME: &str = "vault.sqlite";
/// Schema version, stored in `user_version`.
const SCHEMA_VERSION: i64 = 3;
/// SQLite application id: "skiv".
const APPLICATION_ID: i64 = 0x736b_6976;

const SCHEMA: &str = include_str!("schema.sql");
/// Migrations from each version to the next; the first is from 1 to 2.
const MIGRATIONS: [&str; 2] = [
    "ALTER TABLE secret_grant ADD COLUMN origin TEXT",
    "CREATE TABLE search_miss (
         day INTEGER NOT NULL, query TEXT NOT NULL, caller BLOB NOT NULL, count INTEGER NOT NULL,
         last_at INTEGER NOT NULL, PRIMARY KEY (day, query, caller)
     ) STRICT, WITHOUT ROWID",
];

/// Longest wait for the lock of another process, which holds it for milliseconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two attempts to open a file that is busy.
const BUSY_RETRY: Duration = Duration::from_millis(5);

/// Error of a query or a transaction.
pub(crate) enum TxError {
    /// Error of the database.
    Sql(rusqlite::Error),
    /// A rule of the vault was broken.
    Rejected(VaultError),
}

impl From<rusqlite::Error> for TxError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<DatabaseError> for TxError {
    fn from(error: DatabaseError) -> Self {
        Self::Rejected(error.into())
    }
}

impl From<VaultError> for TxError {
    fn from(error: VaultError) -> Self {
        Self::Rejected(error)
    }
}

/// `vault.sqlite` with one writing and one reading connection.
#[derive(Debug)]
pub(crate) struct VaultFile {
    path: PathBuf,
    /// Declared first, so closed first: the last connection to close checkpoints the write-ahead log.
    reader: Mutex<Connection>,
    writer: Mutex<Connection>,
    /// Number of attempted writes.
    writes: AtomicU64,
}

impl VaultFile {
    pub(crate) fn exists_in(dir: &Path) -> bool {
        dir.join(FILE_NAME).is_file()
    }

    pub(crate) fn open(dir: &Path) -> Result<Self, VaultError> {
        create_private_dir(dir)?;
        let path = dir.join(FILE_NAME);
        open_private_file(&path)?;
        let (writer, reader) = connect_when_free(&path)?;
        let (reader, writer) = (Mutex::new(reader), Mutex::new(writer));
        Ok(Self { path, reader, writer, writes: AtomicU64::new(0) })
    }

    /// Opens another reading connection.
    pub(crate) fn connect_reader(&self) -> Result<Connection, VaultError> {
        connect_reader(&self.path).map_err(|error| self.error(error.into()))
    }

    pub(crate) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, TxError>,
    ) -> Result<T, VaultError> {
        let reader = self.reader.lock();
        query(&reader).map_err(|error| self.error(error))
    }

    /// Runs an exclusive write transaction and rolls it back on an error.
    pub(crate) fn write<T>(
        &self,
        change: impl FnOnce(&mut Transaction<'_>) -> Result<T, TxError>,
    ) -> Result<T, VaultError> {
        let mut writer = self.writer.lock();
        let run = || {
            let mut transaction =
                writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let outcome = change(&mut transaction)?;
            transaction.commit()?;
            Ok(outcome)
        };
        let outcome = run();
        // Also after an error: a commit may have succeeded before it.
        self.writes.fetch_add(1, Ordering::Release);
        outcome.map_err(|error| self.error(error))
    }

    /// Returns a number that changes with every write through this value, before the write returns.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Acquire)
    }

    /// Makes every write fail, as on a full disk.
    #[cfg(test)]
    pub(crate) fn set_read_only(&self, read_only: bool) {
        let writer = self.writer.lock();
        writer.pragma_update(None, "query_only", read_only).unwrap();
    }

    pub(crate) fn error(&self, error: TxError) -> VaultError {
        map_error(&self.path, error)
    }
}

/// Connects, and tries again while another process creates or closes the file: SQLite does not wait for the lock that a
/// change of the journal mode needs, whatever the busy timeout.
fn connect_when_free(path: &Path) -> Result<(Connection, Connection), VaultError> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connect(path).map_err(|error| map_error(path, error)) {
            Err(VaultError::Database(DatabaseError::Busy { .. })) if Instant::now() < deadline => {
                thread::sleep(BUSY_RETRY);
            }
            outcome => return outcome,
        }
    }
}

fn connect(path: &Path) -> Result<(Connection, Connection), TxError> {
    let mut writer = Connection::open(path)?;
    harden(&writer)?;
    writer.busy_timeout(BUSY_TIMEOUT)?;
    let number = |connection: &Connection, name: &str| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0))
    };
    let version = number(&writer, "user_version")?;
    // A new, empty file has neither number.
    if (version, number(&writer, "application_id")?) != (0, 0)
        && number(&writer, "application_id")? != APPLICATION_ID
    {
        let detail = "it is the database of another program".to_owned();
        return Err(DatabaseError::Corrupt { path: path.to_owned(), detail }.into());
    }
    check_version(path, version, SCHEMA_VERSION)?;
    writer.pragma_update(None, "journal_mode", "WAL")?;
    writer.pragma_update(None, "synchronous", "FULL")?;
    // Deleted content is overwritten.
    writer.pragma_update(None, "secure_delete", "ON")?;
    if version < SCHEMA_VERSION {
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have migrated the file meanwhile.
        match number(&transaction, "user_version")? {
            0 => {
                transaction.execute_batch(SCHEMA)?;
                transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            }
            version => {
                let done = usize::try_from(version - 1).unwrap_or_default();
                for step in MIGRATIONS.iter().skip(done) {
                    transaction.execute_batch(step)?;
                }
            }
        }
        transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        transaction.commit()?;
    }
    Ok((writer, connect_reader(path)?))
}

fn connect_reader(path: &Path) -> rusqlite::Result<Connection> {
    let reader = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    harden(&reader)?;
    reader.busy_timeout(BUSY_TIMEOUT)?;
    Ok(reader)
}

/// Maps errors of SQLite to errors of the vault.
fn map_error(path: &Path, error: TxError) -> VaultError {
    match error {
        TxError::Rejected(error) => error,
        TxError::Sql(error) => DatabaseError::new(path, &error).into(),
    }
}

/// Creates the error for a column whose stored value is invalid.
pub(crate) fn corrupt_column(column: &'static str) -> rusqlite::Error {
    let error = format!("a stored {column} is invalid");
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use rusqlite::config::DbConfig;
    use skills_core::Coded as _;

    use super::*;

    #[test]
    fn changes_are_flushed_and_the_files_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().join("new/data");
        let file = VaultFile::open(&data_dir).unwrap();
        let writer = file.writer.lock();
        let pragma = |name: &str| {
            writer.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
        };
        assert_eq!(pragma("journal_mode").unwrap(), "wal".to_owned().into());
        assert_eq!(pragma("synchronous").unwrap(), 2.into(), "2 is FULL");
        assert_eq!(pragma("secure_delete").unwrap(), 1.into());
        for entry in fs::read_dir(&data_dir).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", entry.path().display());
        }
        assert_eq!(fs::metadata(&data_dir).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn every_connection_is_hardened_against_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = VaultFile::open(dir.path()).unwrap();
        let further = file.connect_reader().unwrap();
        let (reader, writer) = (file.reader.lock(), file.writer.lock());
        for connection in [&further, &*reader, &*writer] {
            let is_set = |config| connection.db_config(config).unwrap();
            assert!(!is_set(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA));
            assert!(is_set(DbConfig::SQLITE_DBCONFIG_DEFENSIVE));
        }
    }

    #[test]
    fn several_processes_can_create_a_vault_at_once() {
        let dir = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| VaultFile::open(dir.path()).unwrap());
            }
        });
    }

    #[test]
    fn an_older_vault_is_migrated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        let without_origin = |line: &&str| !line.trim_start().starts_with("origin ");
        let first = SCHEMA.lines().filter(without_origin).collect::<Vec<_>>().join("\n");
        assert_eq!(first.lines().count(), SCHEMA.lines().count() - 1);
        let old = Connection::open(&path).unwrap();
        old.execute_batch(&first).unwrap();
        old.execute("DROP TABLE search_miss", []).unwrap();
        old.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        old.execute("INSERT INTO secret_grant VALUES ('ann', 'echo', 'A', 7)", []).unwrap();
        drop(old);
        for _ in 0..2 {
            let file = VaultFile::open(dir.path()).unwrap();
            let read = file.read(|connection| {
                let sql = "SELECT owner, origin FROM secret_grant";
                Ok(connection.query_row(sql, [], |row| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
                })?)
            });
            assert_eq!(read.unwrap(), ("ann".to_owned(), None));
            let misses = file.read(|connection| {
                let sql = "SELECT count(*) FROM search_miss";
                Ok(connection.query_row(sql, [], |row| row.get::<_, u64>(0))?)
            });
            assert_eq!(misses.unwrap(), 0);
        }
    }

    #[test]
    fn a_foreign_file_is_reported_and_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        let opened = || VaultFile::open(dir.path()).map(|_| ()).unwrap_err();

        fs::write(&path, "no database at all, however long it may be".repeat(50)).unwrap();
        let before = fs::read(&path).unwrap();
        assert_eq!(opened().code().as_str(), "vault_corrupt");
        assert_eq!(fs::read(&path).unwrap(), before);

        for (pragma, value, code) in
            [("application_id", 7, "vault_corrupt"), ("user_version", 9, "vault_newer_schema")]
        {
            fs::remove_file(&path).unwrap();
            drop(VaultFile::open(dir.path()).unwrap());
            Connection::open(&path).unwrap().pragma_update(None, pragma, value).unwrap();
            assert_eq!(opened().code().as_str(), code, "{pragma}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(opened().code().as_str(), "vault_io");
    }
}
