//! The secrets of one call: those that the skill requires and may use.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use skills_core::{Owner, SkillId, Tier, limits::MAX_SECRETS_OF_SKILL};
use zeroize::Zeroizing;

use super::SealedRow;
use crate::{
    Vault, VaultError,
    backend::{GrantRow, VaultBackend},
};

/// A resolved skill that is called.
#[derive(Debug, Clone, Copy)]
pub struct CalledSkill<'a> {
    /// Tier that it is stored in.
    pub tier: Tier,
    /// Id of the skill.
    pub id: &'a SkillId,
    /// Origin that it sends its secrets to, if it has one.
    pub origin: Option<&'a str>,
}

/// A required secret that a skill does not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingSecret {
    /// Name of the secret.
    pub name: String,
    /// Reason.
    pub reason: MissingReason,
}

/// Reason why a skill does not get a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingReason {
    /// The owner has no secret of this name.
    NotSet,
    /// The skill is in the market tier and the owner has not granted the secret.
    NotGranted,
    /// The skill is in the market tier and sends the secret to another origin than when it was granted.
    OriginChanged,
}

/// Describes missing secrets in one sentence.
pub(crate) fn describe_missing(missing: &[MissingSecret]) -> String {
    let names = |reason| {
        let names = missing.iter().filter(|it| it.reason == reason).map(|it| &*it.name);
        names.collect::<Vec<_>>().join(", ")
    };
    let parts = [
        (MissingReason::NotSet, "missing secrets"),
        (MissingReason::NotGranted, "secrets not granted to this market skill"),
        (
            MissingReason::OriginChanged,
            "secrets granted when this market skill called another server",
        ),
    ];
    let parts = parts.map(|(reason, text)| (text, names(reason)));
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    parts.map(|(text, names)| format!("{text}: {names}")).collect::<Vec<_>>().join("; ")
}

/// Most copies of secrets and grants in memory; then they start anew.
const MAX_COPIES: usize = 4096;

/// Owner, skill and names of secrets.
type CopyKey = (String, Tier, String, Vec<String>);

/// Encrypted copies of what was last read for a skill and its names, for calls while the database is away.
#[derive(Debug, Default)]
pub(crate) struct SecretCopies {
    copies: HashMap<CopyKey, Available>,
    /// Number of times that the copies were dropped. What was read before the last of them is not kept.
    drops: u64,
}

impl SecretCopies {
    /// Drops the copies if what they are of may have changed. Returns the number of times that they were dropped.
    fn update(&mut self, backend: &dyn VaultBackend) -> u64 {
        if backend.take_secret_changes() {
            self.copies.clear();
            self.drops += 1;
        }
        self.drops
    }

    fn insert(&mut self, key: CopyKey, available: Available) {
        if self.copies.len() >= MAX_COPIES {
            self.copies.clear();
        }
        self.copies.insert(key, available);
    }
}

/// Secrets and grants that a call may use.
#[derive(Debug, Clone)]
pub(crate) struct Available {
    /// Global secrets and those of the skill.
    secrets: Vec<SealedRow>,
    /// Grants to the skill; empty outside the market tier, where none is needed.
    grants: Vec<GrantRow>,
}

impl Available {
    /// Finds the secret of a name: the skill's own before the global one.
    fn secret(&self, name: &str) -> Option<&SealedRow> {
        let of_name = self.secrets.iter().filter(|row| row.name == name);
        of_name.max_by_key(|row| !row.skill.is_empty())
    }

    /// Returns why a skill may not use a secret, if it may not.
    fn denial(&self, skill: CalledSkill<'_>, name: &str) -> Option<MissingReason> {
        if skill.tier != Tier::Market {
            return None;
        }
        match self.grants.iter().find(|grant| grant.name == name) {
            None => Some(MissingReason::NotGranted),
            Some(GrantRow { origin: Some(origin), .. }) if Some(&**origin) != skill.origin => {
                Some(MissingReason::OriginChanged)
            }
            Some(_) => None,
        }
    }

