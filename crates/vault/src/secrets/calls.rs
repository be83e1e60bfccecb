//! What a call gets: the secrets a skill needs, by name, as far as it may have them.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;
use skills_core::{Owner, SkillId, Tier, limits::MAX_SECRETS_OF_SKILL};
use zeroize::Zeroizing;

use super::SealedRow;
use crate::{Vault, VaultError};

/// A skill that is called, as it was resolved.
#[derive(Debug, Clone, Copy)]
pub struct CalledSkill<'a> {
    /// Where it is stored.
    pub tier: Tier,
    /// Under which id.
    pub id: &'a SkillId,
    /// The origin that its secrets are sent to, if it names one.
    pub origin: Option<&'a str>,
}

/// A secret that a skill needs and does not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// Its name.
    pub name: String,
    /// Why not.
    pub reason: LackReason,
}

/// Why a skill does not get a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LackReason {
    /// The owner has none of that name.
    NotSet,
    /// The skill is of the market, and the owner has not granted it.
    NotGranted,
    /// The skill is of the market, and sends it to another origin than when the owner granted it.
    OriginChanged,
}

/// All of it in one sentence, with what to do.
pub(crate) fn sentence_of_lacks(lacks: &[Lack]) -> String {
    let names = |reason| {
        let names = lacks.iter().filter(|lack| lack.reason == reason).map(|lack| &*lack.name);
        names.collect::<Vec<_>>().join(", ")
    };
    let parts = [
        (LackReason::NotSet, "secrets are missing"),
        (LackReason::NotGranted, "secrets are not granted to this skill of the market"),
        (
            LackReason::OriginChanged,
            "secrets were granted to this skill of the market when it called another server",
        ),
    ];
    let parts = parts.map(|(reason, words)| (words, names(reason)));
    let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
    parts.map(|(words, names)| format!("{words}: {names}")).collect::<Vec<_>>().join("; ")
}

/// What is kept under a name for a skill: that of the skill before the global one.
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

/// Why a skill of the market may not have a secret, if it may not.
fn refused(
    connection: &Connection,
    owner: &Owner,
    skill: CalledSkill<'_>,
    name: &str,
) -> rusqlite::Result<Option<LackReason>> {
    let sql = "SELECT origin FROM secret_grant WHERE owner = ?1 AND skill = ?2 AND name = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let key = params![owner.as_str(), skill.id.as_str(), name];
    let granted: Option<Option<String>> = statement.query_row(key, |row| row.get(0)).optional()?;
    Ok(match granted {
        None => Some(LackReason::NotGranted),
        Some(Some(origin)) if Some(&*origin) != skill.origin => Some(LackReason::OriginChanged),
        Some(_) => None,
    })
}

impl Vault {
    fn gather(
        &self,
        owner: &Owner,
        skill: CalledSkill<'_>,
        needed: &[String],
    ) -> Result<(Vec<SealedRow>, Vec<Lack>), VaultError> {
        if needed.len() > MAX_SECRETS_OF_SKILL {
            return Err(VaultError::TooManyNeeded(needed.len()));
        }
        self.file.read(|connection| {
            let (mut rows, mut lacks) = (vec![], vec![]);
            for name in needed {
                let lack = |reason| Lack { name: name.clone(), reason };
                let refused = match skill.tier {
                    Tier::Market => refused(connection, owner, skill, name)?,
                    Tier::Private | Tier::Official => None,
                };
                match (find(connection, owner, skill.id, name)?, refused) {
                    (None, _) => lacks.push(lack(LackReason::NotSet)),
                    (Some(_), Some(reason)) => lacks.push(lack(reason)),
                    (Some(row), None) => rows.push(row),
                }
            }
            Ok((rows, lacks))
        })
    }

    fn complete(
        &self,
        owner: &Owner,
        skill: CalledSkill<'_>,
        needed: &[String],
    ) -> Result<Vec<SealedRow>, VaultError> {
        match self.gather(owner, skill, needed)? {
            (rows, lacks) if lacks.is_empty() => Ok(rows),
            (_, lacks) => Err(VaultError::MissingSecrets(lacks)),
        }
    }

    /// The secrets that a skill is called with: those it needs, and no others. A grant that was made without
    /// looking at the skill is bound to the origin of this call.
    ///
    /// # Errors
    /// [`VaultError::MissingSecrets`] with all that it does not get, before anything is opened; also when one
    /// cannot be opened, there is no master key, or the file cannot be read.
    pub fn secrets_for_call(
        &self,
        owner: &Owner,
        skill: CalledSkill<'_>,
        needed: &[String],
    ) -> Result<BTreeMap<String, Zeroizing<String>>, VaultError> {
        if needed.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut rows = self.complete(owner, skill, needed)?;
        if skill.tier == Tier::Market && self.bind_grants(owner, skill, needed)? {
            // Another call may have been the first, to another origin.
            rows = self.complete(owner, skill, needed)?;
        }
        let master = self.master()?;
        let open = |row: SealedRow| {
            let value = master.open(row.place(), row.parse()?)?;
            Ok((row.name, value))
        };
        rows.into_iter().map(open).collect()
    }

    /// What a skill would lack if it were called; nothing is opened.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn lacking_secrets(
        &self,
        owner: &Owner,
        skill: CalledSkill<'_>,
        needed: &[String],
    ) -> Result<Vec<Lack>, VaultError> {
        self.gather(owner, skill, needed).map(|(_, lacks)| lacks)
    }
}
