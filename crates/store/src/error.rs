//! Errors of stores, in words for the operator.

use std::{borrow::Cow, path::PathBuf};

use skills_core::{Code, Coded, VersionError, WriteRefusal};
#[cfg(feature = "postgres")]
use skills_postgres::PgError;
use skills_sqlite::DatabaseError;

/// Error of one batch; other batches of its group may have succeeded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The bus state holds another value than expected.
    #[error("the value of {key:?} in scope {scope:?} is not the expected one")]
    Conflict {
        /// Scope of the key.
        scope: String,
        /// Key in the scope.
        key: String,
        /// Current value as JSON text.
        current: Option<String>,
    },
    /// A version, a label or a condition on them stands in the way.
    #[error(transparent)]
    Version(#[from] VersionError),
    /// It is not known whether the batch was stored.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// The store refused the batch.
    #[error("{message}")]
    Failed {
        /// Error code.
        code: String,
        /// Message.
        message: String,
    },
}

/// Error of the store as a whole; nothing was changed, unless [`is_outcome_unknown`](StoreError::is_outcome_unknown).
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the data directory open.
    #[error("the data directory {} is in use by another process", path.display())]
    InUse {
        /// Data directory.
        path: PathBuf,
    },
    /// The database file cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The PostgreSQL database cannot be used.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] PgError),
    /// A remote store did not answer, or refused.
    #[error("{message}")]
    Unavailable {
        /// Error code.
        code: String,
        /// Message.
        message: String,
    },
    /// It is not known whether a batch was stored, though the others of its group have answers.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// The store keeps no history.
    #[error("{0}")]
    NoHistory(&'static str),
    /// The change log begins after the requested revision.
    #[error("changes up to revision {until} are no longer stored")]
    Forgotten {
        /// Last dropped revision.
        until: u64,
    },
}

impl StoreError {
    /// Returns whether the store may be reachable again later without anyone acting on this program.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(error) => error.is_transient(),
            Self::Unavailable { .. } | Self::OutcomeUnknown(_) => true,
            _ => false,
        }
    }

    /// Returns the reason for which the store takes no writes, though it can be read.
    #[must_use]
    pub const fn write_refusal(&self) -> Option<WriteRefusal> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(PgError::ReadOnly(_)) => Some(WriteRefusal::ReadOnly),
            #[cfg(feature = "postgres")]
            Self::Postgres(PgError::Full(_)) => Some(WriteRefusal::Full),
            Self::Database(DatabaseError::DiskFull { .. }) => Some(WriteRefusal::Full),
            _ => None,
        }
    }
}

impl Coded for StoreError {
    fn code(&self) -> Code {
        match self {
            Self::InUse { .. } => Code::StoreInUse,
            Self::Database(error) => skills_transfer::sqlite_code(error),
            #[cfg(feature = "postgres")]
            Self::Postgres(error) => skills_transfer::postgres_code(error),
            Self::Unavailable { code, .. } => Code::from_remote(code),
            Self::OutcomeUnknown(_) => Code::StoreUnavailable,
            Self::NoHistory(_) => Code::Unsupported,
            Self::Forgotten { .. } => Code::ChangesForgotten,
        }
    }

    fn code_text(&self) -> Cow<'_, str> {
        match self {
            Self::Unavailable { code, .. } => code.into(),
            _ => self.code().as_str().into(),
        }
    }

    fn hint(&self) -> Option<&str> {
        match self {
            Self::InUse { .. } => Some(
                "a server is probably running on it: talk to that one with --url, or name another --data-dir",
            ),
            Self::Database(error) => error.hint(),
            #[cfg(feature = "postgres")]
            Self::Postgres(error) => error.hint(),
            Self::Unavailable { .. }
            | Self::OutcomeUnknown(_)
            | Self::NoHistory(_)
            | Self::Forgotten { .. } => None,
        }
    }

    fn is_outcome_unknown(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(PgError::OutcomeUnknown(_)) => true,
            Self::OutcomeUnknown(_) => true,
            _ => false,
        }
    }
}
