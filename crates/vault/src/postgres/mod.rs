//! Vault in PostgreSQL, shared by several servers.
//!
//! A write transaction locks the one row of `vault_state`, so that writers of all servers take turns as those of one file
//! do. The lock ends with the session, which the database closes when its client is silent.
//!
//! - `commits`: outcome of a transaction whose connection broke
//! - `changes`: thread that follows changes of keys and notices whether the database can be reached
//! - `tables`, `keys`, `secrets`, `logs`: rows
//! - `rates`: counters of all servers
//! - `transfer`: copies

mod changes;
mod commits;
mod keys;
mod logs;
mod rates;
mod secrets;
mod tables;
mod transfer;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use skills_core::Digest;
use skills_postgres::{Component, DatabaseUrl, PgError, PgSession, Pool, PoolConfig, column};

use self::{
    changes::ChangeFollower,
    commits::CommitId,
    tables::{Connection, PgTables},
};
use crate::{
    VaultError,
    backend::{KeyChanges, SharedCounters, StoredKey, TablesFn, VaultBackend},
    error::ServerFailure,
};

const COMPONENT: Component = Component {
    name: "vault",
    migrations: &[include_str!("schema.sql"), include_str!("commits.sql")],
};

/// Most connections for changes and lists.
const MAX_CONNECTIONS: usize = 3;
/// Most connections for lookups that requests wait for, counting uses, and checks. They are apart, so that none of them
/// waits behind a change that waits for another server.
const MAX_QUICK_CONNECTIONS: usize = 3;
/// Time limit of what runs on the latter.
const QUICK_LIMIT: Duration = Duration::from_secs(2);
/// Time limit of waiting for the changes of other servers. It is longer than the time after which the database ends the
/// transaction of a server that hangs.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Vault in PostgreSQL.
pub(crate) struct PostgresBackend {
    database: Arc<Database>,
    follower: ChangeFollower,
    /// Number of transactions that were committed.
    commits: AtomicU64,
    #[cfg(test)]
    is_read_only: std::sync::atomic::AtomicBool,
}

impl fmt::Debug for PostgresBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresBackend").field(&self.database.pool).finish()
    }
}

/// Connections, and what is known about the server behind them.
pub(crate) struct Database {
    pool: Pool,
    quick_pool: Pool,
    contact: changes::Contact,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Database").field(&self.pool).finish()
    }
}

impl Database {
    /// Runs statements that a request waits for. They run again on another connection if an idle one was broken.
    fn quick<T>(
        &self,
        mut work: impl FnMut(&PgSession) -> Result<T, PgError>,
    ) -> Result<T, PgError> {
        let deadline = Instant::now() + QUICK_LIMIT;
        loop {
            let lease =
                self.quick_pool.lease(deadline.saturating_duration_since(Instant::now()))?;
            match work(&lease) {
                Err(error)
                    if error.is_unavailable() && lease.is_reused() && Instant::now() < deadline => {
                }
                done => return done,
            }
        }
    }

