//! The file: opening it, reading from it, and changing it in transactions.
//!
//! Write-ahead log with `synchronous=FULL`: a change has reached the disk when it returns. Unlike the store
//! there is no lock beside it: SQLite's own let the command line in between two changes of a server.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::VaultError;

/// The file's name in a data directory.
const NAME: &str = "vault.sqlite";
/// Bumped with every change of the tables; kept in the file's `user_version`.
const SCHEMA_VERSION: i64 = 2;
/// Marks the file as ours: "skiv".
const APPLICATION_ID: i64 = 0x736b_6976;

const SCHEMA: &str = include_str!("schema.sql");
/// From each version to the next; the first is from 1 to 2.
const STEPS: [&str; 1] = ["ALTER TABLE secret_grant ADD COLUMN origin TEXT"];

/// How long a change waits for those of other processes, which take milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a query or a transaction came to nothing.
pub(crate) enum Stop {
    /// The database said so.
    Sql(rusqlite::Error),
    /// A rule said so.
    Refused(VaultError),
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<VaultError> for Stop {
    fn from(error: VaultError) -> Self {
        Self::Refused(error)
    }
}

/// `vault.sqlite` with a connection that changes it and one that reads.
#[derive(Debug)]
pub(crate) struct VaultFile {
    path: PathBuf,
    /// Closed first: the last connection to go moves the write-ahead log into the file.
    reader: Mutex<Connection>,
    writer: Mutex<Connection>,
}

impl VaultFile {
    pub(crate) fn is_in(dir: &Path) -> bool {
        dir.join(NAME).is_file()
    }

    pub(crate) fn open(dir: &Path) -> Result<Self, VaultError> {
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| VaultError::Io { action, path, source }
        };
        if !dir.is_dir() {
            let mut builder = fs::DirBuilder::new();
            let created = builder.recursive(true).mode(0o700).create(dir);
            created.map_err(io("create the data directory", dir))?;
        }
        let path = dir.join(NAME);
        // Created here, so that nobody else may read it; the files beside it get the same mode.
        let mut options = File::options();
        options.create(true).truncate(false).write(true).mode(0o600);
        options.open(&path).map_err(io("write to", &path))?;
        let (writer, reader) = connect(&path).map_err(|stop| translate(&path, stop))?;
        Ok(Self { path, reader: Mutex::new(reader), writer: Mutex::new(writer) })
    }

    /// One more connection that only reads.
    pub(crate) fn connect_reader(&self) -> Result<Connection, VaultError> {
        connect_reader(&self.path).map_err(|error| self.error(error.into()))
    }

    pub(crate) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Stop>,
    ) -> Result<T, VaultError> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        query(&reader).map_err(|stop| self.error(stop))
    }

    /// Runs a transaction that no other process writes beside; it is undone unless it ends well.
    pub(crate) fn write<T>(
        &self,
        change: impl FnOnce(&mut Transaction<'_>) -> Result<T, Stop>,
    ) -> Result<T, VaultError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let run = || {
            let mut transaction =
                writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let outcome = change(&mut transaction)?;
            transaction.commit()?;
            Ok(outcome)
        };
        run().map_err(|stop| self.error(stop))
    }

    pub(crate) fn error(&self, stop: Stop) -> VaultError {
        translate(&self.path, stop)
    }
}

fn connect(path: &Path) -> Result<(Connection, Connection), Stop> {
    let mut writer = Connection::open(path)?;
    writer.busy_timeout(PATIENCE)?;
    let number = |connection: &Connection, name: &str| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0))
    };
    let version = number(&writer, "user_version")?;
    // A file that was created but never filled has neither mark.
    if (version, number(&writer, "application_id")?) != (0, 0)
        && number(&writer, "application_id")? != APPLICATION_ID
    {
        let detail = "it is a database of another program".to_owned();
        return Err(VaultError::Corrupt { path: path.to_owned(), detail }.into());
    }
    if version > SCHEMA_VERSION {
        let (path, found, supported) = (path.to_owned(), version, SCHEMA_VERSION);
        return Err(VaultError::NewerSchema { path, found, supported }.into());
    }
    writer.pragma_update(None, "journal_mode", "WAL")?;
    writer.pragma_update(None, "synchronous", "FULL")?;
    // What was removed is overwritten.
    writer.pragma_update(None, "secure_delete", "ON")?;
    if version < SCHEMA_VERSION {
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have been here first.
        match number(&transaction, "user_version")? {
            0 => {
                transaction.execute_batch(SCHEMA)?;
                transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            }
            version => {
                let taken = usize::try_from(version - 1).unwrap_or_default();
                for step in STEPS.iter().skip(taken) {
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
    reader.busy_timeout(PATIENCE)?;
    Ok(reader)
}

/// The one place where the engine's errors become ours.
fn translate(path: &Path, stop: Stop) -> VaultError {
    let error = match stop {
        Stop::Refused(error) => return error,
        Stop::Sql(error) => error,
    };
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => VaultError::Full,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => VaultError::Busy { path },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            VaultError::Corrupt { path, detail: error.to_string() }
        }
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => VaultError::Io {
            action: "write to",
            path,
            source: io::Error::new(io::ErrorKind::PermissionDenied, error.to_string()),
        },
        None if matches!(error, rusqlite::Error::FromSqlConversionFailure(..)) => {
            VaultError::Corrupt { path, detail: error.to_string() }
        }
        _ => VaultError::Database(error.to_string()),
    }
}

/// A stored value that cannot be what it says, for rows that are turned into types.
pub(crate) fn unreadable(column: &'static str) -> rusqlite::Error {
    let error = format!("a {column} cannot be read");
    rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, thread};

    use super::*;

    #[test]
    fn a_change_waits_for_the_disk_and_the_files_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("new/data");
        let file = VaultFile::open(&place).unwrap();
        let writer = file.writer.lock().unwrap();
        let pragma = |name: &str| {
            writer.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
        };
        assert_eq!(pragma("journal_mode").unwrap(), "wal".to_owned().into());
        assert_eq!(pragma("synchronous").unwrap(), 2.into(), "2 is FULL");
        assert_eq!(pragma("secure_delete").unwrap(), 1.into());
        for entry in fs::read_dir(&place).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", entry.path().display());
        }
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn many_may_open_a_new_vault_at_once() {
        let dir = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| VaultFile::open(dir.path()).unwrap());
            }
        });
    }

    #[test]
    fn a_vault_of_before_is_brought_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let origin = "    origin     TEXT,            -- NULL until the first call where it was granted without looking at the skill\n";
        let first = SCHEMA.replace(origin, "");
        assert_ne!(first, SCHEMA);
        let old = Connection::open(&path).unwrap();
        old.execute_batch(&first).unwrap();
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
        }
    }

    #[test]
    fn what_is_not_ours_is_named_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let opened = || VaultFile::open(dir.path()).map(|_| ()).unwrap_err();

        fs::write(&path, "no database at all, however long it may be".repeat(50)).unwrap();
        let before = fs::read(&path).unwrap();
        assert_eq!(opened().code(), "vault_corrupt");
        assert_eq!(fs::read(&path).unwrap(), before);

        for (pragma, value, code) in
            [("application_id", 7, "vault_corrupt"), ("user_version", 9, "vault_newer_schema")]
        {
            fs::remove_file(&path).unwrap();
            drop(VaultFile::open(dir.path()).unwrap());
            Connection::open(&path).unwrap().pragma_update(None, pragma, value).unwrap();
            assert_eq!(opened().code(), code, "{pragma}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(opened().code(), "vault_io");
    }
}
