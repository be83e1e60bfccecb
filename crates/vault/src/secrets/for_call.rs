//! The secrets of one call: those that the skill requires and may use.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;
use skills_core::{Owner, SkillId, Tier, limits::MAX_SECRETS_OF_SKILL};
use zeroize::Zeroizing;

use super::SealedRow;
use crate::{Vault, VaultError};

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

/// Finds the secret of a name for a skill: the skill's own before the global one.
fn find(
    connection: &Connection,
    owner: &Owner,
    skill: &SkillId,
    name: &str,
) -> rusqlite::Result<Option<SealedRow>> {
    let sql =
        "SELECT skill, envelope FROM secret WHERE owner = ?1 AND skill IN ('', ?2) AND name = ?3
               ORDER BY skill DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let row = statement.query_row([owner.as_str(), skill.as_str(), name], |row| {
        Ok(SealedRow {
            owner: owner.as_str().to_owned(),
            skill: row.get(0)?,
            name: name.to_owned(),
            envelope: row.get(1)?,
        })
    });
    row.optional()
}

/// Returns why a skill of the market tier may not use a secret, if it may not.
fn denial(
    connection: &Connection,
    owner: &Owner,
    skill: CalledSkill<'_>,
    name: &str,
) -> rusqlite::Result<Option<MissingReason>> {
    let sql = "SELECT origin FROM secret_grant WHERE owner = ?1 AND skill = ?2 AND name = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let key = params![owner.as_str(), skill.id.as_str(), name];
    let granted: Option<Option<String>> = statement.query_row(key, |row| row.get(0)).optional()?;
    Ok(match granted {
        None => Some(MissingReason::NotGranted),
        Some(Some(origin)) if Some(&*origin) != skill.origin => Some(MissingReason::OriginChanged),
        Some(_) => None,
    })
}

impl Vault {
    fn collect_secrets(
        &self,
        owner: &Owner,
        skill: CalledSkill<'_>,
        needed: &[String],
    ) -> Result<(Vec<SealedRow>, Vec<MissingSecret>), VaultError> {
        if needed.len() > MAX_SECRETS_OF_SKILL {
            return Err(VaultError::TooManyNeeded(needed.len()));
        }
        self.file.read(|connection| {
            let (mut rows, mut missing) = (vec![], vec![]);
            for name in needed {
                let missing_for = |reason| MissingSecret { name: name.clone(), reason };
                let denial = match skill.tier {
                    Tier::Market => denial(connection, owner, skill, name)?,
                    Tier::Private | Tier::Official => None,
                };
                match (find(connection, owner, skill.id, name)?, denial) {
                    (None, _) => missing.push(missing_for(MissingReason::NotSet)),
                    (Some(_), Some(reason)) => missing.push(missing_for(reason)),
                    (Some(row), None) => rows.push(row),
                }
            }
            Ok((rows, missing))
        })
    }

    fn require_all(
        &self,
        owner: &Owner,
        skill: CalledSkill<'_>,
        needed: &[String],
    ) -> Result<Vec<SealedRow>, VaultError> {
        match self.collect_secrets(owner, skill, needed)? {
            (rows, missing) if missing.is_empty() => Ok(rows),
            (_, missing) => Err(VaultError::MissingSecrets(missing)),
        }
    }

    /// Decrypts the secrets that a call requires. A grant without an origin is bound to the origin of this call.
    ///
    /// # Errors
    /// [`VaultError::MissingSecrets`] with all missing ones, before anything is decrypted. Also when one cannot be
    /// decrypted, no master key is set, or the file cannot be read.
    pub fn secrets_for_call(
        &self,
        owner: &Owner,
        skill: CalledSkill<'_>,
        needed: &[String],
    ) -> Result<BTreeMap<String, Zeroizing<String>>, VaultError> {
        if needed.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut rows = self.require_all(owner, skill, needed)?;
        if skill.tier == Tier::Market && self.bind_grants(owner, skill, needed)? {
            // A concurrent call may have bound the grant to another origin first.
            rows = self.require_all(owner, skill, needed)?;
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
    /// When the file cannot be read.
    pub fn missing_secrets(
        &self,
        owner: &Owner,
        skill: CalledSkill<'_>,
        needed: &[String],
    ) -> Result<Vec<MissingSecret>, VaultError> {
        self.collect_secrets(owner, skill, needed).map(|(_, missing)| missing)
    }
}
