//! Database that holds the registry instead of the file of a data directory.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use skills_core::Code;
use skills_registry::RegistryError;
#[cfg(feature = "postgres")]
use skills_store::{DatabaseUrl, PostgresStore};
use skills_store::{Store, StoreError};

#[cfg(feature = "postgres")]
use crate::blocking::blocking;
use crate::{Failure, cli::Target, output};

/// Pauses between attempts to reach a database at the start; the last one is repeated.
const RETRY_PAUSES: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// Pause before the database is asked again after it went away during the start. If it cannot be reached then,
/// [`RETRY_PAUSES`] follow.
const REOPEN_PAUSE: Duration = Duration::from_millis(500);

/// Address of a PostgreSQL database. Printed without its password. Without PostgreSQL there is no value of this type.
#[derive(Clone, PartialEq, Eq)]
pub struct Database {
    #[cfg(feature = "postgres")]
    url: DatabaseUrl,
    /// The URL as it was given, without its password.
    argument: String,
    has_password: bool,
    #[cfg(not(feature = "postgres"))]
    never: std::convert::Infallible,
}

impl fmt::Display for Database {
    #[cfg(feature = "postgres")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }

    #[cfg(not(feature = "postgres"))]
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.never()
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({self})")
    }
}

impl FromStr for Database {
    type Err = String;

    #[cfg(feature = "postgres")]
    fn from_str(text: &str) -> Result<Self, String> {
        let url: DatabaseUrl = text.parse().map_err(|error| format!("{error}"))?;
        let password = std::env::var("PGPASSWORD").ok();
        let argument = without_password(text);
        let has_password = password.is_some() || argument != text;
        Ok(Self { url: url.with_default_password(password.as_deref()), argument, has_password })
    }

    #[cfg(not(feature = "postgres"))]
    fn from_str(_: &str) -> Result<Self, String> {
        Err("this program was built without PostgreSQL".to_owned())
    }
}

impl Database {
    /// Returns the database of a target. The flag and the variable precede the configuration; a directory that is chosen
    /// instead precedes both.
    ///
    /// # Errors
    /// When the value of the flag or of the variable is not a URL of PostgreSQL.
    pub(crate) fn of_target(
        target: &Target,
        configured: Option<Self>,
    ) -> Result<Option<Self>, Failure> {
        let explicit = target.store.as_deref().map(Self::from_flag).transpose()?;
        Ok(explicit.or(configured).filter(|_| !target.is_data_dir_chosen))
    }

    /// Parses the value of `--store`.
    ///
    /// # Errors
    /// When it is not a URL of PostgreSQL.
    pub(crate) fn from_flag(text: &str) -> Result<Self, Failure> {
        text.parse().map_err(|reason: String| {
            Failure::new(Code::BadArgument, reason)
                .hint("correct --store or SKILLS_STORE, such as postgres://user@host/database")
        })
    }