    /// Fails at once while the server is known to be away.
    fn check_contact(&self) -> Result<(), VaultError> {
        match self.contact.failure() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

impl PostgresBackend {
    /// Connects, creates or migrates the tables, and begins to follow changes. `max_stale` is the time for which keys are
    /// accepted from memory while the database is away; without one, for as long as it takes.
    pub(crate) fn open(url: &DatabaseUrl, max_stale: Option<Duration>) -> Result<Self, VaultError> {
        let config = PoolConfig {
            max_connections: MAX_CONNECTIONS,
            lock_timeout: LOCK_TIMEOUT,
            ..PoolConfig::default()
        };
        let quick_config = PoolConfig {
            max_connections: MAX_QUICK_CONNECTIONS,
            statement_timeout: QUICK_LIMIT,
            call_timeout: QUICK_LIMIT,
            ..PoolConfig::default()
        };
        let (pool, quick_pool) = (Pool::new(url, config)?, Pool::new(url, quick_config)?);
        pool.migrate(&COMPONENT)?;
        let contact = changes::Contact::new(max_stale);
        let database = Arc::new(Database { pool, quick_pool, contact });
        let follower = ChangeFollower::start(&database)?;
        Ok(Self {
            database,
            follower,
            commits: AtomicU64::new(0),
            #[cfg(test)]
            is_read_only: false.into(),
        })
    }

    /// Runs a transaction and returns what it changed.
    fn transact(&self, id: &CommitId, run: &mut TablesFn<'_>) -> Result<Changed, VaultError> {
        self.database.pool.transaction(|session| {
            #[cfg(test)]
            if self.is_read_only.load(std::sync::atomic::Ordering::Relaxed) {
                session.batch("SET TRANSACTION READ ONLY")?;
            }
            // Waits for the transactions of all other servers.
            let revision: i64 =
                column(&session.query_one(commits::LOCK_STATE, &[&id.as_bytes()])?, 0)?;
            let mut tables = PgTables::new(Connection::PgSession(session), revision + 1);
            run(&mut tables)?;
            if tables.has_key_changes {
                session.execute("UPDATE vault_state SET revision = $1", &[&(revision + 1)])?;
            }
            Ok(Changed {
                keys: tables.has_key_changes.then_some(tables.changed_keys),
                secrets: tables.has_secret_changes,
            })
        })
    }
}

/// Changes of a transaction.
struct Changed {
    /// Keys that have changed; `None` if neither keys nor profiles have.
    keys: Option<Vec<Digest>>,
    /// Set if secrets or grants have changed.
    secrets: bool,
}

impl VaultBackend for PostgresBackend {
    fn with_reader(&self, run: &mut TablesFn<'_>) -> Result<(), VaultError> {
        self.database.check_contact()?;
        run(&mut PgTables::new(Connection::Pool(&self.database.pool), 0))
    }

    fn with_transaction(&self, run: &mut TablesFn<'_>) -> Result<(), VaultError> {
        self.database.check_contact()?;
        let id = CommitId::random()?;
        let changed = match self.transact(&id, run) {
            Ok(changed) => changed,
            Err(error) if error.server_failure() == Some(ServerFailure::OutcomeUnknown) => {
                // The list of changes went with the connection.
                self.follower.forget_secrets();
                match commits::was_committed(self.database.pool.url(), &id) {
                    Some(true) => {}
                    Some(false) => {
                        let reason = "the connection broke before the commit".to_owned();
                        return Err(PgError::Unavailable(reason).into());
                    }
                    None => return Err(error),
                }
                // All changes of keys come with the check.
                Changed { keys: Some(vec![]), secrets: true }
            }
            Err(error) => return Err(error),
        };
        // Own changes count from here on, even if the database goes away now.
        if changed.secrets {
            self.follower.forget_secrets();
        }
        if let Some(keys) = changed.keys {
            self.follower.forget_keys(&keys);
            self.follower.check_now();
        }
        if self.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(commits::PRUNE_INTERVAL) {
            // Left to a later transaction if it fails.
            let _ = self.database.quick(commits::prune);
        }
        Ok(())
    }

    fn stored_key(&self, hash: &Digest) -> Result<Option<StoredKey>, VaultError> {
        self.database.check_contact()?;
        Ok(self.database.quick(|session| keys::stored_key(session, hash))?)
    }

    fn key_changes(&self) -> Result<KeyChanges, VaultError> {
        self.database.contact.check_age()?;
        Ok(self.follower.take_changes())
    }

    fn shared_counters(&self) -> Option<Arc<dyn SharedCounters>> {
        Some(Arc::<Database>::clone(&self.database))
    }

    fn may_use_copies(&self) -> bool {
        self.database.contact.check_age().is_ok()
    }

    fn take_secret_changes(&self) -> bool {
        self.follower.take_secret_changes()
    }

    #[cfg(test)]
    fn set_read_only(&self, read_only: bool) {
        self.is_read_only.store(read_only, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(test_postgres)]
mod tests;
