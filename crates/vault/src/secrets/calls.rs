//! What a call gets: the secrets a skill needs, by name, as far as it may have them.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;
use skills_core::{Owner, SkillId, Tier};
use zeroize::Zeroizing;

use super::SealedRow;
use crate::{Vault, VaultError};

/// Most secrets of one skill.
pub(crate) const MAX_NEEDED: usize = 256;

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
}

/// All of it in one sentence, with what to do.
pub(crate) fn sentence_of_lacks(lacks: &[Lack]) -> String {
    let names = |reason| {
        let names = lacks.iter().filter(|lack| lack.reason == reason).map(|lack| &*lack.name);
        names.collect::<Vec<_>>().join(", ")
    };
    let (unset, ungranted) = (names(LackReason::NotSet), names(LackReason::NotGranted));
    match (unset.as_str(), ungranted.as_str()) {
        (unset, "") => format!("secrets are missing: {unset}"),
        ("", ungranted) => {
            format!("secrets are not granted to this skill of the market: {ungranted}")
        }
        (unset, ungranted) => format!(
            "secrets are missing: {unset}; others are not granted to this skill of the market: {ungranted}"
        ),
    }
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

fn is_granted(
    connection: &Connection,
    owner: &Owner,
    skill: &SkillId,
    name: &str,
) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM secret_grant WHERE owner = ?1 AND skill = ?2 AND name = ?3";
    connection.prepare_cached(sql)?.exists(params![owner.as_str(), skill.as_str(), name])
}

impl Vault {
    fn gather(
        &self,
        owner: &Owner,
        (tier, skill): (Tier, &SkillId),
        needed: &[String],
    ) -> Result<(Vec<SealedRow>, Vec<Lack>), VaultError> {
        if needed.len() > MAX_NEEDED {
            return Err(VaultError::TooManyNeeded(needed.len()));
        }
        self.file.read(|connection| {
            let (mut rows, mut lacks) = (vec![], vec![]);
            for name in needed {
                let lack = |reason| Lack { name: name.clone(), reason };
                match find(connection, owner, skill, name)? {
                    None => lacks.push(lack(LackReason::NotSet)),
                    Some(_)
                        if tier == Tier::Market && !is_granted(connection, owner, skill, name)? =>
                    {
                        lacks.push(lack(LackReason::NotGranted));
                    }
                    Some(row) => rows.push(row),
                }
            }
            Ok((rows, lacks))
        })
    }

    /// The secrets that a skill is called with: those it needs, and no others. The skill is the one that was
    /// resolved, by its tier and canonical id.
    ///
    /// # Errors
    /// [`VaultError::MissingSecrets`] with all that it does not get, before anything is opened; also when one
    /// cannot be opened, there is no master key, or the file cannot be read.
    pub fn secrets_for_call(
        &self,
        owner: &Owner,
        skill: (Tier, &SkillId),
        needed: &[String],
    ) -> Result<BTreeMap<String, Zeroizing<String>>, VaultError> {
        if needed.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (rows, lacks) = self.gather(owner, skill, needed)?;
        if !lacks.is_empty() {
            return Err(VaultError::MissingSecrets(lacks));
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
        skill: (Tier, &SkillId),
        needed: &[String],
    ) -> Result<Vec<Lack>, VaultError> {
        self.gather(owner, skill, needed).map(|(_, lacks)| lacks)
    }
}
