//! Bearer keys: `us-` and 256 random bits, shown once and kept as SHA-256 alone.
//!
//! Whose key it is and since when is a row; what a user may do is in the user's profile, so it is the same for
//! all their keys. A revoked key keeps its row.

mod known;
mod revoke;

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use skills_core::{Digest, Owner, Timestamp, caller::KEY_PREFIX};
use zeroize::Zeroizing;

pub(crate) use known::KnownKeys;
pub use revoke::WhichKeys;
pub(crate) use revoke::revoke;

use crate::{
    AccountTier, Act, ProfileChange, Vault, VaultError,
    audit::record,
    crypt::random,
    file::{Stop, unreadable},
    profiles,
};

/// Longer than any key; what is longer is not looked at.
const MAX_KEY_BYTES: usize = 512;
/// Hexadecimal digits of a hash that a key is called by.
const ID_DIGITS: usize = 8;
/// Most keys of one owner that can be used at a time.
const MAX_KEYS: usize = 1000;
/// Longest label, in bytes.
const MAX_LABEL_BYTES: usize = 128;
/// Most rows that are read at once.
const MAX_PAGE: usize = 1000;

/// The SHA-256 of a bearer that looks like a key.
pub(crate) fn hash_of(bearer: &str) -> Option<Digest> {
    let is_key = bearer.starts_with(KEY_PREFIX) && bearer.len() <= MAX_KEY_BYTES;
    is_key.then(|| Digest::of(bearer.as_bytes()))
}

/// What a key is called by: the first digits of its hash.
#[must_use]
pub fn key_id(hash: &Digest) -> String {
    let mut id = hash.to_string();
    id.truncate(ID_DIGITS);
    id
}

/// Who presents a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// Whose key it is.
    pub owner: Owner,
    /// Its SHA-256.
    pub hash: Digest,
    /// What the owner pays for.
    pub tier: AccountTier,
}

/// A key that is to be.
#[derive(Debug, Clone)]
pub struct NewKey<'a> {
    /// Whose it will be.
    pub owner: &'a Owner,
    /// The owner's tier from now on; as it was if there is none.
    pub tier: Option<AccountTier>,
    /// What it is for, in the owner's words.
    pub label: Option<&'a str>,
    /// When it ceases to be, if it does.
    pub expires_at: Option<Timestamp>,
}

/// A new key: the only moment at which it is known.
pub struct CreatedKey {
    /// The key.
    pub key: Zeroizing<String>,
    /// What is kept of it.
    pub row: KeyRow,
    /// The owner's tier.
    pub tier: AccountTier,
}

impl fmt::Debug for CreatedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedKey").field("row", &self.row).finish_non_exhaustive()
    }
}

/// What is kept of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Its place in the list.
    pub number: u64,
    /// Its SHA-256.
    pub hash: Digest,
    /// Whose it is.
    pub owner: Owner,
    /// What it is for.
    pub label: Option<String>,
    /// Since when.
    pub created_at: Timestamp,
    /// Until when.
    pub expires_at: Option<Timestamp>,
    /// Since when no more.
    pub revoked_at: Option<Timestamp>,
}

impl KeyRow {
    /// What the key is called by.
    #[must_use]
    pub fn id(&self) -> String {
        key_id(&self.hash)
    }

    /// Whether it can be used.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|moment| now < moment)
    }
}

const COLUMNS: &str = "number, hash, owner, label, created_at, expires_at, revoked_at";

fn key_row(row: &Row<'_>) -> rusqlite::Result<KeyRow> {
    let moment = |column| -> rusqlite::Result<_> {
        Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
    };
    Ok(KeyRow {
        number: row.get(0)?,
        hash: Digest::from_bytes(row.get(1)?),
        owner: row.get_ref(2)?.as_str()?.parse().map_err(|_| unreadable("owner"))?,
        label: row.get(3)?,
        created_at: Timestamp::from_micros(row.get(4)?),
        expires_at: moment(5)?,
        revoked_at: moment(6)?,
    })
}

/// What is kept of the key with this hash.
pub(crate) fn by_hash(connection: &Connection, hash: &Digest) -> rusqlite::Result<Option<KeyRow>> {
    let sql = format!("SELECT {COLUMNS} FROM key WHERE hash = ?1");
    connection.prepare_cached(&sql)?.query_row([hash.as_bytes()], key_row).optional()
}

/// The nil UUID is in data of before and belongs to no one.
pub(crate) fn refuse_nobody(owner: &Owner) -> Result<(), VaultError> {
    if owner.is_nobody() { Err(VaultError::NilOwner) } else { Ok(()) }
}

