//! Rules that the SQLite files of store and vault share: private files, hardened connections, errors.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig, ffi::SQLITE_IOERR_SHMSIZE};
use rustix::fs::OFlags;

/// Endings of the files that SQLite keeps beside a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Error of a database file, which is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// Another process holds the lock.
    #[error("{} is locked by another process", path.display())]
    Busy {
        /// Database file.
        path: PathBuf,
    },
    /// The file was written by a newer version of this program.
    #[error(
        "{} has schema version {found}; this program supports versions up to {supported}",
        path.display()
    )]
    NewerSchema {
        /// Database file.
        path: PathBuf,
        /// Version of the file.
        found: i64,
        /// Newest supported version.
        supported: i64,
    },
    /// The file is damaged, or is not one of ours.
    #[error("{} cannot be used: {detail}", path.display())]
    Corrupt {
        /// Database file.
        path: PathBuf,
        /// Damage.
        detail: String,
    },
    /// The directory or file cannot be created, read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// Attempted action.
        action: &'static str,
        /// Directory or file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A link, a pipe, a socket or a device is in place of a file. It is neither followed nor read.
    #[error("cannot open {}: {}", path.display(), if *is_link { "it is a link" } else { "it is not a regular file" })]
    Special {
        /// File.
        path: PathBuf,
        /// Whether it is a link.
        is_link: bool,
    },
    /// The disk is full.
    #[error("no space left on the disk of {}; nothing was changed", path.display())]
    DiskFull {
        /// Directory or file.
        path: PathBuf,
    },
    /// Other error of the database engine.
    #[error("database error: {0}")]
    Other(String),
}

impl DatabaseError {
    /// Converts an error of SQLite about a file.
    #[must_use]
    pub fn new(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull { path },
            // The memory that processes share is a file too.
            _ if is_shared_memory_full(error) => Self::DiskFull { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Corrupt { path, detail: error.to_string() }
            }
            Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => Self::Io {
                action: "write to",
                path,
                source: io::Error::new(io::ErrorKind::PermissionDenied, error.to_string()),
            },
            None if matches!(error, rusqlite::Error::FromSqlConversionFailure(..)) => {
                Self::Corrupt { path, detail: error.to_string() }
            }
            _ => Self::Other(error.to_string()),
        }
    }

    /// Converts an error of an operation on a file; a full disk has an error of its own.
    #[must_use]
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path: path.to_owned() }
            }
            _ => Self::Io { action, path: path.to_owned(), source },
        }
    }

    /// Returns the next step for the user.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Busy { .. } => Some("try again"),
            Self::NewerSchema { .. } => {
                Some("use the newer version of this program, or another --data-dir")
            }
            Self::Corrupt { .. } => Some(
                "restore the file from a backup, or use another --data-dir; the file was not changed",
            ),
            Self::Io { .. } => Some("check that the directory exists and is writable"),
            Self::Special { .. } => Some(
                "find out who put it there; then remove it, or give another directory with --data-dir",
            ),
            Self::DiskFull { .. } => Some("free some space and try again"),
            Self::Other(_) => None,
        }
    }
}

/// Returns whether SQLite found no space for the file beside a database that its processes map.
fn is_shared_memory_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == SQLITE_IOERR_SHMSIZE)
}

/// Checks that a file has no newer schema than the program supports.
///
/// # Errors
/// [`DatabaseError::NewerSchema`].
pub fn check_version(path: &Path, found: i64, supported: i64) -> Result<(), DatabaseError> {
    if found > supported {
        return Err(DatabaseError::NewerSchema { path: path.to_owned(), found, supported });
    }
    Ok(())
}

/// Access of a connection to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The file is read.
    Read,
    /// The file, which exists, is read and written.
    Write,
}

/// Opens a connection to a file and hardens it against the file, which another program may have written: functions and
/// virtual tables with side effects cannot be reached from its schema, and SQL cannot damage the file format. Neither the
/// file nor the files that SQLite creates beside it may be links, which would lead to files elsewhere.
///
/// # Errors
/// When the file or one beside it is not a regular file, or SQLite cannot open it.
pub fn connect(path: &Path, access: Access) -> Result<Connection, DatabaseError> {
    let sql = |error| DatabaseError::new(path, &error);
    check_companions(path)?;
    // The directory may be reached through a link. SQLite refuses links in the whole path.
    let open_error = |source| DatabaseError::io("open", path, source);
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| open_error(io::ErrorKind::InvalidInput.into()))?;
    let resolved = fs::canonicalize(dir).map_err(open_error)?.join(name);
    let access = match access {
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(resolved, flags).map_err(sql)?;
    harden(&connection).map_err(sql)?;
    Ok(connection)
}

fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    Ok(())
}

