//! Secrets: encrypted values that skills are called with and that cannot be read back.
//!
//! A secret belongs to an owner and is global or for one skill id; the latter takes precedence. Private and official
//! skills get the secrets they require. A skill of the market tier gets a secret only if its owner granted it to that
//! id, even if the secret was set for that id: the id may belong to a private skill today and to a stranger's skill in
//! the market tomorrow.
//!
//! - `for_call`: the secrets of one call, and the missing ones
//! - `grants`: secrets that skills of the market tier may use
//! - `rotate`: encryption of all secrets with the current master key
//! - `set_many`: setting several secrets at once

mod for_call;
mod grants;
mod rotate;
mod set_many;

use std::{fmt, str::FromStr};

use serde::Serialize;
use skills_core::{Owner, SkillId};

pub use for_call::{CalledSkill, MissingReason, MissingSecret};
pub(crate) use for_call::{SecretCopies, describe_missing};
pub use grants::Grant;
pub use rotate::RotationSummary;
pub(crate) use set_many::EncryptedSecrets;
pub use set_many::OtherSecrets;

use crate::{
    Actor, Vault, VaultError,
    audit::record,
    backend::{GrantRow, SecretRow, Tables},
    crypt::{Envelope, SecretBinding},
    keys::reject_nil_owner,
};

/// Longest name, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 64;
/// Longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 64 << 10;
/// Most secrets of one owner, and most grants.
pub(crate) const MAX_SECRETS: usize = 1000;

/// Name of a secret: 1 to 64 letters, digits, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(String);

impl SecretName {
    /// Returns the name.
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

/// Public properties of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecretInfo {
    /// Name of the secret.
    pub name: String,
    /// Skill that it is for; `None` for all skills.
    pub skill: Option<String>,
    /// Time of the last change, as RFC 3339.
    pub set_at: String,
    /// Skills of the market tier that it is granted to.
    pub granted_to: Vec<String>,
}

fn binding<'a>(
    owner: &'a Owner,
    skill: Option<&'a SkillId>,
    name: &'a SecretName,
) -> SecretBinding<'a> {
    let skill = skill.map_or("", SkillId::as_str);
    SecretBinding { owner: owner.as_str(), skill, name: name.as_str() }
}

/// Stores an envelope in the caller's transaction.
pub(crate) fn put(
    tables: &mut dyn Tables,
    actor: Actor<'_>,
    binding: SecretBinding<'_>,
    envelope: &str,
) -> Result<(), VaultError> {
    tables.put_secret(binding, envelope, actor.at)?;
    if tables.count_secrets(binding.owner)? > MAX_SECRETS {
        let owner = binding.owner.to_owned();
        return Err(VaultError::TooMany { owner, what: "secrets", max: MAX_SECRETS });
    }
    record(tables, actor, "secret.set", &binding.to_string())
}

/// Removes a secret in the caller's transaction. Returns whether it existed.
fn remove(
    tables: &mut dyn Tables,
    actor: Actor<'_>,
    owner: &Owner,
    skill: Option<&SkillId>,
    name: &SecretName,
) -> Result<bool, VaultError> {
    let binding = binding(owner, skill, name);
    if !tables.remove_secret(binding)? {
        return Ok(false);
    }
    record(tables, actor, "secret.remove", &binding.to_string())?;
    grants::remove_unused(tables, actor, owner, name)?;
    Ok(true)
}

/// Checks the size of a secret value.
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
    /// Sets a secret.
    ///
    /// # Errors
    /// When the value is empty or too large, no master key is set, the owner has too many secrets, or the file cannot be
    /// written.
    pub fn set_secret(
        &self,
        actor: Actor<'_>,
        owner: &Owner,
        skill: Option<&SkillId>,
        name: &SecretName,
        value: &str,
    ) -> Result<(), VaultError> {
        check_value(value)?;
        reject_nil_owner(owner)?;
        let binding = binding(owner, skill, name);
        let envelope = self.master()?.seal(binding, value)?;
        self.backend.write(|tables| put(tables, actor, binding, &envelope))
    }

    /// Returns the secrets of an owner without their values, in the order of names.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn secrets(&self, owner: &Owner) -> Result<Vec<SecretInfo>, VaultError> {
        let (grants, secrets) = self.backend.read(|tables| {
            let grants = tables.grants_of(owner.as_str(), None)?;
            Ok((grants, tables.secrets_of(owner.as_str(), None)?))
        })?;
        let info = |SecretRow { name, skill, set_at }| {
            let reaches = |grant: &&GrantRow| {
                grant.name == name && (skill.is_empty() || grant.skill == skill)
            };
            SecretInfo {
                granted_to: grants.iter().filter(reaches).map(|g| g.skill.clone()).collect(),
                set_at: set_at.to_string(),
                skill: Some(skill).filter(|skill| !skill.is_empty()),
                name,
            }
        };
        Ok(secrets.into_iter().map(info).collect())
    }

    /// Removes a secret, and grants that no longer reach a value. Returns whether it existed.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn remove_secret(
        &self,
        actor: Actor<'_>,
        owner: &Owner,
        skill: Option<&SkillId>,
        name: &SecretName,
    ) -> Result<bool, VaultError> {
        self.backend.write(|tables| remove(tables, actor, owner, skill, name))
    }

    /// Returns a page of envelopes after an owner, skill and name, in that order.
    pub(crate) fn envelopes_after(
        &self,
        after: (&str, &str, &str),
        limit: usize,
    ) -> Result<Vec<SealedRow>, VaultError> {
        self.backend.read(|tables| tables.secrets_after(after, limit))
    }
}

/// Stored row of a secret.
#[derive(Debug, Clone)]
pub(crate) struct SealedRow {
    pub(crate) owner: String,
    pub(crate) skill: String,
    pub(crate) name: String,
    pub(crate) envelope: String,
}

impl SealedRow {
    fn binding(&self) -> SecretBinding<'_> {
        SecretBinding { owner: &self.owner, skill: &self.skill, name: &self.name }
    }

    /// Parses the envelope.
    fn parse(&self) -> Result<Envelope, VaultError> {
        let reason = match Envelope::parse(&self.envelope) {
            Ok(Some(envelope)) => return Ok(envelope),
            Ok(None) => "the value is not encrypted".to_owned(),
            Err(error) => error.to_string(),
        };
        Err(VaultError::UnreadableSecret { secret: self.binding().to_string(), reason })
    }
}

#[cfg(test)]
mod tests;
