//! Outcome of a transaction whose connection broke during its commit.
//!
//! Each transaction that changes the vault inserts a random id with the statement that locks `vault_state`. The number that
//! the database gives a transaction would not do: one that a crash or a failover loses is given out again.

use std::{
    thread,
    time::{Duration, Instant},
};

use skills_postgres::{DatabaseUrl, PgError, PgSession, Pool, PoolConfig, column};

use crate::{VaultError, crypt};

/// First statement of a transaction: locks the state, inserts the id, and returns the revision.
pub(super) const LOCK_STATE: &str = "
    WITH state AS (SELECT revision FROM vault_state FOR UPDATE),
         id AS (INSERT INTO vault_commit (id) SELECT $1::bytea FROM state)
    SELECT revision FROM state";

/// Transactions between two removals of old ids.
pub(super) const PRUNE_INTERVAL: u64 = 2048;

/// Time for which the outcome is looked up. It is longer than the time after which the database ends the transaction of a
/// client that is silent, [`JOINT_IDLE_LIMIT`](super::tables::JOINT_IDLE_LIMIT) included.
const TIME_LIMIT: Duration = Duration::from_secs(12);
/// Time limit of one attempt, beside connecting.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Random id of a transaction.
pub(super) struct CommitId([u8; 16]);

impl CommitId {
    pub(super) fn random() -> Result<Self, VaultError> {
        Ok(Self(crypt::random()?))
    }

    pub(super) const fn as_bytes(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Finds out whether a transaction was committed whose connection broke. The lock of the state waits for the end of that
/// transaction, so the answer is final: if its id is missing then, it will never be committed. Returns `None` if the
/// database does not tell within the time limit.
pub(super) fn was_committed(url: &DatabaseUrl, id: &CommitId) -> Option<bool> {
    let deadline = Instant::now() + TIME_LIMIT;
    let config = PoolConfig {
        max_connections: 1,
        statement_timeout: ATTEMPT_LIMIT,
        lock_timeout: ATTEMPT_LIMIT,
        call_timeout: ATTEMPT_LIMIT,
        ..PoolConfig::default()
    };
    // Its connections are new, and no change or lookup waits for them.
    let pool = Pool::new(url, config).ok()?;
    while Instant::now() < deadline {
        // The commit of the lock makes the answer durable: what it saw is on the disk, and on synchronous standbys.
        let found = pool.transaction(|session| {
            session.query_one("SELECT revision FROM vault_state FOR UPDATE", &[])?;
            // A statement of its own, which sees what was committed before the lock was granted.
            let sql = "SELECT EXISTS (SELECT FROM vault_commit WHERE id = $1)";
            column(&session.query_one(sql, &[&id.as_bytes()])?, 0)
        });
        match found {
            Ok(is_found) => return Some(is_found),
            Err(error) => tracing::debug!(%error, "outcome of a commit cannot be looked up yet"),
        }
        pool.close_idle();
        thread::sleep(PAUSE);
    }
    None
}

/// Removes the ids of transactions that no server asks for any more.
pub(super) fn prune(session: &PgSession) -> Result<u64, PgError> {
    session.execute("DELETE FROM vault_commit WHERE at < now() - interval '1 day'", &[])
}
