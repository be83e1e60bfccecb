//! Revocation of keys: one by its id or its text, or all of an owner.
//!
//! A revocation takes effect in this process even if the file of the vault cannot be written, such as on a full disk. It is
//! then held in memory until [`Vault::store_revocations`] succeeds. In a database it succeeds or fails: other servers would
//! accept the key.

use std::collections::HashMap;

use skills_core::{Digest, Owner, Timestamp};

use super::{ID_DIGITS, KeyRow, hash_of, key_id, subject};
use crate::{Actor, Vault, VaultError, audit::record, backend::Tables};

/// Keys that are revoked in this process and not yet in the file, with author and time.
pub(crate) type PendingRevocations = HashMap<Digest, (String, Timestamp)>;

/// Result of a revocation.
#[derive(Debug)]
pub struct Revocation {
    /// Keys that were active before.
    pub keys: Vec<KeyRow>,
    /// Reason why the revocation is not in the file yet. Until it is, only this process rejects the keys, and a restart
    /// would accept them again.
    pub storage_error: Option<VaultError>,
}

/// Selection of keys.
#[derive(Clone, Copy)]
pub enum KeySelector<'a> {
    /// The key whose hash begins with these digits.
    Id(&'a str),
    /// The key with this text.
    Key(&'a str),
    /// All keys of an owner.
    Owner(&'a Owner),
}

impl Vault {
    /// Revokes keys with effect from the next request, in this process even if the file of the vault cannot be written.
    ///
    /// # Errors
    /// When an id is malformed, unknown or ambiguous, or the vault cannot be read; in a database also when it cannot be
    /// written.
    pub fn revoke_keys(
        &self,
        actor: Actor<'_>,
        selector: KeySelector<'_>,
    ) -> Result<Revocation, VaultError> {
        let error = match self.backend.write(|tables| revoke(tables, actor, selector)) {
            Ok(keys) => return Ok(Revocation { keys, storage_error: None }),
            Err(error) if error.is_write_failure() => error,
            Err(error) => return Err(error),
        };
        let mut keys = self.backend.read(|tables| select(tables, selector))?;
        let mut pending = self.pending_revocations.lock();
        keys.retain(|row| row.revoked_at.is_none() && !pending.contains_key(&row.hash));
        for row in &mut keys {
            row.revoked_at = Some(actor.at);
            pending.insert(row.hash, (actor.name.to_owned(), actor.at));
        }
        Ok(Revocation { keys, storage_error: Some(error) })
    }

    /// Writes revocations that are held in memory. Returns whether none is left.
    pub fn store_revocations(&self) -> bool {
        let pending = self.pending_revocations.lock().clone();
        let mut is_done = true;
        for (hash, (name, at)) in pending {
            let actor = Actor { name: &name, at };
            let id = hash.to_string();
            match self.backend.write(|tables| revoke(tables, actor, KeySelector::Id(&id))) {
                // A key that is gone from the file needs no revocation.
                Ok(_) | Err(VaultError::NoSuchKey(_)) => {
                    self.pending_revocations.lock().remove(&hash);
                }
                // The rest would fail as well, some after waiting for a lock.
                Err(error) if error.is_write_failure() => return false,
                // A damaged row, for example: the pending revocation keeps the key rejected.
                Err(_) => is_done = false,
            }
        }
        is_done
    }
}

/// Revokes keys in the caller's transaction.
pub(crate) fn revoke(
    tables: &mut dyn Tables,
    actor: Actor<'_>,
    selector: KeySelector<'_>,
) -> Result<Vec<KeyRow>, VaultError> {
    let mut rows = select(tables, selector)?;
    rows.retain(|row| row.revoked_at.is_none());
    for row in &mut rows {
        tables.set_key_revoked(row.number, actor.at)?;
        record(tables, actor, "key.revoke", &subject(row))?;
        row.revoked_at = Some(actor.at);
    }
    Ok(rows)
}

fn select(tables: &mut dyn Tables, selector: KeySelector<'_>) -> Result<Vec<KeyRow>, VaultError> {
    match selector {
        KeySelector::Owner(owner) => tables.unrevoked_keys(owner),
        KeySelector::Key(key) => {
            let hash = hash_of(key).ok_or(VaultError::NotAKey)?;
            match tables.key_by_hash(&hash)? {
                Some(row) => Ok(vec![row]),
                None => Err(VaultError::NoSuchKey(key_id(&hash))),
            }
        }
        KeySelector::Id(id) => {
            if id.len() < ID_DIGITS {
                return Err(VaultError::BadKeyId);
            }
            let (from, to) = (padded(id, '0')?, padded(id, 'f')?);
            let found = tables.keys_between((&from, &to), 2)?;
            match found.len() {
                0 => Err(VaultError::NoSuchKey(id.to_owned())),
                1 => Ok(found),
                _ => Err(VaultError::AmbiguousKey(id.to_owned())),
            }
        }
    }
}

/// Returns the first or last hash that begins with these digits.
fn padded(id: &str, fill: char) -> Result<Digest, VaultError> {
    let missing = 64_usize.saturating_sub(id.len());
    let text = format!("{id}{}", String::from(fill).repeat(missing));
    text.parse().map_err(|_| VaultError::BadKeyId)
}
