//! Rules that the SQLite files of store and vault share: private files, hardened connections, errors.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, ErrorCode, config::DbConfig, ffi::SQLITE_IOERR_SHMSIZE};

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

/// Hardens a connection against the file it opens, which another program may have written: functions and virtual
/// tables with side effects cannot be reached from its schema, and SQL cannot damage the file format. Called before the
/// first query.
///
/// # Errors
/// When SQLite refuses.
pub fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    Ok(())
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
/// [`DatabaseError::Io`], [`DatabaseError::DiskFull`].
pub fn open_private_file(path: &Path) -> Result<File, DatabaseError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    options.open(path).map_err(|source| DatabaseError::io("write to", path, source))
}
