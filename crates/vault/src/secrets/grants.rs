//! Grants: which skills of the market an owner lets have which secrets. Other tiers need none.
//!
//! A grant is for an id and for the origin that the skill of that id calls. Who next has the id in the market, or
//! changes where it sends things, does not have the secret for that.

use rusqlite::{Connection, params};
use serde::Serialize;
use skills_core::{Owner, SkillId, Timestamp};

use super::{CalledSkill, MAX_SECRETS, SecretName, place};
use crate::{Act, Vault, VaultError, audit::record};

/// An owner lets a skill of the market have a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// The secret's name.
    pub name: String,
    /// The skill of the market.
    pub skill: String,
    /// Where it may send it; not known yet where it was granted without looking at the skill, and not called since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Since when, as RFC 3339.
    pub granted_at: String,
}

/// Drops grants of a secret that reach no value any more, so that a value that is set later under the same
/// name is not given to who was once to have another.
pub(super) fn drop_empty(
    transaction: &Connection,
    act: Act<'_>,
    owner: &Owner,
    name: &SecretName,
) -> rusqlite::Result<()> {
    let sql = "DELETE FROM secret_grant AS g WHERE owner = ?1 AND name = ?2 AND NOT EXISTS (
                   SELECT 1 FROM secret s
                   WHERE s.owner = g.owner AND s.name = g.name AND s.skill IN ('', g.skill))
               RETURNING skill";
    let mut statement = transaction.prepare_cached(sql)?;
    let dropped = statement.query_map([owner.as_str(), name.as_str()], |row| row.get(0))?;
    let dropped: Vec<String> = dropped.collect::<rusqlite::Result<_>>()?;
    for skill in dropped {
        let subject = format!("{name} of {} to market/{skill}", owner.as_str());
        record(transaction, act, "secret.ungrant", &subject)?;
    }
    Ok(())
}

impl Vault {
    /// Lets the skill of that id in the market have a secret of this name, the one for the skill or the
    /// global one, and send it to an origin; without one, to the origin that it calls first. Tells whether
    /// it could not before.
    ///
    /// # Errors
    /// When the owner has no such secret or too many grants, or the file cannot be written.
    pub fn grant_secret(
        &self,
        act: Act<'_>,
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
                    of: format!(", neither a global one nor one for the skill {skill}"),
                }
                .into());
            }
            let sql = "INSERT INTO secret_grant (owner, skill, name, granted_at, origin)
                       VALUES (?1, ?2, ?3, ?4, ?5)
                       ON CONFLICT DO UPDATE SET granted_at = excluded.granted_at, origin = excluded.origin
                       WHERE excluded.origin IS NOT NULL AND origin IS NOT excluded.origin";
            let (skill_id, at) = (skill.as_str(), act.at.as_micros());
            let row = params![owner.as_str(), skill_id, name.as_str(), at, origin];
            if transaction.prepare_cached(sql)?.execute(row)? == 0 {
                return Ok(false);
            }
            let sql = "SELECT count(*) FROM secret_grant WHERE owner = ?1";
            let held: usize =
                transaction.prepare_cached(sql)?.query_row([owner.as_str()], |row| row.get(0))?;
            if held > MAX_SECRETS {
                let owner = owner.as_str().to_owned();
                return Err(VaultError::TooMany { owner, what: "grants", max: MAX_SECRETS }.into());
            }
            let at = origin.map(|origin| format!(" at {origin}")).unwrap_or_default();
            let subject = format!("{name} of {} to market/{skill}{at}", owner.as_str());
            record(transaction, act, "secret.grant", &subject)?;
            Ok(true)
        })
    }

    /// Binds grants that have no origin yet to that of a call, and tells whether there were any: there are none but
    /// for the first call.
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

    /// Takes a grant back. Tells whether it was there.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn ungrant_secret(
        &self,
        act: Act<'_>,
        owner: &Owner,
        skill: &SkillId,
        name: &SecretName,
    ) -> Result<bool, VaultError> {
        let place = place(owner, Some(skill), name);
        self.file.write(|transaction| {
            let sql = "DELETE FROM secret_grant WHERE owner = ?1 AND skill = ?2 AND name = ?3";
            let key = params![place.owner, place.skill, place.name];
            if transaction.prepare_cached(sql)?.execute(key)? == 0 {
                return Ok(false);
            }
            let subject = format!("{name} of {} to market/{skill}", owner.as_str());
            record(transaction, act, "secret.ungrant", &subject)?;
            Ok(true)
        })
    }

    /// All grants of an owner.
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