fn insert(
    transaction: &Connection,
    act: Act<'_>,
    action: &str,
    hash: &Digest,
    key: &NewKey<'_>,
) -> Result<KeyRow, Stop> {
    let NewKey { owner, tier, label, expires_at } = key;
    refuse_nobody(owner)?;
    let is_odd = |label: &str| label.len() > MAX_LABEL_BYTES || label.contains(char::is_control);
    if label.is_some_and(is_odd) {
        return Err(VaultError::BadLabel.into());
    }
    let sql = "SELECT count(*) FROM key WHERE owner = ?1 AND revoked_at IS NULL
               AND (expires_at IS NULL OR expires_at > ?2)";
    let held: usize = transaction
        .prepare_cached(sql)?
        .query_row(params![owner.as_str(), act.at.as_micros()], |row| row.get(0))?;
    if held >= MAX_KEYS {
        let owner = owner.as_str().to_owned();
        return Err(VaultError::TooMany { owner, what: "keys", max: MAX_KEYS }.into());
    }
    let sql = format!(
        "INSERT INTO key (hash, owner, label, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)
         RETURNING {COLUMNS}"
    );
    let expires = expires_at.map(Timestamp::as_micros);
    let values = params![hash.as_bytes(), owner.as_str(), label, act.at.as_micros(), expires];
    let row = transaction.prepare_cached(&sql)?.query_row(values, key_row)?;
    if tier.is_some() {
        let change = ProfileChange { tier: *tier, ..ProfileChange::default() };
        profiles::put(transaction, act, owner, &change)?;
    }
    record(transaction, act, action, &subject(&row))?;
    Ok(row)
}

/// Takes a key from elsewhere, in the transaction of who asks.
pub(crate) fn adopt(
    transaction: &Connection,
    act: Act<'_>,
    hash: &Digest,
    key: &NewKey<'_>,
) -> Result<KeyRow, Stop> {
    refuse_nobody(key.owner)?;
    let Some(row) = by_hash(transaction, hash)? else {
        return insert(transaction, act, "key.adopt", hash, key);
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
        record(transaction, act, "key.expiry", &subject(&row))?;
    }
    Ok(KeyRow { expires_at: key.expires_at, ..row })
}

fn subject(row: &KeyRow) -> String {
    format!("{} of {}", row.id(), row.owner.as_str())
}

fn tier_of(connection: &Connection, owner: &Owner) -> rusqlite::Result<AccountTier> {
    let sql = "SELECT tier FROM profile WHERE owner = ?1";
    let tier: Option<Option<String>> =
        connection.prepare_cached(sql)?.query_row([owner.as_str()], |row| row.get(0)).optional()?;
    match tier.flatten() {
        Some(tier) => tier.parse().map_err(|_| unreadable("tier")),
        None => Ok(AccountTier::default()),
    }
}

impl Vault {
    /// Makes a key.
    ///
    /// # Errors
    /// When the label cannot be used, the owner has too many keys, or the file cannot be written.
    pub fn create_key(&self, act: Act<'_>, key: &NewKey<'_>) -> Result<CreatedKey, VaultError> {
        let bytes = Zeroizing::new(random::<32>()?);
        // Sized beforehand: a text that grows leaves copies of itself behind.
        let mut text = Zeroizing::new(String::with_capacity(KEY_PREFIX.len() + 44));
        text.push_str(KEY_PREFIX);
        URL_SAFE_NO_PAD.encode_string(*bytes, &mut text);
        let hash = Digest::of(text.as_bytes());
        self.file.write(|transaction| {
            let row = insert(transaction, act, "key.create", &hash, key)?;
            let tier = tier_of(transaction, key.owner)?;
            Ok(CreatedKey { key: text, row, tier })
        })
    }

    /// Takes a key that was made elsewhere, of which only the hash is known. One that is known already gets
    /// the new end of its life.
    ///
    /// # Errors
    /// When it belongs to somebody else or was revoked here, and as for [`Vault::create_key`].
    pub fn adopt_key(
        &self,
        act: Act<'_>,
        hash: &Digest,
        key: &NewKey<'_>,
    ) -> Result<KeyRow, VaultError> {
        self.file.write(|transaction| adopt(transaction, act, hash, key))
    }

    /// Keys, oldest first, after a number; of one owner or of all.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn keys(
        &self,
        owner: Option<&Owner>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<KeyRow>, VaultError> {
        self.file.read(|connection| {
            let of_owner = if owner.is_some() { "owner = ?3" } else { "?3 IS NULL" };
            let sql = format!(
                "SELECT {COLUMNS} FROM key WHERE number > ?1 AND {of_owner} ORDER BY number LIMIT ?2"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let owner = owner.map(Owner::as_str);
            let rows = statement.query_map(params![after, limit.min(MAX_PAGE), owner], key_row)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }
}

#[cfg(test)]
mod tests;
