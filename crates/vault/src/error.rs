//! Errors of the vault. No message contains a key or a secret value.

use skills_core::{Code, Coded, limits::MAX_SECRETS_OF_SKILL};
use skills_sqlite::DatabaseError;

use crate::secrets::{MAX_NAME_BYTES, MAX_VALUE_BYTES, MissingSecret, describe_missing};

/// Error of a vault operation. The vault is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The file cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The database server cannot be used.
    #[error("{message}")]
    Server {
        /// Kind of failure.
        failure: ServerFailure,
        /// Message of the database.
        message: String,
        /// Next step for the user.
        hint: Option<&'static str>,
    },
    /// The operating system returned no random bytes.
    #[error("cannot get random bytes from the operating system: {0}")]
    Random(String),
    /// No key has this id.
    #[error("key not found: {0}")]
    NoSuchKey(String),
    /// Several keys have this id prefix.
    #[error("more than one key has an id that begins with {0}")]
    AmbiguousKey(String),
    /// Not a key id.
    #[error("a key id is 8 to 64 hexadecimal digits")]
    BadKeyId,
    /// Not a key.
    #[error("not a key: keys begin with us-")]
    NotAKey,
    /// The key belongs to another account.
    #[error("the key {0} belongs to another user")]
    KeyTaken(String),
    /// The key was revoked.
    #[error("the key {0} was revoked")]
    KeyRevoked(String),
    /// The owner is the nil UUID.
    #[error("the nil UUID is not a user and cannot own anything")]
    NilOwner,
    /// An account has too many of something.
    #[error("{owner} has {max} {what}, the maximum")]
    TooMany {
        /// Account.
        owner: String,
        /// Kind, in the plural.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// Unusable label.
    #[error("a label must have at most 128 bytes and no control characters")]
    BadLabel,
    /// Unusable user name.
    #[error("a user name must have at most 256 bytes and no NUL")]
    BadUsername,
    /// Credits that are not a number.
    #[error("credits must be a finite number")]
    BadCredits,
    /// Unusable secret name.
    #[error("a secret name must be 1 to {MAX_NAME_BYTES} letters, digits, '_' and '-'")]
    BadSecretName,
    /// Empty secret value.
    #[error("the value is empty")]
    EmptySecret,
    /// Secret value that is too large.
    #[error("the value has {0} bytes; at most {MAX_VALUE_BYTES} are allowed")]
    SecretTooLarge(usize),
    /// The secret to grant or remove does not exist.
    #[error("{owner} has no secret {name}{scope}")]
    NoSuchSecret {
        /// Account.
        owner: String,
        /// Name of the secret.
        name: String,
        /// Scope, such as ` for the skill x`, or empty.
        scope: String,
    },
    /// A skill requires too many secrets.
    #[error("the skill requires {0} secrets; at most {MAX_SECRETS_OF_SKILL} are allowed")]
    TooManyNeeded(usize),
    /// A call requires secrets that it does not get.
    #[error("{}", describe_missing(.0))]
    MissingSecrets(Vec<MissingSecret>),
    /// No master key is set, so secrets can be neither set nor read.
    #[error("MASTER_ENCRYPTION_KEY is not set")]
    NoMasterKey,
    /// A secret that no master key decrypts, or that is damaged.
    #[error("cannot decrypt the secret {secret}: {reason}")]
    UnreadableSecret {
        /// Owner, skill and name of the secret.
        secret: String,
        /// Cause.
        reason: String,
    },
}

/// Kind of failure of a database server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerFailure {
    /// It cannot be reached, went away, or did not answer in time. Nothing was written.
    Unavailable,
    /// The connection broke during a commit, and it could not be found out whether it succeeded.
    OutcomeUnknown,
    /// It refuses the connection, and waiting does not help.
    Refused,
    /// Its disk is full.
    Full,
    /// It accepts no writes.
    ReadOnly,
    /// The tables were written by a newer version of this program.
    NewerSchema,
    /// A stored value cannot be read.
    Corrupt,
    /// Other failure.
    Other,
}

#[cfg(feature = "postgres")]
impl From<skills_postgres::PgError> for VaultError {
    fn from(error: skills_postgres::PgError) -> Self {
        use skills_postgres::PgError;
        let failure = match &error {
            PgError::Unavailable(_) | PgError::Serialization(_) => ServerFailure::Unavailable,
            PgError::OutcomeUnknown(_) => ServerFailure::OutcomeUnknown,
            PgError::Configuration(_) => ServerFailure::Refused,
            PgError::Full(_) => ServerFailure::Full,
            PgError::ReadOnly(_) => ServerFailure::ReadOnly,
            PgError::NewerSchema { .. } => ServerFailure::NewerSchema,
            PgError::Corrupt(_) => ServerFailure::Corrupt,
            PgError::Other(_) => ServerFailure::Other,
        };
        Self::Server { failure, message: error.to_string(), hint: error.hint() }
    }
}

