//! Key lookup with a cache that follows the changes of the database. Every request looks its key up.

use std::collections::HashMap;

use skills_core::{Digest, Timestamp};

use super::hash_of;
use crate::{
    KeyInfo, Plan, Vault, VaultError,
    backend::{KeyChanges, StoredKey},
};

/// Most cached keys; a full cache is cleared. Only existing keys are cached, so a client cannot fill it with guesses.
const CAPACITY: usize = 65_536;

/// Cache of the keys that were looked up and have not changed since. A key is unverified after a restart of the database,
/// which may have lost its last change: it is looked up again, and accepted as it is while that is not possible.
#[derive(Debug, Default)]
pub(crate) struct KeyCache {
    keys: HashMap<Digest, CachedKey>,
    /// Number of changes applied. A key that was read before the last of them is not cached.
    changes: u64,
    /// Number of changes that any key may be among. Keys that were read before the last of them are unverified.
    epoch: u64,
}

#[derive(Debug)]
struct CachedKey {
    key: StoredKey,
    /// Epoch that the key was read in.
    epoch: u64,
}

impl KeyCache {
    fn apply(&mut self, changes: KeyChanges) {
        match changes {
            KeyChanges::None => return,
            KeyChanges::All => self.keys.clear(),
            KeyChanges::Some { keys, others } => {
                self.epoch += u64::from(others);
                for (hash, key) in keys {
                    match key {
                        Some(key) => {
                            self.keys.entry(hash).and_modify(|cached| cached.key = key);
                        }
                        None => {
                            self.keys.remove(&hash);
                        }
                    }
                }
            }
        }
        self.changes += 1;
    }

    fn insert(&mut self, hash: Digest, key: StoredKey) {
        if self.keys.len() >= CAPACITY {
            self.keys.clear();
        }
        self.keys.insert(hash, CachedKey { key, epoch: self.epoch });
    }

    /// Returns a key that is as the database has it.
    fn verified(&self, hash: &Digest) -> Option<&StoredKey> {
        let cached = self.keys.get(hash).filter(|cached| cached.epoch == self.epoch);
        cached.map(|cached| &cached.key)
    }
}

impl Vault {
    /// Returns the active key that a bearer token is; `None` if it is not a key, unknown, expired or revoked.
    ///
    /// # Errors
    /// When the vault cannot be read. The request must then be rejected.
    pub fn find_key(&self, bearer: &str, now: Timestamp) -> Result<Option<KeyInfo>, VaultError> {
        hash_of(bearer).map_or(Ok(None), |hash| self.find_key_by_hash(&hash, now))
    }

    /// Returns the plan of a key that the same request looked up before, without reading the vault.
    #[must_use]
    pub fn cached_plan(&self, hash: &Digest) -> Option<Plan> {
        self.key_cache.lock().keys.get(hash).map(|cached| cached.key.plan)
    }

    /// Returns the active key with this hash; `None` if it is unknown, expired or revoked.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn find_key_by_hash(
        &self,
        hash: &Digest,
        now: Timestamp,
    ) -> Result<Option<KeyInfo>, VaultError> {
        if self.pending_revocations.lock().contains_key(hash) {
            return Ok(None);
        }
        let key = self.current_key(hash)?;
        let active = key.filter(|key| key.expires_at.is_none_or(|end| now < end));
        Ok(active.map(|key| KeyInfo { owner: key.owner, hash: *hash, plan: key.plan }))
    }

    /// Returns a key that is not revoked, from the cache if it can. The cache is not locked while the database is read.
    fn current_key(&self, hash: &Digest) -> Result<Option<StoredKey>, VaultError> {
        let changes = {
            let mut cache = self.key_cache.lock();
            cache.apply(self.backend.key_changes()?);
            if let Some(key) = cache.verified(hash) {
                return Ok(Some(key.clone()));
            }
            cache.changes
        };
        let found = self.backend.stored_key(hash);
        let mut cache = self.key_cache.lock();
        match &found {
            Ok(Some(key)) if cache.changes == changes => cache.insert(*hash, key.clone()),
            Ok(Some(_)) => {}
            Ok(None) => {
                cache.keys.remove(hash);
            }
            Err(error) if error.is_unavailable() => {
                cache.apply(self.backend.key_changes()?);
                if let Some(unverified) = cache.keys.get(hash) {
                    return Ok(Some(unverified.key.clone()));
                }
            }
            Err(_) => {}
        }
        found
    }
}