    /// Returns the URL of the database.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub const fn url(&self) -> &DatabaseUrl {
        &self.url
    }

    /// Returns the URL for the command line of another process. It has no password.
    pub(crate) fn argument(&self) -> &str {
        &self.argument
    }

    /// Returns whether the URL has a password, or `PGPASSWORD` is set.
    pub(crate) const fn has_password(&self) -> bool {
        self.has_password
    }

    /// Says to the compiler that there is no database.
    #[cfg(not(feature = "postgres"))]
    pub(crate) const fn never(&self) -> ! {
        match self.never {}
    }

    #[cfg(feature = "postgres")]
    async fn try_open(&self) -> Result<Result<Arc<dyn Store>, StoreError>, Failure> {
        let url = self.url.clone();
        let open = move || Ok(Arc::new(PostgresStore::open(&url)?) as Arc<dyn Store>);
        blocking(open).await
    }

    #[cfg(not(feature = "postgres"))]
    async fn try_open(&self) -> Result<Result<Arc<dyn Store>, StoreError>, Failure> {
        self.never()
    }

    /// Opens the store.
    ///
    /// # Errors
    /// When the database cannot be reached or used.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        Ok(self.try_open().await?.map_err(RegistryError::from)?)
    }

    /// Opens the store, and waits with growing pauses for a database that cannot be reached. `on_wait` is called once, with
    /// the first error.
    ///
    /// # Errors
    /// When waiting does not help: wrong password, no such database, a newer schema.
    pub(crate) async fn open_when_reachable(
        &self,
        on_wait: impl FnOnce(&str),
    ) -> Result<Arc<dyn Store>, Failure> {
        let mut on_wait = Some(on_wait);
        let mut pauses = RETRY_PAUSES.into_iter();
        let mut pause = Duration::ZERO;
        loop {
            match self.try_open().await? {
                Err(error) if error.is_transient() => {
                    if let Some(on_wait) = on_wait.take() {
                        on_wait(&error.to_string());
                    }
                    tracing::warn!(%error, "database not reachable, trying again");
                }
                opened => return Ok(opened.map_err(RegistryError::from)?),
            }
            pause = pauses.next().unwrap_or(pause);
            tokio::time::sleep(pause).await;
        }
    }

    /// Opens the store again after vault or registry could not be opened, so that the next attempt follows when the
    /// database is back. Opening the store decides whether waiting helps: it fails at once for a wrong password, for
    /// example. `on_wait` is called with the message of `failure`.
    ///
    /// # Errors
    /// `failure`, if it is not about the database. That of the store, if waiting does not help.
    pub(crate) async fn reopen(
        &self,
        failure: Failure,
        on_wait: impl FnOnce(&str),
    ) -> Result<Arc<dyn Store>, Failure> {
        if !may_pass(failure.code) {
            return Err(failure);
        }
        tracing::warn!(error = failure.message, "database lost during the start, trying again");
        on_wait(&failure.message);
        tokio::time::sleep(REOPEN_PAUSE).await;
        self.open_when_reachable(|_: &str| ()).await
    }

    /// Returns the error of requests while the process waits for this database.
    pub(crate) fn unavailable(&self, reason: &str) -> RegistryError {
        RegistryError::StoreUnreachable { reason: format!("{self}: {reason}") }
    }

    /// Tells the user that the process waits for this database. `health` is where the state can be read meanwhile.
    pub(crate) fn notify_waiting(&self, reason: &str, health: &str) {
        output::notice("waiting", &format!("for {self}: {reason}{health}"));
    }
}

/// Removes the password from a URL that can be parsed. A parameter whose name is encoded is removed too.
#[cfg(feature = "postgres")]
fn without_password(url: &str) -> String {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut text = match base.split_once('@') {
        Some((user, rest)) => {
            let (scheme, user) = user.split_once("://").unwrap_or_default();
            let user = user.split_once(':').map_or(user, |(user, _)| user);
            format!("{scheme}://{user}@{rest}")
        }
        None => base.to_owned(),
    };
    let is_kept = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        name != "password" && !name.contains('%')
    };
    for (at, pair) in query.split('&').filter(is_kept).filter(|pair| !pair.is_empty()).enumerate() {
        text.push(if at == 0 { '?' } else { '&' });
        text.push_str(pair);
    }
    text
}

/// Returns whether an error of vault or registry may be one of a database that is away, read-only or full.
const fn may_pass(code: Code) -> bool {
    matches!(code, Code::StoreUnavailable | Code::StoreFull | Code::VaultFull | Code::VaultIo)
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn the_argument_of_another_process_has_no_password() {
        for (given, argument) in [
            ("postgres://h/x", "postgres://h/x"),
            ("postgres://me@h/x?sslmode=require", "postgres://me@h/x?sslmode=require"),
            ("postgres://me:s3cret@a:1,b:2/x", "postgres://me@a:1,b:2/x"),
            ("postgresql://me:s3/cret@h/x", "postgresql://me@h/x"),
            ("postgres://me:s3%40cret@h/x?a=b", "postgres://me@h/x?a=b"),
            (
                "postgres://h/x?user=me&password=s3cret&sslmode=require",
                "postgres://h/x?user=me&sslmode=require",
            ),
            ("postgres://h/x?%70assword=s3cret", "postgres://h/x"),
        ] {
            assert_eq!(without_password(given), argument);
        }
        let database: Database = "postgres://me:s3cret@h/x?sslmode=require".parse().unwrap();
        assert_eq!(database.argument(), "postgres://me@h/x?sslmode=require");
        assert!(database.has_password());
    }
}
