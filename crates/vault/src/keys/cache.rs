//! Key lookup with a cache that is valid until the file changes. Every request looks its key up.
//!
//! Asking SQLite for a change costs as much as the rest of a small request, so the file is asked after every change
//! through this vault, and otherwise once per [`CHECK_INTERVAL`]. A change by another process is seen within that time.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OptionalExtension as _, Row};
use skills_core::{Digest, Owner, Timestamp};

use super::hash_of;
use crate::{KeyInfo, Plan, Vault, VaultError, file::corrupt_column};

/// Most cached keys; a full cache is cleared. Only existing keys are cached, so a client cannot fill it with guesses.
const CAPACITY: usize = 65_536;

/// Time for which the file is taken to be unchanged by other processes.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Cache of the keys that were looked up since the file last changed.
#[derive(Debug)]
pub(crate) struct KeyCache {
    /// A connection of its own: its `data_version` counts the changes of all others, also in this process.
    connection: Connection,
    version: i64,
    /// Time of the last check of the file, and the [number of writes](VaultFile::writes) before it.
    checked: Option<(Instant, u64)>,
    keys: HashMap<Digest, CachedKey>,
}

#[derive(Debug, Clone)]
struct CachedKey {
    owner: Owner,
    plan: Plan,
    expires_at: Option<Timestamp>,
}

impl KeyCache {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection, version: 0, checked: None, keys: HashMap::new() }
    }

    /// Clears the cache if the file has changed.
    fn refresh(&mut self, writes: u64) -> rusqlite::Result<()> {
        let now = Instant::now();
        let is_fresh = |(at, seen): (Instant, u64)| seen == writes && now - at < CHECK_INTERVAL;
        if self.checked.is_some_and(is_fresh) {
            return Ok(());
        }
        // Changes with every commit of another connection.
        let version = self
            .connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if self.version != version {
            self.keys.clear();
            self.version = version;
        }
        self.checked = Some((now, writes));
        Ok(())
    }

    fn find(&mut self, hash: Digest, writes: u64) -> rusqlite::Result<Option<&CachedKey>> {
        self.refresh(writes)?;
        if !self.keys.contains_key(&hash) {
            let sql =
                "SELECT k.owner, p.tier, k.expires_at FROM key k LEFT JOIN profile p USING (owner)
                       WHERE k.hash = ?1 AND k.revoked_at IS NULL";
            let mut statement = self.connection.prepare_cached(sql)?;
            let Some(key) = statement.query_row([hash.as_bytes()], cached_key).optional()? else {
                return Ok(None);
            };
            if self.keys.len() >= CAPACITY {
                self.keys.clear();
            }
            self.keys.insert(hash, key);
        }
        Ok(self.keys.get(&hash))
    }
}

fn cached_key(row: &Row<'_>) -> rusqlite::Result<CachedKey> {
    let plan = match row.get_ref(1)?.as_str_or_null()? {
        Some(plan) => plan.parse().map_err(|_| corrupt_column("tier"))?,
        None => Plan::default(),
    };
    Ok(CachedKey {
        owner: row.get_ref(0)?.as_str()?.parse().map_err(|_| corrupt_column("owner"))?,
        plan,
        expires_at: row.get::<_, Option<i64>>(2)?.map(Timestamp::from_micros),
    })
}

impl Vault {
    /// Returns the active key that a bearer token is; `None` if it is not a key, unknown, expired or revoked.
    ///
    /// # Errors
    /// When the file cannot be read. The request must then be rejected.
    pub fn find_key(&self, bearer: &str, now: Timestamp) -> Result<Option<KeyInfo>, VaultError> {
        hash_of(bearer).map_or(Ok(None), |hash| self.find_key_by_hash(&hash, now))
    }

    /// Returns the plan of a key that the same request looked up before, without reading the file.
    #[must_use]
    pub fn cached_plan(&self, hash: &Digest) -> Option<Plan> {
        self.key_cache.lock().keys.get(hash).map(|key| key.plan)
    }

    /// Returns the active key with this hash; `None` if it is unknown, expired or revoked.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn find_key_by_hash(
        &self,
        hash: &Digest,
        now: Timestamp,
    ) -> Result<Option<KeyInfo>, VaultError> {
        if self.pending_revocations.lock().contains_key(hash) {
            return Ok(None);
        }
        let mut cache = self.key_cache.lock();
        let key =
            cache.find(*hash, self.file.writes()).map_err(|error| self.file.error(error.into()))?;
        let active = key.filter(|key| key.expires_at.is_none_or(|end| now < end));
        Ok(active.map(|key| KeyInfo { owner: key.owner.clone(), hash: *hash, plan: key.plan }))
    }
}
