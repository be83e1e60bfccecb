//! Secrets: values that skills are called with and that nobody can read back.
//!
//! A secret is an owner's, for all their skills (global) or for one skill id, where it comes first. Private and
//! official skills get what they ask for by name. A skill of the market gets a secret only if its owner granted
//! that secret to that skill id in the market, also one that was set for that id: the id may be that of
//! a private skill today and somebody else's in the market tomorrow.
//!
//! - `calls`: what a call gets, and what it lacks
//! - `grants`: which skills of the market may have which secrets
//! - `rotate`: sealing everything under the current master key
//! - `several`: setting several at once

mod calls;
mod grants;
mod rotate;
mod several;

use std::{fmt, str::FromStr};

use rusqlite::{Connection, params};
use serde::Serialize;
use skills_core::{Owner, SkillId, Timestamp};

pub(crate) use calls::sentence_of_lacks;
pub use calls::{CalledSkill, Lack, LackReason};
pub use grants::Grant;
pub use rotate::Rotated;
pub use several::Others;
pub(crate) use several::SealedSecrets;

use crate::{
    Act, Vault, VaultError,
    audit::record,
    crypt::{Envelope, Place},
    file::Stop,
    keys::refuse_nobody,
};

/// Longest name, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 64;
/// Longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 64 << 10;
/// Most secrets of one owner, and most grants.
pub(crate) const MAX_SECRETS: usize = 1000;

/// The name of a secret: 1 to 64 letters, digits, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(String);

impl SecretName {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SecretName {
    type Err = VaultError;

    fn from_str(text: &str) -> Result<Self, VaultError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if text.is_empty() || text.len() > MAX_NAME_BYTES || !text.bytes().all(allowed) {
            return Err(VaultError::BadSecretName);
        }
        Ok(Self(text.to_owned()))
    }
}

/// What may be known of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecretInfo {
    /// Its name.
    pub name: String,
    /// The skill it is for; for all where there is none.
    pub skill: Option<String>,
    /// When it was set, as RFC 3339.
    pub set_at: String,
    /// The skills of the market that get it.
    pub granted_to: Vec<String>,
}

fn place<'a>(owner: &'a Owner, skill: Option<&'a SkillId>, name: &'a SecretName) -> Place<'a> {
    let skill = skill.map_or("", SkillId::as_str);
    Place { owner: owner.as_str(), skill, name: name.as_str() }
}

/// Keeps a sealed value, in the transaction of who asks.
pub(crate) fn put(
    transaction: &Connection,
    act: Act<'_>,
    place: Place<'_>,
    envelope: &str,
) -> Result<(), Stop> {
    let Place { owner, skill, name } = place;
    let sql =
        "INSERT INTO secret (owner, skill, name, envelope, set_at) VALUES (?1, ?2, ?3, ?4, ?5)
               ON CONFLICT (owner, skill, name) DO UPDATE
               SET envelope = excluded.envelope, set_at = excluded.set_at";
    let row = params![owner, skill, name, envelope, act.at.as_micros()];
    transaction.prepare_cached(sql)?.execute(row)?;
    let sql = "SELECT count(*) FROM secret WHERE owner = ?1";
    let held: usize = transaction.prepare_cached(sql)?.query_row([owner], |row| row.get(0))?;
    if held > MAX_SECRETS {
        let owner = owner.to_owned();
        return Err(VaultError::TooMany { owner, what: "secrets", max: MAX_SECRETS }.into());
    }
    record(transaction, act, "secret.set", &place.to_string())?;
    Ok(())
}

/// Removes a secret in the transaction of who asks. Tells whether it was there.
fn remove(
    transaction: &Connection,
    act: Act<'_>,
    owner: &Owner,
    skill: Option<&SkillId>,
    name: &SecretName,
) -> Result<bool, Stop> {
    let place = place(owner, skill, name);
    let key = params![place.owner, place.skill, place.name];
    let sql = "DELETE FROM secret WHERE owner = ?1 AND skill = ?2 AND name = ?3";
    if transaction.prepare_cached(sql)?.execute(key)? == 0 {
        return Ok(false);
    }
    record(transaction, act, "secret.remove", &place.to_string())?;
    grants::drop_empty(transaction, act, owner, name)?;
    Ok(true)
}

