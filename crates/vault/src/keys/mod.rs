//! Bearer keys: `us-` and 256 random bits, shown once and stored as SHA-256 only.
//!
//! A key's row has its owner and its lifetime. The plan is in the owner's profile, so it is the same for all keys of a
//! user. A revoked key keeps its row.

mod cache;
mod last_use;
mod revoke;

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use skills_core::{Digest, Owner, Timestamp, caller::KEY_PREFIX};
use zeroize::Zeroizing;

pub(crate) use cache::KeyCache;
pub(crate) use last_use::LastUses;
pub use revoke::{KeySelector, Revocation};
pub(crate) use revoke::{PendingRevocations, revoke};

use crate::{
    Actor, Plan, ProfileChange, Vault, VaultError, audit::record, backend::Tables, crypt::random,
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

/// Rejects the nil UUID, which older data contains and which is not a user.
pub(crate) fn reject_nil_owner(owner: &Owner) -> Result<(), VaultError> {
    if owner.is_nil() { Err(VaultError::NilOwner) } else { Ok(()) }
}

fn insert(
    tables: &mut dyn Tables,
    actor: Actor<'_>,
    action: &str,
    hash: &Digest,
    key: &NewKey<'_>,
) -> Result<KeyRow, VaultError> {
    let NewKey { owner, plan, label, .. } = key;
    reject_nil_owner(owner)?;
    let is_invalid =
        |label: &str| label.len() > MAX_LABEL_BYTES || label.contains(char::is_control);
    if label.is_some_and(is_invalid) {
        return Err(VaultError::BadLabel);
    }
    if tables.count_active_keys(owner, actor.at)? >= MAX_KEYS {
        let owner = owner.as_str().to_owned();
        return Err(VaultError::TooMany { owner, what: "keys", max: MAX_KEYS });
    }
    let row = tables.insert_key(hash, key, actor.at)?;
    if plan.is_some() {
        let change = ProfileChange { plan: *plan, ..ProfileChange::default() };
        profiles::put(tables, actor, owner, &change)?;
    }
    record(tables, actor, action, &subject(&row))?;
    Ok(row)
}

/// Stores the hash of a key that another system created.
pub(crate) fn adopt(
    tables: &mut dyn Tables,
    actor: Actor<'_>,
    hash: &Digest,
    key: &NewKey<'_>,
) -> Result<KeyRow, VaultError> {
    reject_nil_owner(key.owner)?;
    let Some(row) = tables.key_by_hash(hash)? else {
        return insert(tables, actor, "key.adopt", hash, key);
    };
    if row.revoked_at.is_some() {
        return Err(VaultError::KeyRevoked(row.id()));
    }
    if row.owner != *key.owner {
        return Err(VaultError::KeyTaken(row.id()));
    }
    if row.expires_at != key.expires_at {
        tables.set_key_expiry(row.number, key.expires_at)?;
        record(tables, actor, "key.expiry", &subject(&row))?;
    }
    Ok(KeyRow { expires_at: key.expires_at, ..row })
}

fn subject(row: &KeyRow) -> String {
    format!("{} of {}", row.id(), row.owner.as_str())
}

impl Vault {
    /// Creates a key.
    ///
    /// # Errors
    /// When the label cannot be used, the owner has too many keys, or the vault cannot be written.
    pub fn create_key(&self, actor: Actor<'_>, key: &NewKey<'_>) -> Result<CreatedKey, VaultError> {
        let bytes = Zeroizing::new(random::<32>()?);
        // Allocated at its final size: a reallocation would leave a copy of the key in memory.
        let mut text = Zeroizing::new(String::with_capacity(KEY_PREFIX.len() + 44));
        text.push_str(KEY_PREFIX);
        URL_SAFE_NO_PAD.encode_string(*bytes, &mut text);
        let hash = Digest::of(text.as_bytes());
        self.backend.write(|tables| {
            let row = insert(tables, actor, "key.create", &hash, key)?;
            let plan = tables.profile(key.owner)?.and_then(|profile| profile.plan);
            Ok(CreatedKey { key: text, row, plan: plan.unwrap_or_default() })
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
        self.backend.write(|tables| adopt(tables, actor, hash, key))
    }

    /// Returns a page of keys after a number, oldest first, of one owner or of all.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn keys(
        &self,
        owner: Option<&Owner>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<KeyRow>, VaultError> {
        let limit = limit.min(MAX_PAGE);
        let mut rows = self.backend.read(|tables| tables.keys_after(owner, after, limit))?;
        let pending = self.pending_revocations.lock();
        for row in &mut rows {
            row.revoked_at = row.revoked_at.or_else(|| Some(pending.get(&row.hash)?.1));
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests;
