//! Finding a key, for every request: from memory, as long as nobody has changed the file.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, Row};
use skills_core::{Digest, Owner, Timestamp};

use super::hash_of;
use crate::{AccountTier, KeyInfo, Vault, VaultError, file::unreadable};

/// Keys that are remembered; beyond it they are looked up anew. Only keys that exist are, so nobody can fill
/// it with others.
const MAX_KNOWN: usize = 65_536;

/// The keys that were asked for since the file last changed.
#[derive(Debug)]
pub(crate) struct KnownKeys {
    /// A connection of its own: it counts the changes of all others, also of those in this process.
    connection: Connection,
    version: i64,
    keys: HashMap<Digest, Known>,
}

#[derive(Debug, Clone)]
struct Known {
    owner: Owner,
    tier: AccountTier,
    expires_at: Option<Timestamp>,
}

impl KnownKeys {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection, version: 0, keys: HashMap::new() }
    }

    fn find(&mut self, hash: Digest) -> rusqlite::Result<Option<&Known>> {
        // A number that is different after every commit of another connection; reading it touches shared
        // memory alone.
        let version = self
            .connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        if self.version != version {
            self.keys.clear();
            self.version = version;
        }
        if !self.keys.contains_key(&hash) {
            let sql =
                "SELECT k.owner, p.tier, k.expires_at FROM key k LEFT JOIN profile p USING (owner)
                       WHERE k.hash = ?1 AND k.revoked_at IS NULL";
            let mut statement = self.connection.prepare_cached(sql)?;
            let Some(known) = statement.query_row([hash.as_bytes()], known).optional()? else {
                return Ok(None);
            };
            if self.keys.len() >= MAX_KNOWN {
                self.keys.clear();
            }
            self.keys.insert(hash, known);
        }
        Ok(self.keys.get(&hash))
    }
}

fn known(row: &Row<'_>) -> rusqlite::Result<Known> {
    let tier = match row.get_ref(1)?.as_str_or_null()? {
        Some(tier) => tier.parse().map_err(|_| unreadable("tier"))?,
        None => AccountTier::default(),
    };
    Ok(Known {
        owner: row.get_ref(0)?.as_str()?.parse().map_err(|_| unreadable("owner"))?,
        tier,
        expires_at: row.get::<_, Option<i64>>(2)?.map(Timestamp::from_micros),
    })
}

impl Vault {
    /// Who presents a bearer: nobody, if it is not a key, not one of ours, expired or revoked.
    ///
    /// # Errors
    /// When the file cannot be read. Whoever asks must then let nobody in.
    pub fn find(&self, bearer: &str, now: Timestamp) -> Result<Option<KeyInfo>, VaultError> {
        hash_of(bearer).map_or(Ok(None), |hash| self.find_hash(&hash, now))
    }

    /// The tier of a key that was found a moment ago, for the same request: the file is not asked again.
    #[must_use]
    pub fn tier_seen(&self, hash: &Digest) -> Option<AccountTier> {
        self.known_keys().keys.get(hash).map(|known| known.tier)
    }

    /// Whose key has this hash: nobody's, if it is not one of ours, expired or revoked.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn find_hash(&self, hash: &Digest, now: Timestamp) -> Result<Option<KeyInfo>, VaultError> {
        let mut keys = self.known_keys();
        let known = keys.find(*hash).map_err(|error| self.file.error(error.into()))?;
        let live = known.filter(|known| known.expires_at.is_none_or(|moment| now < moment));
        Ok(live.map(|known| KeyInfo { owner: known.owner.clone(), hash: *hash, tier: known.tier }))
    }
}
