//! Errors of PostgreSQL, by what can be done about them.

use std::{error::Error as _, io};

use tokio_postgres::error::{Severity, SqlState};
use tokio_rustls::rustls;

use crate::auth::AuthRefusal;

/// Start of the text of an error about a missing privilege. The rest is the message of the server, in its language.
const DENIED: &str = "the user lacks a privilege: ";

/// Message about a primary where a standby is asked for.
pub(crate) const NOT_READ_ONLY: &str = "database is not read only";

/// Error of a database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PgError {
    /// The server cannot be reached, went away, or did not answer in time. Nothing was written.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The connection broke while a transaction was being committed, so it may or may not have been.
    #[error("the connection broke during a commit, which may or may not have happened: {0}")]
    OutcomeUnknown(String),
    /// Waiting does not help: wrong password, no such database, untrusted certificate.
    #[error("the database refuses the connection: {0}")]
    Configuration(String),
    /// The disk of the server is full. Nothing was written.
    #[error("the database has no space left: {0}")]
    Full(String),
    /// The server accepts no writes, as a standby does. Nothing was written.
    #[error("the database is read-only: {0}")]
    ReadOnly(String),
    /// Another transaction came between; the same transaction may succeed when it is repeated. Nothing was written.
    #[error("the transaction has to be repeated: {0}")]
    Serialization(String),
    /// The schema was written by a newer version of this program.
    #[error(
        "the tables of the {component} have schema version {found}; this program supports versions up to {supported}"
    )]
    NewerSchema {
        /// Component that owns the tables.
        component: &'static str,
        /// Version in the database.
        found: i32,
        /// Newest supported version.
        supported: i32,
    },
    /// A stored value cannot be read.
    #[error("stored data cannot be read: {0}")]
    Corrupt(String),
    /// Other error. Nothing was written.
    #[error("database error: {0}")]
    Other(String),
}

