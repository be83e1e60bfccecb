//! Opening of `vault.sqlite`: connections, schema and migrations.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, TransactionBehavior};
use skills_sqlite::{Access, DatabaseError, check_version};

use crate::VaultError;

/// Schema version, stored in `user_version`.
pub(crate) const SCHEMA_VERSION: i64 = 3;
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

/// Error while a connection is opened.
enum OpenError {
    Sql(rusqlite::Error),
    Rejected(DatabaseError),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<DatabaseError> for OpenError {
    fn from(error: DatabaseError) -> Self {
        Self::Rejected(error)
    }
}

impl OpenError {
    fn into_database_error(self, path: &Path) -> DatabaseError {
        match self {
            Self::Sql(error) => DatabaseError::new(path, &error),
            Self::Rejected(error) => error,
        }
    }
}

/// Connects, and tries again while another process creates or closes the file: SQLite does not wait for the lock that a
/// change of the journal mode needs, whatever the busy timeout.
pub(super) fn connect_when_free(path: &Path) -> Result<(Connection, Connection), VaultError> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connect(path).map_err(|error| error.into_database_error(path)) {
            Err(DatabaseError::Busy { .. }) if Instant::now() < deadline => {
                thread::sleep(BUSY_RETRY);
            }
            outcome => return Ok(outcome?),
        }
    }
}

fn connect(path: &Path) -> Result<(Connection, Connection), OpenError> {
    let mut writer = skills_sqlite::connect(path, Access::Write)?;
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

/// Opens a connection for reading.
pub(super) fn connect_reader(path: &Path) -> Result<Connection, DatabaseError> {
    let reader = skills_sqlite::connect(path, Access::Read)?;
    reader.busy_timeout(BUSY_TIMEOUT).map_err(|error| DatabaseError::new(path, &error))?;
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use rusqlite::config::DbConfig;
    use skills_core::Coded as _;

    use super::{
        super::{FILE_NAME, SqliteBackend},
        *,
    };

    #[test]
    fn changes_are_flushed_and_the_files_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().join("new/data");
        let file = SqliteBackend::open(&data_dir).unwrap();
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
        let file = SqliteBackend::open(dir.path()).unwrap();
        let (keys, reader) = (file.key_reader.lock(), file.reader.lock());
        let writer = file.writer.lock();
        for connection in [&keys.connection, &*reader, &*writer] {
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
                scope.spawn(|| SqliteBackend::open(dir.path()).unwrap());
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
            let file = SqliteBackend::open(dir.path()).unwrap();
            let read =
                file.reader.lock().query_row("SELECT owner, origin FROM secret_grant", [], |row| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
                });
            assert_eq!(read.unwrap(), ("ann".to_owned(), None));
            let misses =
                file.reader
                    .lock()
                    .query_row("SELECT count(*) FROM search_miss", [], |row| row.get::<_, u64>(0));
            assert_eq!(misses.unwrap(), 0);
        }
    }

    #[test]
    fn a_foreign_file_is_reported_and_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        let opened = || SqliteBackend::open(dir.path()).map(|_| ()).unwrap_err();

        fs::write(&path, "no database at all, however long it may be".repeat(50)).unwrap();
        let before = fs::read(&path).unwrap();
        assert_eq!(opened().code().as_str(), "vault_corrupt");
        assert_eq!(fs::read(&path).unwrap(), before);

        for (pragma, value, code) in
            [("application_id", 7, "vault_corrupt"), ("user_version", 9, "vault_newer_schema")]
        {
            fs::remove_file(&path).unwrap();
            drop(SqliteBackend::open(dir.path()).unwrap());
            Connection::open(&path).unwrap().pragma_update(None, pragma, value).unwrap();
            assert_eq!(opened().code().as_str(), code, "{pragma}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(opened().code().as_str(), "vault_io");
    }
}