    /// Splits the needed secrets into found and missing ones.
    fn collect(
        &self,
        skill: CalledSkill<'_>,
        needed: &[String],
    ) -> (Vec<SealedRow>, Vec<MissingSecret>) {
        let (mut rows, mut missing) = (vec![], vec![]);
        for name in needed {
            let missing_for = |reason| MissingSecret { name: name.clone(), reason };
            match (self.secret(name), self.denial(skill, name)) {
                (None, _) => missing.push(missing_for(MissingReason::NotSet)),
                (Some(_), Some(reason)) => missing.push(missing_for(reason)),
                (Some(row), None) => rows.push(row.clone()),
            }
        }
        (rows, missing)
    }

    /// Returns the secrets of a call, or an error with all that are missing.
    fn require_all(
        &self,
        skill: CalledSkill<'_>,
        needed: &[String],
    ) -> Result<Vec<SealedRow>, VaultError> {
        match self.collect(skill, needed) {
            (rows, missing) if missing.is_empty() => Ok(rows),
            (_, missing) => Err(VaultError::MissingSecrets(missing)),
        }
    }
}

impl Vault {
    fn available_secrets(
        &self,
        owner: &Owner,
        skill: CalledSkill<'_>,
        needed: &[String],
    ) -> Result<Available, VaultError> {
        if needed.len() > MAX_SECRETS_OF_SKILL {
            return Err(VaultError::TooManyNeeded(needed.len()));
        }
        let (owner, id) = (owner.as_str(), skill.id.as_str());
        let key = || (owner.to_owned(), skill.tier, id.to_owned(), needed.to_vec());
        let backend = &*self.backend;
        let drops = self.secret_copies.lock().update(backend);
        let read = backend.read(|tables| {
            // Grants before secrets: a grant is removed after its last value.
            let grants = match skill.tier {
                Tier::Market => tables.grants_to_skill(owner, id, needed)?,
                Tier::Private | Tier::Official => vec![],
            };
            Ok(Available { grants, secrets: tables.secrets_for_skill(owner, id, needed)? })
        });
        match read {
            Ok(available) => {
                if backend.may_use_copies() && !needed.is_empty() {
                    let mut copies = self.secret_copies.lock();
                    if copies.update(backend) == drops {
                        copies.insert(key(), available.clone());
                    }
                }
                Ok(available)
            }
            Err(error) if error.is_unavailable() && backend.may_use_copies() => {
                let mut copies = self.secret_copies.lock();
                copies.update(backend);
                copies.copies.get(&key()).cloned().ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Decrypts the secrets that a call requires. A grant without an origin is bound to the origin of this call.
    ///
    /// # Errors
    /// [`VaultError::MissingSecrets`] with all missing ones, before anything is decrypted. Also when one cannot be
    /// decrypted, no master key is set, or the vault cannot be read.
    pub fn secrets_for_call(
        &self,
        owner: &Owner,
        skill: CalledSkill<'_>,
        needed: &[String],
    ) -> Result<BTreeMap<String, Zeroizing<String>>, VaultError> {
        if needed.is_empty() {
            return Ok(BTreeMap::new());
        }
        let available = self.available_secrets(owner, skill, needed)?;
        let mut rows = available.require_all(skill, needed)?;
        // Only before the first call of a skill.
        let is_unbound = available.grants.iter().any(|grant| grant.origin.is_none());
        if is_unbound && skill.origin.is_some() {
            self.bind_grants(owner, skill, needed)?;
            // A concurrent call may have bound the grant to another origin first.
            rows = self.available_secrets(owner, skill, needed)?.require_all(skill, needed)?;
        }
        let master = self.master()?;
        let open = |row: SealedRow| {
            let value = master.open(row.binding(), row.parse()?)?;
            Ok((row.name, value))
        };
        rows.into_iter().map(open).collect()
    }

    /// Returns the secrets that a call would miss, without decrypting any.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn missing_secrets(
        &self,
        owner: &Owner,
        skill: CalledSkill<'_>,
        needed: &[String],
    ) -> Result<Vec<MissingSecret>, VaultError> {
        let available = self.available_secrets(owner, skill, needed)?;
        Ok(available.collect(skill, needed).1)
    }
}
