//! Bearer keys: `us-` and 256 random bits, shown once and stored as SHA-256 only.
//!
//! A key's row has its owner and its lifetime. The plan is in the owner's profile, so it is the same for all keys of a
//! user. A revoked key keeps its row.

mod cache;
mod last_use;
mod revoke;

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use skills_core::{Digest, Owner, Timestamp, caller::KEY_PREFIX};
use zeroize::Zeroizing;

pub(crate) use cache::KeyCache;
pub(crate) use last_use::LastUses;
pub use revoke::{KeySelector, Revocation};
pub(crate) use revoke::{PendingRevocations, revoke};

use crate::{
    Actor, Plan, ProfileChange, Vault, VaultError,
    audit::record,
    crypt::random,
    file::{TxError, corrupt_column},
    profiles,
};

/// Longest bearer token that is hashed; keys are shorter.
const MAX_KEY_BYTES: usize = 512;
/// Hexadecimal digits of a key id.
const ID_DIGITS: usize = 8;
/// Most active keys of one owner.
const MAX_KEYS: usize = 1000;
/// Longest label, in bytes.
const MAX_LABEL_BYTES: usize = 128;
/// Most rows of one page.
const MAX_PAGE: usize = 1000;

/// Returns the SHA-256 of a bearer token that has the form of a key.
pub(crate) fn hash_of(bearer: &str) -> Option<Digest> {
    let is_key = bearer.starts_with(KEY_PREFIX) && bearer.len() <= MAX_KEY_BYTES;
    is_key.then(|| Digest::of(bearer.as_bytes()))
}

/// Returns the id of a key: the first digits of its hash.
#[must_use]
pub fn key_id(hash: &Digest) -> String {
    let mut id = hash.to_string();
    id.truncate(ID_DIGITS);
    id
}

/// An active key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// Owner of the key.
    pub owner: Owner,
    /// SHA-256 of the key.
    pub hash: Digest,
    /// Plan of the owner.
    pub plan: Plan,
}

/// A key to create.
#[derive(Debug, Clone)]
pub struct NewKey<'a> {
    /// Owner of the key.
    pub owner: &'a Owner,
    /// New plan of the owner, if it changes.
    pub plan: Option<Plan>,
    /// Purpose of the key.
    pub label: Option<&'a str>,
    /// End of its life, if it has one.
    pub expires_at: Option<Timestamp>,
}

impl<'a> NewKey<'a> {
    /// Creates a request for a key without label and expiry that leaves the plan as it is.
    #[must_use]
    pub const fn for_owner(owner: &'a Owner) -> Self {
        Self { owner, plan: None, label: None, expires_at: None }
    }
}

/// A new key. Its text is available here only.
pub struct CreatedKey {
    /// Text of the key.
    pub key: Zeroizing<String>,
    /// Stored row.
    pub row: KeyRow,
    /// Plan of the owner.
    pub plan: Plan,
}

impl fmt::Debug for CreatedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedKey").field("row", &self.row).finish_non_exhaustive()
    }
}

/// Stored row of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Number of the row, in order of creation.
    pub number: u64,
    /// SHA-256 of the key.
    pub hash: Digest,
    /// Owner of the key.
    pub owner: Owner,
    /// Purpose of the key.
    pub label: Option<String>,
    /// Time of creation.
    pub created_at: Timestamp,
    /// End of its life.
    pub expires_at: Option<Timestamp>,
    /// Time of revocation.
    pub revoked_at: Option<Timestamp>,
}

impl KeyRow {
    /// Returns the id of the key.
    #[must_use]
    pub fn id(&self) -> String {
        key_id(&self.hash)
    }

    /// Returns whether the key can be used: neither revoked nor expired.
    #[must_use]
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

const COLUMNS: &str = "number, hash, owner, label, created_at, expires_at, revoked_at";

fn key_row(row: &Row<'_>) -> rusqlite::Result<KeyRow> {
    let time = |column| -> rusqlite::Result<_> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
    };
    Ok(KeyRow {
        number: row.get(0)?,
        hash: Digest::from_bytes(row.get(1)?),
        owner: row.get_ref(2)?.as_str()?.parse().map_err(|_| corrupt_column("owner"))?,
        label: row.get(3)?,
        created_at: Timestamp::from_micros(row.get(4)?),
        expires_at: time(5)?,
        revoked_at: time(6)?,
    })
}

/// Returns the row of the key with this hash.
pub(crate) fn by_hash(connection: &Connection, hash: &Digest) -> rusqlite::Result<Option<KeyRow>> {
    let sql = format!("SELECT {COLUMNS} FROM key WHERE hash = ?1");
    connection.prepare_cached(&sql)?.query_row([hash.as_bytes()], key_row).optional()
}

/// Rejects the nil UUID, which older data contains and which is not a user.
pub(crate) fn reject_nil_owner(owner: &Owner) -> Result<(), VaultError> {
    if owner.is_nil() { Err(VaultError::NilOwner) } else { Ok(()) }
}

