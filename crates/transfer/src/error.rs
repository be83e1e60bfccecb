//! Errors of copies, in words for the operator.

use std::{io, path::Path};

use skills_core::{Code, Coded, Digest};
#[cfg(feature = "postgres")]
use skills_postgres::PgError;
use skills_sqlite::DatabaseError;

/// Error of a copy, a backup or a restore. The destination is unchanged, except perhaps with
/// [`OutcomeUnknown`](Self::OutcomeUnknown).
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// A database file cannot be used.
    #[error(transparent)]
    Sqlite(#[from] DatabaseError),
    /// A PostgreSQL database cannot be used.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(PgError),
    /// The connection broke while a copy into a database was committed.
    #[cfg(feature = "postgres")]
    #[error(
        "the connection broke while the copy was committed, so the database has all of it or nothing: {0}"
    )]
    OutcomeUnknown(String),
    /// An archive or a folder cannot be read or written.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// Attempted action.
        action: &'static str,
        /// File or folder.
        path: String,
        /// Cause.
        source: io::Error,
    },
    /// The archive is damaged, truncated, or not one.
    #[error("the archive cannot be used: {0}")]
    BadArchive(String),
    /// The archive has a newer format.
    #[error("the archive has format {found}; this program reads formats up to {supported}")]
    NewerArchive {
        /// Format of the archive.
        found: u64,
        /// Newest supported format.
        supported: u64,
    },
    /// The source has no tables.
    #[error("{0} has no registry")]
    NoRegistry(String),
    /// The source has tables of an earlier version.
    #[error("{0} is of an earlier version")]
    OlderSchema(String),
    /// Copies go into empty stores only.
    #[error("{0} is not empty")]
    NotEmpty(String),
    /// A blob does not match its digest.
    #[error("the body {digest} differs from its digest")]
    BlobDiffers {
        /// Digest that it should have.
        digest: Digest,
    },
    /// A row cannot be read.
    #[error("stored data cannot be read: {0}")]
    Unreadable(String),
    /// Another part of the program refused.
    #[error("{message}")]
    Other {
        /// Error code.
        code: Code,
        /// Message.
        message: String,
        /// Next step for the user.
        hint: Option<String>,
    },
    /// The user interrupted the copy.
    #[error("interrupted")]
    Interrupted,
}

#[cfg(feature = "postgres")]
impl From<PgError> for TransferError {
    fn from(error: PgError) -> Self {
        match error {
            PgError::OutcomeUnknown(reason) => Self::OutcomeUnknown(reason),
            error => Self::Postgres(error),
        }
    }
}

impl TransferError {
    /// Creates the error of an operation on a file.
    #[must_use]
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        match DatabaseError::io(action, path, source) {
            DatabaseError::Io { action, path, source } => {
                Self::Io { action, path: path.display().to_string(), source }
            }
            full => full.into(),
        }
    }

    /// Wraps the error of a store or a vault.
    #[must_use]
    pub fn other(error: &dyn Coded) -> Self {
        let hint = error.hint().map(str::to_owned);
        Self::Other { code: error.code(), message: error.to_string(), hint }
    }
}

/// Returns the code of an error of a store's SQLite file.
#[must_use]
pub const fn sqlite_code(error: &DatabaseError) -> Code {
    match error {
        DatabaseError::Busy { .. } => Code::StoreInUse,
        DatabaseError::NewerSchema { .. } => Code::StoreNewerSchema,
        DatabaseError::Corrupt { .. } => Code::StoreCorrupt,
        DatabaseError::Io { .. } | DatabaseError::Special { .. } => Code::StoreIo,
        DatabaseError::DiskFull { .. } => Code::StoreFull,
        DatabaseError::Other(_) => Code::StoreError,
    }
}

/// Returns the code of an error of a store's PostgreSQL database.
#[cfg(feature = "postgres")]
#[must_use]
pub const fn postgres_code(error: &PgError) -> Code {
    match error {
        PgError::Unavailable(_)
        | PgError::OutcomeUnknown(_)
        | PgError::Configuration(_)
        | PgError::ReadOnly(_)
        | PgError::Serialization(_) => Code::StoreUnavailable,
        PgError::Full(_) => Code::StoreFull,
        PgError::NewerSchema { .. } => Code::StoreNewerSchema,
        PgError::Corrupt(_) => Code::StoreCorrupt,
        PgError::Other(_) => Code::StoreError,
    }
}

impl Coded for TransferError {
    fn code(&self) -> Code {
        match self {
            Self::Sqlite(error) => sqlite_code(error),
            #[cfg(feature = "postgres")]
            Self::Postgres(error) => postgres_code(error),
            #[cfg(feature = "postgres")]
            Self::OutcomeUnknown(_) => Code::StoreUnavailable,
            Self::Io { .. } => Code::Io,
            Self::BadArchive(_) => Code::BadArchive,
            Self::NewerArchive { .. } => Code::NewerArchive,
            Self::NotEmpty(_) => Code::StoreNotEmpty,
            Self::NoRegistry(_)
            | Self::OlderSchema(_)
            | Self::BlobDiffers { .. }
            | Self::Unreadable(_) => Code::StoreCorrupt,
            Self::Other { code, .. } => *code,
            Self::Interrupted => Code::Interrupted,
        }
    }

    #[cfg(feature = "postgres")]
    fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::OutcomeUnknown(_))
    }

    fn hint(&self) -> Option<&str> {
        match self {
            Self::Sqlite(error) => error.hint(),
            #[cfg(feature = "postgres")]
            Self::Postgres(error) => error.hint(),
            #[cfg(feature = "postgres")]
            Self::OutcomeUnknown(_) => Some(
                "do the same again; if it is refused with store_not_empty, the copy is complete",
            ),
            Self::BadArchive(_) => Some("use another backup; nothing was changed"),
            Self::NewerArchive { .. } => Some("use the newer version of this program"),
            Self::NoRegistry(_) => Some("check the database name and the search_path of the URL"),
            Self::OlderSchema(_) => Some("start a server on it once"),
            Self::NotEmpty(_) => Some("name an empty database, or a new or empty directory"),
            Self::BlobDiffers { .. } | Self::Unreadable(_) => {
                Some("run `skills doctor`, and restore the store from a backup")
            }
            Self::Other { hint, .. } => hint.as_deref(),
            Self::Io { .. } | Self::Interrupted => None,
        }
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_whose_commit_is_lost_may_have_been_made() {
        let error = TransferError::from(PgError::OutcomeUnknown("reset".to_owned()));
        assert_eq!(error.code(), Code::StoreUnavailable);
        assert!(error.to_string().contains("all of it or nothing: reset"), "{error}");
        assert!(error.is_outcome_unknown());
        assert!(error.hint().is_some_and(|hint| hint.contains("store_not_empty")));
        let error = TransferError::from(PgError::Unavailable("reset".to_owned()));
        assert!(matches!(error, TransferError::Postgres(_)));
    }
}
