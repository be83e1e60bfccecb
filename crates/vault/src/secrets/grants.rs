//! Grants: secrets that an owner lets skills of the market tier use. Other tiers need no grant.
//!
//! A grant is for a skill id and the origin that the skill calls. A later skill of that id, or a changed origin, does not
//! get the secret.

use rusqlite::{Connection, params};
use serde::Serialize;
use skills_core::{Owner, SkillId, Timestamp};

use super::{CalledSkill, MAX_SECRETS, SecretName, binding};
use crate::{Actor, Vault, VaultError, audit::record};

/// A secret that a skill of the market tier may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// Name of the secret.
    pub name: String,
    /// Id of the skill.
    pub skill: String,
    /// Origin that the secret may be sent to; `None` until the first call if it was granted without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Time of the grant, as RFC 3339.
    pub granted_at: String,
}

/// Removes grants of a secret that no longer reach a value, so that a value set later under the same name is not granted.
pub(super) fn remove_unused(
    transaction: &Connection,
    actor: Actor<'_>,
    owner: &Owner,
    name: &SecretName,
) -> rusqlite::Result<()> {
    let sql = "DELETE FROM secret_grant AS g WHERE owner = ?1 AND name = ?2 AND NOT EXISTS (
                   SELECT 1 FROM secret s
                   WHERE s.owner = g.owner AND s.name = g.name AND s.skill IN ('', g.skill))
               RETURNING skill";
    let mut statement = transaction.prepare_cached(sql)?;
    let removed = statement.query_map([owner.as_str(), name.as_str()], |row| row.get(0))?;
    let removed: Vec<String> = removed.collect::<rusqlite::Result<_>>()?;
    for skill in removed {
        let subject = format!("{name} of {} to market/{skill}", owner.as_str());
        record(transaction, actor, "secret.ungrant", &subject)?;
    }
    Ok(())
}

impl Vault {
    /// Grants a secret, global or for this skill, to a skill of the market tier that sends it to an origin. Without an
    /// origin the grant is bound to the first one called. Returns whether the grant is new.
    ///
    /// # Errors
    /// When the owner does not have the secret or has too many grants, or the file cannot be written.
    pub fn grant_secret(
        &self,
        actor: Actor<'_>,
        owner: &Owner,
        skill: &SkillId,
        origin: Option<&str>,
        name: &SecretName,
    ) -> Result<bool, VaultError> {
        self.file.write(|transaction| {
            let key = params![owner.as_str(), skill.as_str(), name.as_str()];
            let sql = "SELECT 1 FROM secret WHERE owner = ?1 AND skill IN ('', ?2) AND name = ?3";
            if !transaction.prepare_cached(sql)?.exists(key)? {
                return Err(VaultError::NoSuchSecret {
                    owner: owner.as_str().to_owned(),
                    name: name.to_string(),
                    scope: format!(", neither a global one nor one for the skill {skill}"),
                }
                .into());
            }
            let sql = "INSERT INTO secret_grant (owner, skill, name, granted_at, origin)
                       VALUES (?1, ?2, ?3, ?4, ?5)
                       ON CONFLICT DO UPDATE SET granted_at = excluded.granted_at, origin = excluded.origin
                       WHERE excluded.origin IS NOT NULL AND origin IS NOT excluded.origin";
            let (skill_id, at) = (skill.as_str(), actor.at.as_micros());
            let row = params![owner.as_str(), skill_id, name.as_str(), at, origin];
            if transaction.prepare_cached(sql)?.execute(row)? == 0 {
                return Ok(false);
            }
            let sql = "SELECT count(*) FROM secret_grant WHERE owner = ?1";
            let count: usize =
                transaction.prepare_cached(sql)?.query_row([owner.as_str()], |row| row.get(0))?;
            if count > MAX_SECRETS {
                let owner = owner.as_str().to_owned();
                return Err(VaultError::TooMany { owner, what: "grants", max: MAX_SECRETS }.into());
            }
            let at = origin.map(|origin| format!(" at {origin}")).unwrap_or_default();
            let subject = format!("{name} of {} to market/{skill}{at}", owner.as_str());
            record(transaction, actor, "secret.grant", &subject)?;
            Ok(true)
        })
    }

    /// Binds grants without an origin to the origin of a call. Returns whether there were any, which only happens for the
    /// first call.
    pub(super) fn bind_grants(
        &self,
        owner: &Owner,
        skill: CalledSkill<'_>,
        names: &[String],
    ) -> Result<bool, VaultError> {
        let Some(origin) = skill.origin else { return Ok(false) };
        let key = [owner.as_str(), skill.id.as_str()];
        let unbound = self.file.read(|connection| {
            let sql = "SELECT 1 FROM secret_grant
                       WHERE owner = ?1 AND skill = ?2 AND origin IS NULL";
            Ok(connection.prepare_cached(sql)?.exists(key)?)
        })?;
        if !unbound {
            return Ok(false);
        }
        self.file.write(|transaction| {
            let sql = "UPDATE secret_grant SET origin = ?4
                       WHERE owner = ?1 AND skill = ?2 AND name = ?3 AND origin IS NULL";
            let mut statement = transaction.prepare_cached(sql)?;
            for name in names {
                statement.execute(params![key[0], key[1], name, origin])?;
            }
            Ok(true)
        })
    }

    /// Revokes a grant. Returns whether it existed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn revoke_grant(
        &self,
        actor: Actor<'_>,
        owner: &Owner,
        skill: &SkillId,
        name: &SecretName,
    ) -> Result<bool, VaultError> {
        let binding = binding(owner, Some(skill), name);
        self.file.write(|transaction| {
            let sql = "DELETE FROM secret_grant WHERE owner = ?1 AND skill = ?2 AND name = ?3";
            let key = params![binding.owner, binding.skill, binding.name];
            if transaction.prepare_cached(sql)?.execute(key)? == 0 {
                return Ok(false);
            }
            let subject = format!("{name} of {} to market/{skill}", owner.as_str());
            record(transaction, actor, "secret.ungrant", &subject)?;
            Ok(true)
        })
    }

    /// Returns all grants of an owner.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn grants(&self, owner: &Owner) -> Result<Vec<Grant>, VaultError> {
        self.file.read(|connection| {
            let sql = "SELECT name, skill, granted_at, origin FROM secret_grant WHERE owner = ?1
                       ORDER BY name, skill";
            let mut statement = connection.prepare_cached(sql)?;
            let grants = statement.query_map([owner.as_str()], |row| {
                Ok(Grant {
                    name: row.get(0)?,
                    skill: row.get(1)?,
                    granted_at: Timestamp::from_micros(row.get(2)?).to_string(),
                    origin: row.get(3)?,
                })
            })?;
            Ok(grants.collect::<rusqlite::Result<_>>()?)
        })
    }
}
