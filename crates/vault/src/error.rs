//! What can go wrong with the vault, in words for the person who meets it. None of them holds a secret.

use std::{io, path::PathBuf};

use skills_core::limits::MAX_SECRETS_OF_SKILL;

use crate::secrets::{Lack, MAX_NAME_BYTES, MAX_VALUE_BYTES, sentence_of_lacks};

/// The vault did not do what was asked; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// Another process writes to it and does not come to an end.
    #[error("{} is being written by another process", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer version of this program.
    #[error(
        "{} has schema version {found}; this program knows versions up to {supported}",
        path.display()
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// What it says of itself.
        found: i64,
        /// The newest this program understands.
        supported: i64,
    },
    /// The file is damaged, or is not one of ours.
    #[error("{} cannot be used: {detail}", path.display())]
    Corrupt {
        /// The file.
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
    /// Anything else that the database engine says.
    #[error("the database refused: {0}")]
    Database(String),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
    /// No key has that id.
    #[error("there is no key {0}")]
    NoSuchKey(String),
    /// Several keys have an id that begins like that.
    #[error("several keys have an id that begins with {0}")]
    AmbiguousKey(String),
    /// Not the id of a key.
    #[error("a key id is 8 to 64 hexadecimal digits, as `key list` shows them")]
    BadKeyId,
    /// Not a key at all.
    #[error("that is not a key, which begins with us-")]
    NotAKey,
    /// The hash belongs to somebody else.
    #[error("the key {0} belongs to somebody else")]
    KeyTaken(String),
    /// The hash belongs to a key that was revoked.
    #[error("the key {0} was revoked")]
    KeyRevoked(String),
    /// The uid that stands for nobody.
    #[error("the nil UUID stands for nobody and cannot own anything")]
    NilOwner,
    /// More of something than an owner may have.
    #[error("{owner} has {max} {what}, which is the most allowed")]
    TooMany {
        /// Whose.
        owner: String,
        /// Of what.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// A label that cannot be shown.
    #[error("a label has at most 128 bytes and no control characters")]
    BadLabel,
    /// A user's name that is too long.
    #[error("the name of a user has at most 256 bytes")]
    BadUsername,
    /// A number of credits that is none.
    #[error("credits are a finite number")]
    BadCredits,
    /// The name of a secret.
    #[error("the name of a secret is 1 to {MAX_NAME_BYTES} letters, digits, '_' and '-'")]
    BadSecretName,
    /// Nothing to keep.
    #[error("the value is empty")]
    EmptySecret,
    /// More than is kept.
    #[error("the value is {0} bytes long, at most {MAX_VALUE_BYTES} are allowed")]
    SecretTooLarge(usize),
    /// Nothing to grant or remove.
    #[error("{owner} has no secret {name}{of}")]
    NoSuchSecret {
        /// Whose.
        owner: String,
        /// Which.
        name: String,
        /// ` for the skill x`, or nothing.
        of: String,
    },
    /// A skill asks for more secrets than any needs.
    #[error("{0} secrets are asked for at once, at most {MAX_SECRETS_OF_SKILL} are allowed")]
    TooManyNeeded(usize),
    /// Secrets that a call needs and does not get.
    #[error("{}", sentence_of_lacks(.0))]
    MissingSecrets(Vec<Lack>),
    /// Without it secrets can be neither kept nor read.
    #[error("there is no master key")]
    NoMasterKey,
    /// A secret that none of the keys opens, or that is not what was put there.
    #[error("the secret {secret} cannot be read: {reason}")]
    UnreadableSecret {
        /// Which.
        secret: String,
        /// Why not.
        reason: String,
    },
}

impl VaultError {
    /// A stable code for machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "vault_busy",
            Self::NewerSchema { .. } => "vault_newer_schema",
            Self::Corrupt { .. } => "vault_corrupt",
            Self::Io { .. } => "vault_io",
            Self::Full => "vault_full",
            Self::Database(_) => "vault_error",
            Self::Random(_) => "no_randomness",
            Self::NoSuchKey(_) => "no_such_key",
            Self::AmbiguousKey(_) => "ambiguous_key",
            Self::BadKeyId => "bad_key_id",
            Self::NotAKey => "not_a_key",
            Self::KeyTaken(_) => "key_taken",
            Self::KeyRevoked(_) => "key_revoked",
            Self::TooMany { .. } | Self::TooManyNeeded(_) => "too_many",
            Self::NilOwner
            | Self::BadLabel
            | Self::BadUsername
            | Self::BadCredits
            | Self::BadSecretName
            | Self::EmptySecret => "invalid_input",
            Self::SecretTooLarge(_) => "too_large",
            Self::NoSuchSecret { .. } => "no_such_secret",
            Self::MissingSecrets(_) => "missing_secrets",
            Self::NoMasterKey => "no_master_key",
            Self::UnreadableSecret { .. } => "unreadable_secret",
        }
    }

    /// What the person who asked can do.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Busy { .. } => Some("try again"),
            Self::NewerSchema { .. } => {
                Some("use the newer version of this program, or name another --data-dir")
            }
            Self::Corrupt { .. } => Some(
                "restore the file from a backup, or name another --data-dir; it was not touched",
            ),
            Self::Io { .. } => Some("check that the directory exists and that you may write to it"),
            Self::Full => Some("free some space and try again"),
            Self::NoSuchKey(_) | Self::BadKeyId => Some("`skills key list` shows the ids of keys"),
            Self::AmbiguousKey(_) => Some("give more of its digits, as `key list --json` shows"),
            Self::TooMany { .. } => Some("remove some that are not needed any more"),
            Self::NoMasterKey => Some(
                "set MASTER_ENCRYPTION_KEY to 64 hexadecimal digits, for example of `openssl rand -hex 32`",
            ),
            Self::UnreadableSecret { .. } => Some(
                "name the key it was encrypted with in MASTER_ENCRYPTION_KEY_PREVIOUS, or set the secret anew",
            ),
            Self::NoSuchSecret { .. } => {
                Some("`skills secret list --uid UID` shows which there are")
            }
            _ => None,
        }
    }
}