/// Whether a value may be kept.
///
/// # Errors
/// When it is empty or too large.
pub fn check_value(value: &str) -> Result<(), VaultError> {
    match value.len() {
        0 => Err(VaultError::EmptySecret),
        1..=MAX_VALUE_BYTES => Ok(()),
        length => Err(VaultError::SecretTooLarge(length)),
    }
}

impl Vault {
    /// Keeps a value, in place of the one of before.
    ///
    /// # Errors
    /// When it is empty or too large, there is no master key, the owner has too many, or the file cannot be
    /// written.
    pub fn set_secret(
        &self,
        act: Act<'_>,
        owner: &Owner,
        skill: Option<&SkillId>,
        name: &SecretName,
        value: &str,
    ) -> Result<(), VaultError> {
        check_value(value)?;
        refuse_nobody(owner)?;
        let place = place(owner, skill, name);
        let envelope = self.master()?.seal(place, value)?;
        self.file.write(|transaction| put(transaction, act, place, &envelope))
    }

    /// The secrets of an owner, without their values, by name.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn secrets(&self, owner: &Owner) -> Result<Vec<SecretInfo>, VaultError> {
        let grants = self.grants(owner)?;
        self.file.read(|connection| {
            let sql =
                "SELECT name, skill, set_at FROM secret WHERE owner = ?1 ORDER BY name, skill";
            let mut statement = connection.prepare_cached(sql)?;
            let secrets = statement.query_map([owner.as_str()], |row| {
                let (name, skill): (String, String) = (row.get(0)?, row.get(1)?);
                let reaches = |grant: &&Grant| {
                    grant.name == name && (skill.is_empty() || grant.skill == skill)
                };
                Ok(SecretInfo {
                    granted_to: grants.iter().filter(reaches).map(|g| g.skill.clone()).collect(),
                    set_at: Timestamp::from_micros(row.get(2)?).to_string(),
                    skill: Some(skill).filter(|skill| !skill.is_empty()),
                    name,
                })
            })?;
            Ok(secrets.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Removes a secret, and grants of it that have nothing left to give. Tells whether it was there.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn remove_secret(
        &self,
        act: Act<'_>,
        owner: &Owner,
        skill: Option<&SkillId>,
        name: &SecretName,
    ) -> Result<bool, VaultError> {
        self.file.write(|transaction| remove(transaction, act, owner, skill, name))
    }

    /// Sealed values after a place, in order, for an export.
    pub(crate) fn envelopes_after(
        &self,
        (owner, skill, name): (&str, &str, &str),
        limit: usize,
    ) -> Result<Vec<SealedRow>, VaultError> {
        self.file.read(|connection| {
            let sql = "SELECT owner, skill, name, envelope FROM secret
                       WHERE (owner, skill, name) > (?1, ?2, ?3)
                       ORDER BY owner, skill, name LIMIT ?4";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map(params![owner, skill, name, limit], |row| {
                Ok(SealedRow {
                    owner: row.get(0)?,
                    skill: row.get(1)?,
                    name: row.get(2)?,
                    envelope: row.get(3)?,
                })
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }
}

/// A sealed value as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct SealedRow {
    pub(crate) owner: String,
    pub(crate) skill: String,
    pub(crate) name: String,
    pub(crate) envelope: String,
}

impl SealedRow {
    fn place(&self) -> Place<'_> {
        Place { owner: &self.owner, skill: &self.skill, name: &self.name }
    }

    /// The envelope, taken apart.
    fn parse(&self) -> Result<Envelope, VaultError> {
        let reason = match Envelope::parse(&self.envelope) {
            Ok(Some(envelope)) => return Ok(envelope),
            Ok(None) => "it is not encrypted".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(VaultError::UnreadableSecret { secret: self.place().to_string(), reason })
    }
}

#[cfg(test)]
mod tests;
