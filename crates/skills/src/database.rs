//! Database that holds the registry instead of the file of a data directory.

use std::{fmt, net::SocketAddr, str::FromStr, sync::Arc, time::Duration};

use skills_core::Code;
use skills_http::{App, Guard, Readiness};
#[cfg(feature = "postgres")]
use skills_store::{DatabaseUrl, PostgresStore};
use skills_store::{Store, StoreError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{Failure, blocking::blocking, cli::Target, output};

/// Pauses between attempts to reach a database at the start; the last one is repeated.
const RETRY_PAUSES: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// Address of a PostgreSQL database. Printed without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Database {
    #[cfg(feature = "postgres")]
    url: DatabaseUrl,
}

impl fmt::Display for Database {
    #[cfg(feature = "postgres")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }

    #[cfg(not(feature = "postgres"))]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres")
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
        Ok(Self { url: url.with_default_password(password.as_deref()) })
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

    /// Opens the store. Blocks.
    #[cfg(feature = "postgres")]
    fn open_blocking(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(PostgresStore::open(&self.url)?))
    }

    #[cfg(not(feature = "postgres"))]
    fn open_blocking(&self) -> Result<Arc<dyn Store>, StoreError> {
        Err(StoreError::NoHistory("this program was built without PostgreSQL"))
    }

    async fn try_open(&self) -> Result<Result<Arc<dyn Store>, StoreError>, Failure> {
        let database = self.clone();
        blocking(move || database.open_blocking()).await
    }

    /// Opens the store.
    ///
    /// # Errors
    /// When the database cannot be reached or used.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        Ok(self.try_open().await?.map_err(skills_registry::RegistryError::from)?)
    }

    /// Opens the store, and waits with growing pauses for a database that cannot be reached.
    ///
    /// # Errors
    /// When waiting does not help: wrong password, no such database, a newer schema.
    pub(crate) async fn open_when_reachable(&self) -> Result<Arc<dyn Store>, Failure> {
        self.wait_until_open(None).await
    }

    /// Opens the store when it can be. `health` is the address at which health is served meanwhile.
    async fn wait_until_open(&self, health: Option<SocketAddr>) -> Result<Arc<dyn Store>, Failure> {
        let mut pauses = RETRY_PAUSES.into_iter();
        let mut pause = Duration::ZERO;
        loop {
            match self.try_open().await? {
                Err(error) if error.is_transient() => {
                    if pause.is_zero() {
                        let health = health.map(|at| format!("; health: http://{at}/readyz"));
                        let health = health.unwrap_or_default();
                        output::notice("waiting", &format!("for {self}: {error}{health}"));
                    }
                    tracing::warn!(%error, "database not reachable, trying again");
                }
                opened => return Ok(opened.map_err(skills_registry::RegistryError::from)?),
            }
            pause = pauses.next().unwrap_or(pause);
            tokio::time::sleep(pause).await;
        }
    }

    /// Opens the store as [`open_when_reachable`](Self::open_when_reachable) does. Meanwhile health is served on a
    /// listener, and every other request is refused.
    ///
    /// # Errors
    /// When waiting does not help.
    pub(crate) async fn open_for_server(
        &self,
        listener: &mut Option<TcpListener>,
        guard: Guard,
    ) -> Result<Arc<dyn Store>, Failure> {
        if let Ok(opened) = self.try_open().await? {
            return Ok(opened);
        }
        let Some(bound) = listener.take() else { return self.open_when_reachable().await };
        let address = bound.local_addr().ok();
        let bound = bound.into_std()?;
        let copy = TcpListener::from_std(bound.try_clone()?)?;
        let readiness = Readiness::default();
        readiness.set_waiting("the database cannot be reached");
        let stop = CancellationToken::new();
        let app = App::new(axum::Router::new(), guard, readiness);
        let serving = tokio::spawn(skills_http::serve(copy, app, stop.clone()));
        let opened = self.wait_until_open(address).await;
        stop.cancel();
        let _ = serving.await;
        *listener = Some(TcpListener::from_std(bound)?);
        opened
    }
}