impl PgError {
    /// Returns whether the same call may succeed later without anyone acting on this program.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_)
            | Self::OutcomeUnknown(_)
            | Self::Full(_)
            | Self::ReadOnly(_)
            | Self::Serialization(_) => true,
            Self::Configuration(_)
            | Self::NewerSchema { .. }
            | Self::Corrupt(_)
            | Self::Other(_) => false,
        }
    }

    /// Returns whether the server could not be reached or went away.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::OutcomeUnknown(_))
    }

    /// Returns the next step for the user.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unavailable(text) if text.contains(NOT_READ_ONLY) => {
                Some("name a standby in the database URL, or correct its target_session_attrs")
            }
            Self::Unavailable(_) => {
                Some("check that the database runs and can be reached, and try again")
            }
            Self::OutcomeUnknown(_) => {
                Some("read the entry to see whether it was written, or send it again")
            }
            Self::Configuration(text) if text.contains("password missing") => {
                Some("set PGPASSWORD, or put the password into the database URL")
            }
            Self::Configuration(text) if text.contains("cannot read ") => {
                Some("check the files of sslrootcert, sslcert and sslkey of the database URL")
            }
            Self::Configuration(text) if text.contains("in the clear") => Some(
                "use sslmode=verify-full, or on a network that you trust sslmode=disable or require_auth=password",
            ),
            Self::Configuration(text) if text.contains("require_auth") => Some(
                "correct require_auth of the database URL, or the methods of the server (pg_hba.conf)",
            ),
            Self::Configuration(text) if text.contains("certificate") => Some(
                "check the certificate of the server, and sslrootcert and sslmode of the database URL",
            ),
            Self::Configuration(_) => Some(
                "check user, password (or PGPASSWORD), database name and sslmode of the database URL",
            ),
            Self::Full(_) => Some("free some space on the database server and try again"),
            Self::ReadOnly(_) => Some(
                "name the primary in the database URL, or several hosts and target_session_attrs=read-write",
            ),
            Self::Serialization(_) => Some("try again"),
            Self::NewerSchema { .. } => {
                Some("use the newer version of this program, or another database")
            }
            Self::Corrupt(_) => Some("restore the database from a backup"),
            Self::Other(text) if text.starts_with(DENIED) => Some(
                "grant CREATE on the database to the user for the first start, or the rights on the tables",
            ),
            Self::Other(_) => None,
        }
    }

    /// Returns one error of the attempts to connect to several hosts. Waiting may mend a connection as long as it may
    /// mend one of the hosts, so it is [`Configuration`](Self::Configuration) only if no host has another error.
    pub(crate) fn of_hosts(failures: Vec<(String, Self)>) -> Self {
        let rank = |error: &Self| match error {
            Self::Unavailable(_) => 0,
            error if error.is_transient() => 1,
            _ => 2,
        };
        let worst =
            failures.iter().map(|(_, error)| error).min_by_key(|error| rank(error)).cloned();
        let Some(mut worst) = worst else {
            return Self::Configuration("the database URL names no host".to_owned());
        };
        let is_same = failures.iter().all(|(_, error)| *error == worst);
        if let Some(text) = worst.text_mut().filter(|_| !is_same) {
            let texts = failures.into_iter().map(|(host, mut error)| {
                let reason = error.text_mut().map(std::mem::take);
                format!("{host}: {}", reason.unwrap_or_else(|| error.to_string()))
            });
            *text = texts.collect::<Vec<_>>().join("; ");
        }
        worst
    }

    const fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Unavailable(text)
            | Self::OutcomeUnknown(text)
            | Self::Configuration(text)
            | Self::Full(text)
            | Self::ReadOnly(text)
            | Self::Serialization(text)
            | Self::Corrupt(text)
            | Self::Other(text) => Some(text),
            Self::NewerSchema { .. } => None,
        }
    }

    /// Converts an error of a statement.
    pub(crate) fn from_statement(error: &tokio_postgres::Error) -> Self {
        let Some(refusal) = error.as_db_error() else {
            let text = describe(error);
            let is_value = text.starts_with("error deserializing column");
            let is_broken = error.is_closed() || find_io(error).is_some();
            return match () {
                () if is_value => Self::Corrupt(text),
                () if is_broken || text.starts_with("unexpected message") => {
                    Self::Unavailable(text)
                }
                () => Self::Other(text),
            };
        };
        let text = refusal.message().to_owned();
        let (code, class) = (refusal.code(), refusal.code().code().get(..2).unwrap_or_default());
        match code {
            &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED => {
                Self::Serialization(text)
            }
            &SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly(text),
            &SqlState::DISK_FULL => Self::Full(text),
            &SqlState::INSUFFICIENT_PRIVILEGE => Self::Other(format!("{DENIED}{text}")),
            &SqlState::LOCK_NOT_AVAILABLE | &SqlState::QUERY_CANCELED => Self::Unavailable(text),
            &SqlState::INVALID_PASSWORD | &SqlState::INVALID_CATALOG_NAME => {
                Self::Configuration(text)
            }
            _ => match class {
                "28" => Self::Configuration(text),
                // Connections, resources, operator intervention, and timeouts of idle transactions.
                "08" | "53" | "57" => Self::Unavailable(text),
                "25" if is_fatal(refusal) => Self::Unavailable(text),
                "58" | "XX" if is_fatal(refusal) => Self::Unavailable(text),
                _ => Self::Other(text),
            },
        }
    }

    /// Converts an error of `COMMIT`. An error that the server reports about the transaction means that it was rolled
    /// back; everything else leaves the outcome open.
    pub(crate) fn from_commit(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(refusal) if !is_fatal(refusal) => Self::from_statement(error),
            _ => Self::OutcomeUnknown(describe(error)),
        }
    }

    /// Converts an error of connecting.
    pub(crate) fn from_connect(error: &tokio_postgres::Error) -> Self {
        let text = describe(error);
        if error.as_db_error().is_some() {
            // An operator who limits connections of a role, or a server that starts, is worth waiting for.
            return match Self::from_statement(error) {
                Self::Other(text) => Self::Configuration(text),
                other => other,
            };
        }
        let refusal =
            find_io(error).and_then(|error| error.get_ref()?.downcast_ref::<AuthRefusal>());
        if let Some(refusal) = refusal {
            return Self::Configuration(refusal.to_string());
        }
        let is_settings = ["invalid configuration", "authentication error"]
            .iter()
            .any(|prefix| text.starts_with(prefix));
        if is_settings { Self::Configuration(text) } else { Self::Unavailable(text) }
    }

    /// Converts an error of the TLS handshake.
    pub(crate) fn from_handshake(error: &io::Error) -> Self {
        let text = format!("error performing TLS handshake: {error}");
        let reason = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
        match reason {
            // The server's certificate was refused.
            Some(
                rustls::Error::InvalidCertificate(_)
                | rustls::Error::PeerIncompatible(_)
                | rustls::Error::NoCertificatesPresented,
            ) => Self::Configuration(text),
            _ => Self::Unavailable(text),
        }
    }
}