/// Checks the files beside a database: SQLite follows no link there, but its error does not say so.
fn check_companions(path: &Path) -> Result<(), DatabaseError> {
    for suffix in COMPANIONS {
        let mut companion = path.as_os_str().to_owned();
        companion.push(suffix);
        let companion = PathBuf::from(companion);
        match fs::symlink_metadata(&companion) {
            Ok(metadata) => check_regular(&companion, &metadata)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(DatabaseError::io("open", &companion, error)),
        }
    }
    Ok(())
}

/// Refuses anything but a regular file.
fn check_regular(path: &Path, metadata: &Metadata) -> Result<(), DatabaseError> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(DatabaseError::Special { path: path.to_owned(), is_link: metadata.is_symlink() })
}

/// Creates a data directory for this user alone, durably, unless it exists.
///
/// # Errors
/// [`DatabaseError::Io`], [`DatabaseError::DiskFull`].
pub fn create_private_dir(dir: &Path) -> Result<(), DatabaseError> {
    if dir.is_dir() {
        return Ok(());
    }
    let create = || {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    };
    create().map_err(|source| DatabaseError::io("create the data directory", dir, source))
}

/// Opens a file of this user alone, and creates it if it is missing. SQLite copies its mode to the files beside it.
///
/// # Errors
/// [`DatabaseError::Special`], [`DatabaseError::Io`], [`DatabaseError::DiskFull`].
pub fn open_private_file(path: &Path) -> Result<File, DatabaseError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    open_regular(path, &mut options, "write to")
}

/// Opens a file for reading; `None` if it does not exist.
///
/// # Errors
/// [`DatabaseError::Special`], [`DatabaseError::Io`].
pub fn open_existing_file(path: &Path) -> Result<Option<File>, DatabaseError> {
    match open_regular(path, OpenOptions::new().read(true), "read") {
        Ok(file) => Ok(Some(file)),
        Err(DatabaseError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Opens a regular file without following a link, so that nothing is created elsewhere, and without waiting for the other
/// end of a pipe.
fn open_regular(
    path: &Path,
    options: &mut OpenOptions,
    action: &'static str,
) -> Result<File, DatabaseError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) => {
            // A link, or a pipe that no process reads.
            if let Ok(metadata) = fs::symlink_metadata(path) {
                check_regular(path, &metadata)?;
            }
            return Err(DatabaseError::io(action, path, error));
        }
    };
    let metadata = file.metadata().map_err(|error| DatabaseError::io(action, path, error))?;
    check_regular(path, &metadata)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, process::Command};

    use super::*;

    fn write(path: &Path) -> Result<(), DatabaseError> {
        open_private_file(path)?;
        connect(path, Access::Write)?.execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS a (b); INSERT INTO a VALUES (1);",
        )
        .map_err(|error| DatabaseError::new(path, &error))
    }

    #[test]
    fn a_link_in_a_data_directory_creates_no_file_elsewhere() {
        for name in ["a.db", "a.db-wal", "a.db-shm", "a.db-journal"] {
            let (dir, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let target = victim.path().join("made");
            symlink(&target, dir.path().join(name)).unwrap();
            let error = write(&dir.path().join("a.db")).unwrap_err().to_string();
            assert!(error.ends_with(&format!("{name}: it is a link")), "{error}");
            assert!(!target.exists(), "{name}: dangling");
            fs::write(&target, "mine").unwrap();
            write(&dir.path().join("a.db")).unwrap_err();
            assert_eq!(fs::read(&target).unwrap(), b"mine", "{name}");
            let opened = open_existing_file(&dir.path().join(name));
            assert!(opened.unwrap_err().to_string().ends_with("it is a link"), "{name}");
        }
    }

    #[test]
    fn sqlite_itself_follows_no_link_to_a_database() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let target = elsewhere.path().join("a.db");
        write(&target).unwrap();
        symlink(&target, dir.path().join("a.db")).unwrap();
        for access in [Access::Read, Access::Write] {
            assert!(connect(&dir.path().join("a.db"), access).is_err(), "{access:?}");
        }
        // A directory may be reached through a link.
        symlink(elsewhere.path(), dir.path().join("data")).unwrap();
        write(&dir.path().join("data/a.db")).unwrap();
    }

    #[test]
    fn a_pipe_in_a_data_directory_is_not_waited_for() {
        for name in ["a.db", "a.db-wal", "a.db-shm", "a.db-journal"] {
            let dir = tempfile::tempdir().unwrap();
            let made = Command::new("mkfifo").arg(dir.path().join(name)).status();
            assert!(made.unwrap().success());
            let error = write(&dir.path().join("a.db")).unwrap_err().to_string();
            assert!(error.ends_with(&format!("{name}: it is not a regular file")), "{error}");
            let opened = open_existing_file(&dir.path().join(name));
            assert!(opened.unwrap_err().to_string().ends_with("not a regular file"), "{name}");
        }
    }
}
