//! What can go wrong in a store, in words for the person who runs it.

use std::{io, path::PathBuf};

/// A batch that was not carried out, while others of its group may have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The bus state holds another value than expected.
    #[error("the value of {key:?} in scope {scope:?} is not the expected one")]
    Conflict {
        /// Group of keys.
        scope: String,
        /// Name in the group.
        key: String,
        /// What is there, as JSON text.
        current: Option<String>,
    },
    /// The place where it is kept did not take it.
    #[error("{message}")]
    Failed {
        /// Its code.
        code: String,
        /// Its words.
        message: String,
    },
}

/// The store as a whole could not do what was asked; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the data directory open.
    #[error("the data directory {} is in use by another process", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The file was written by a newer version of this program.
    #[error(
        "{} has schema version {found}; this program knows versions up to {supported}",
        path.display()
    )]
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// What it says of itself.
        found: i64,
        /// The newest this program understands.
        supported: i64,
    },
    /// The file is damaged, or is not one of ours.
    #[error("{} cannot be used: {detail}", path.display())]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// The directory or file cannot be created, read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The disk is full.
    #[error("no space left to store this; nothing was changed")]
    Full,
    /// A store elsewhere did not answer, or refused.
    #[error("{message}")]
    Unavailable {
        /// Its code.
        code: String,
        /// Its words.
        message: String,
    },
    /// The log of changes begins later than where it was to be read.
    #[error("changes up to revision {until} are not kept any more")]
    Forgotten {
        /// The last one that is gone.
        until: u64,
    },
    /// Anything else that the database engine says.
    #[error("the database refused: {0}")]
    Database(String),
}

impl StoreError {
    /// A stable code for machines.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::InUse { .. } => "store_in_use",
            Self::NewerSchema { .. } => "store_newer_schema",
            Self::Corrupt { .. } => "store_corrupt",
            Self::Io { .. } => "store_io",
            Self::Full => "store_full",
            Self::Unavailable { code, .. } => code,
            Self::Forgotten { .. } => "changes_forgotten",
            Self::Database(_) => "store_error",
        }
    }

    /// What the person who runs the program can do.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::InUse { .. } => Some(
                "a server is probably running on it: talk to that one with --url, or name another --data-dir",
            ),
            Self::NewerSchema { .. } => {
                Some("use the newer version of this program, or name another --data-dir")
            }
            Self::Corrupt { .. } => Some(
                "restore the file from a backup, or name another --data-dir; it was not touched",
            ),
            Self::Io { .. } => Some("check that the directory exists and that you may write to it"),
            Self::Full => Some("free some space and try again"),
            Self::Unavailable { .. } | Self::Forgotten { .. } | Self::Database(_) => None,
        }
    }
}