fn is_fatal(refusal: &tokio_postgres::error::DbError) -> bool {
    match refusal.parsed_severity() {
        Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
        None => !refusal.severity().eq_ignore_ascii_case("error"),
    }
}

/// Returns an error with its causes, without repetition.
fn describe(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let detail = error.to_string();
        if !text.contains(&detail) {
            text = format!("{text}: {detail}");
        }
        cause = error.source();
    }
    text
}

fn find_io(error: &tokio_postgres::Error) -> Option<&io::Error> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref() {
            return Some(io);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(failures: &[PgError]) -> PgError {
        let hosts = ["a:1", "b:2", "c:3"].map(str::to_owned);
        PgError::of_hosts(hosts.into_iter().zip(failures.iter().cloned()).collect())
    }

    #[test]
    fn a_host_that_may_come_back_is_waited_for() {
        let down = PgError::Unavailable("refused".to_owned());
        let standby = PgError::ReadOnly("no writes".to_owned());
        let password = PgError::Configuration("wrong password".to_owned());
        let both = PgError::Unavailable("a:1: wrong password; b:2: refused".to_owned());
        assert_eq!(of(&[password.clone(), down.clone()]), both);
        let both = PgError::Unavailable("a:1: refused; b:2: no writes".to_owned());
        assert_eq!(of(&[down.clone(), standby.clone()]), both);
        let both = PgError::ReadOnly("a:1: wrong password; b:2: no writes".to_owned());
        assert_eq!(of(&[password.clone(), standby]), both);
    }

    #[test]
    fn the_hint_names_what_to_correct() {
        let other = PgError::Other(format!("{DENIED}permission denied for database x"));
        assert!(other.hint().is_some_and(|hint| hint.contains("grant CREATE on the database")));
        assert_eq!(PgError::Other("syntax error".to_owned()).hint(), None);
        for (text, word) in [
            ("invalid configuration: password missing", "PGPASSWORD"),
            ("cannot read /nope: No such file or directory", "sslrootcert"),
            ("a:1: cannot read /nope: gone; b:2: no such database", "sslrootcert"),
            ("invalid peer certificate: UnknownIssuer", "sslrootcert"),
            (&AuthRefusal::ClearPassword.to_string(), "sslmode=disable or require_auth=password"),
            (&AuthRefusal::NoLogin.to_string(), "require_auth"),
            ("password authentication failed for user \"x\"", "password"),
        ] {
            let hint = PgError::Configuration(text.to_owned()).hint();
            assert!(hint.is_some_and(|hint| hint.contains(word)), "{text}: {hint:?}");
        }
        let text = format!("error connecting to server: {NOT_READ_ONLY}");
        let hint = PgError::Unavailable(text).hint();
        assert!(hint.is_some_and(|hint| hint.contains("target_session_attrs")), "{hint:?}");
    }

    #[test]
    fn an_error_of_all_hosts_is_told_once() {
        for error in [
            PgError::Unavailable("refused".to_owned()),
            PgError::Configuration("wrong password".to_owned()),
        ] {
            assert_eq!(of(std::slice::from_ref(&error)), error);
            assert_eq!(of(&[error.clone(), error.clone()]), error);
        }
        assert!(!of(&[]).is_transient());
    }
}