fn insert(
    transaction: &Connection,
    actor: Actor<'_>,
    action: &str,
    hash: &Digest,
    key: &NewKey<'_>,
) -> Result<KeyRow, TxError> {
    let NewKey { owner, plan, label, expires_at } = key;
    reject_nil_owner(owner)?;
    let is_invalid =
        |label: &str| label.len() > MAX_LABEL_BYTES || label.contains(char::is_control);
    if label.is_some_and(is_invalid) {
        return Err(VaultError::BadLabel.into());
    }
    let sql = "SELECT count(*) FROM key WHERE owner = ?1 AND revoked_at IS NULL
               AND (expires_at IS NULL OR expires_at > ?2)";
    let count: usize = transaction
        .prepare_cached(sql)?
        .query_row(params![owner.as_str(), actor.at.as_micros()], |row| row.get(0))?;
    if count >= MAX_KEYS {
        let owner = owner.as_str().to_owned();
        return Err(VaultError::TooMany { owner, what: "keys", max: MAX_KEYS }.into());
    }
    let sql = format!(
        "INSERT INTO key (hash, owner, label, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)
         RETURNING {COLUMNS}"
    );
    let expires = expires_at.map(Timestamp::as_micros);
    let values = params![hash.as_bytes(), owner.as_str(), label, actor.at.as_micros(), expires];
    let row = transaction.prepare_cached(&sql)?.query_row(values, key_row)?;
    if plan.is_some() {
        let change = ProfileChange { plan: *plan, ..ProfileChange::default() };
        profiles::put(transaction, actor, owner, &change)?;
    }
    record(transaction, actor, action, &subject(&row))?;
    Ok(row)
}

/// Stores the hash of a key that another system created.
pub(crate) fn adopt(
    transaction: &Connection,
    actor: Actor<'_>,
    hash: &Digest,
    key: &NewKey<'_>,
) -> Result<KeyRow, TxError> {
    reject_nil_owner(key.owner)?;
    let Some(row) = by_hash(transaction, hash)? else {
        return insert(transaction, actor, "key.adopt", hash, key);
    };
    if row.revoked_at.is_some() {
        return Err(VaultError::KeyRevoked(row.id()).into());
    }
    if row.owner != *key.owner {
        return Err(VaultError::KeyTaken(row.id()).into());
    }
    if row.expires_at != key.expires_at {
        let sql = "UPDATE key SET expires_at = ?2 WHERE number = ?1";
        let expires = key.expires_at.map(Timestamp::as_micros);
        transaction.prepare_cached(sql)?.execute(params![row.number, expires])?;
        record(transaction, actor, "key.expiry", &subject(&row))?;
    }
    Ok(KeyRow { expires_at: key.expires_at, ..row })
}

fn subject(row: &KeyRow) -> String {
    format!("{} of {}", row.id(), row.owner.as_str())
}

fn plan_of(connection: &Connection, owner: &Owner) -> rusqlite::Result<Plan> {
    let sql = "SELECT tier FROM profile WHERE owner = ?1";
    let plan: Option<Option<String>> =
        connection.prepare_cached(sql)?.query_row([owner.as_str()], |row| row.get(0)).optional()?;
    match plan.flatten() {
        Some(plan) => plan.parse().map_err(|_| corrupt_column("tier")),
        None => Ok(Plan::default()),
    }
}

impl Vault {
    /// Creates a key.
    ///
    /// # Errors
    /// When the label cannot be used, the owner has too many keys, or the file cannot be written.
    pub fn create_key(&self, actor: Actor<'_>, key: &NewKey<'_>) -> Result<CreatedKey, VaultError> {
        let bytes = Zeroizing::new(random::<32>()?);
        // Allocated at its final size: a reallocation would leave a copy of the key in memory.
        let mut text = Zeroizing::new(String::with_capacity(KEY_PREFIX.len() + 44));
        text.push_str(KEY_PREFIX);
        URL_SAFE_NO_PAD.encode_string(*bytes, &mut text);
        let hash = Digest::of(text.as_bytes());
        self.file.write(|transaction| {
            let row = insert(transaction, actor, "key.create", &hash, key)?;
            let plan = plan_of(transaction, key.owner)?;
            Ok(CreatedKey { key: text, row, plan })
        })
    }

    /// Stores the hash of a key that another system created. A known key gets the new expiry.
    ///
    /// # Errors
    /// When it belongs to another user or was revoked here, and as for [`Vault::create_key`].
    pub fn adopt_key(
        &self,
        actor: Actor<'_>,
        hash: &Digest,
        key: &NewKey<'_>,
    ) -> Result<KeyRow, VaultError> {
        self.file.write(|transaction| adopt(transaction, actor, hash, key))
    }

    /// Returns a page of keys after a number, oldest first, of one owner or of all.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn keys(
        &self,
        owner: Option<&Owner>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<KeyRow>, VaultError> {
        let mut rows = self.file.read(|connection| {
            let filter = if owner.is_some() { "owner = ?3" } else { "?3 IS NULL" };
            let sql = format!(
                "SELECT {COLUMNS} FROM key WHERE number > ?1 AND {filter} ORDER BY number LIMIT ?2"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let owner = owner.map(Owner::as_str);
            let rows = statement.query_map(params![after, limit.min(MAX_PAGE), owner], key_row)?;
            Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
        })?;
        let pending = self.pending_revocations.lock();
        for row in &mut rows {
            row.revoked_at = row.revoked_at.or_else(|| Some(pending.get(&row.hash)?.1));
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests;
