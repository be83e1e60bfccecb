//! Revocation of keys: one by its id or its text, or all of an owner.
//!
//! A revocation takes effect in this process even if the file cannot be written, such as on a full disk. It is then held
//! in memory until [`Vault::store_revocations`] succeeds.

use std::collections::HashMap;

use rusqlite::{Connection, params};
use skills_core::{Digest, Owner, Timestamp};

use super::{COLUMNS, ID_DIGITS, KeyRow, by_hash, hash_of, key_id, key_row, subject};
use crate::{Actor, Vault, VaultError, audit::record, file::TxError};

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
    /// Revokes keys with effect from the next request, in this process even if the file cannot be written.
    ///
    /// # Errors
    /// When an id is malformed, unknown or ambiguous, or the file cannot be read.
    pub fn revoke_keys(
        &self,
        actor: Actor<'_>,
        selector: KeySelector<'_>,
    ) -> Result<Revocation, VaultError> {
        let error = match self.file.write(|transaction| revoke(transaction, actor, selector)) {
            Ok(keys) => return Ok(Revocation { keys, storage_error: None }),
            Err(error) if error.is_write_failure() => error,
            Err(error) => return Err(error),
        };
        let mut keys = self.file.read(|connection| select(connection, selector))?;
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
            match self.file.write(|transaction| revoke(transaction, actor, KeySelector::Id(&id))) {
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
    transaction: &Connection,
    actor: Actor<'_>,
    selector: KeySelector<'_>,
) -> Result<Vec<KeyRow>, TxError> {
    let mut rows = select(transaction, selector)?;
    rows.retain(|row| row.revoked_at.is_none());
    for row in &mut rows {
        let sql = "UPDATE key SET revoked_at = ?2 WHERE number = ?1";
        let change = params![row.number, actor.at.as_micros()];
        transaction.prepare_cached(sql)?.execute(change)?;
        record(transaction, actor, "key.revoke", &subject(row))?;
        row.revoked_at = Some(actor.at);
    }
    Ok(rows)
}

fn select(connection: &Connection, selector: KeySelector<'_>) -> Result<Vec<KeyRow>, TxError> {
    match selector {
        KeySelector::Owner(owner) => {
            let sql = format!(
                "SELECT {COLUMNS} FROM key WHERE owner = ?1 AND revoked_at IS NULL ORDER BY number"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            Ok(statement.query_map([owner.as_str()], key_row)?.collect::<rusqlite::Result<_>>()?)
        }
        KeySelector::Key(key) => match hash_of(key) {
            Some(hash) => match by_hash(connection, &hash)? {
                Some(row) => Ok(vec![row]),
                None => Err(VaultError::NoSuchKey(key_id(&hash)).into()),
            },
            None => Err(VaultError::NotAKey.into()),
        },
        KeySelector::Id(id) => {
            if id.len() < ID_DIGITS {
                return Err(VaultError::BadKeyId.into());
            }
            let (from, to) = (padded(id, '0')?, padded(id, 'f')?);
            let sql = format!("SELECT {COLUMNS} FROM key WHERE hash BETWEEN ?1 AND ?2 LIMIT 2");
            let mut statement = connection.prepare_cached(&sql)?;
            let found = statement.query_map([from.as_bytes(), to.as_bytes()], key_row)?;
            let found: Vec<KeyRow> = found.collect::<rusqlite::Result<_>>()?;
            match found.len() {
                0 => Err(VaultError::NoSuchKey(id.to_owned()).into()),
                1 => Ok(found),
                _ => Err(VaultError::AmbiguousKey(id.to_owned()).into()),
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