impl VaultError {
    /// Returns the kind of failure of the database server, if it is one.
    #[must_use]
    pub const fn server_failure(&self) -> Option<ServerFailure> {
        match self {
            Self::Server { failure, .. } => Some(*failure),
            _ => None,
        }
    }

    /// Returns whether the database server is away, so that what is in memory is all there is.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        use ServerFailure::{OutcomeUnknown, Unavailable};
        matches!(self.server_failure(), Some(Unavailable | OutcomeUnknown))
    }

    /// Creates the error for something that cannot happen.
    pub(crate) fn internal(reason: &str) -> Self {
        DatabaseError::Other(reason.to_owned()).into()
    }

    /// Returns whether the file of the vault could not be written, as opposed to an invalid request.
    #[must_use]
    pub const fn is_write_failure(&self) -> bool {
        use DatabaseError::{Busy, DiskFull, Io, Other};
        match self {
            Self::Database(error) => {
                matches!(error, DiskFull { .. } | Io { .. } | Other(_) | Busy { .. })
            }
            _ => false,
        }
    }
}

impl Coded for VaultError {
    fn code(&self) -> Code {
        match self {
            Self::Database(error) => match error {
                DatabaseError::Busy { .. } => Code::VaultBusy,
                DatabaseError::NewerSchema { .. } => Code::VaultNewerSchema,
                DatabaseError::Corrupt { .. } => Code::VaultCorrupt,
                DatabaseError::Io { .. } | DatabaseError::Special { .. } => Code::VaultIo,
                DatabaseError::DiskFull { .. } => Code::VaultFull,
                DatabaseError::Other(_) => Code::VaultError,
            },
            Self::Server { failure, .. } => match failure {
                ServerFailure::Unavailable
                | ServerFailure::OutcomeUnknown
                | ServerFailure::ReadOnly => Code::StoreUnavailable,
                ServerFailure::Refused => Code::VaultIo,
                ServerFailure::Full => Code::VaultFull,
                ServerFailure::NewerSchema => Code::VaultNewerSchema,
                ServerFailure::Corrupt => Code::VaultCorrupt,
                ServerFailure::Other => Code::VaultError,
            },
            Self::Random(_) => Code::NoRandomness,
            Self::NoSuchKey(_) => Code::NoSuchKey,
            Self::AmbiguousKey(_) => Code::AmbiguousKey,
            Self::BadKeyId => Code::BadKeyId,
            Self::NotAKey => Code::NotAKey,
            Self::KeyTaken(_) => Code::KeyTaken,
            Self::KeyRevoked(_) => Code::KeyRevoked,
            Self::TooMany { .. } | Self::TooManyNeeded(_) => Code::TooMany,
            Self::NilOwner
            | Self::BadLabel
            | Self::BadUsername
            | Self::BadCredits
            | Self::BadSecretName
            | Self::EmptySecret => Code::InvalidInput,
            Self::SecretTooLarge(_) => Code::TooLarge,
            Self::NoSuchSecret { .. } => Code::NoSuchSecret,
            Self::MissingSecrets(_) => Code::MissingSecrets,
            Self::NoMasterKey => Code::NoMasterKey,
            Self::UnreadableSecret { .. } => Code::UnreadableSecret,
        }
    }

    fn is_outcome_unknown(&self) -> bool {
        self.server_failure() == Some(ServerFailure::OutcomeUnknown)
    }

    fn hint(&self) -> Option<&str> {
        match self {
            Self::Database(error) => error.hint(),
            Self::Server { hint, .. } => *hint,
            Self::NoSuchKey(_) | Self::BadKeyId => Some("list key ids with `skills key list`"),
            Self::AmbiguousKey(_) => {
                Some("give more digits: `skills key list --json` prints whole hashes")
            }
            Self::TooMany { .. } => Some("remove unused ones first"),
            Self::NoMasterKey => Some(
                "set it to 64 hexadecimal digits, such as the output of `openssl rand -hex 32`",
            ),
            Self::UnreadableSecret { .. } => Some(
                "add the master key it was encrypted with to MASTER_ENCRYPTION_KEY_PREVIOUS, or set the secret again",
            ),
            Self::NoSuchSecret { .. } => Some("list secrets with `skills secret list --uid UID`"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_server_has_the_code_of_one_that_is_away() {
        let failure = ServerFailure::ReadOnly;
        let error = VaultError::Server { failure, message: String::new(), hint: None };
        assert_eq!(error.code(), Code::StoreUnavailable);
    }
}
