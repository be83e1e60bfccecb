//! Grants: secrets that an owner lets skills of the market tier use. Other tiers need no grant.
//!
//! A grant is for a skill id and the origin that the skill calls. A later skill of that id, or a changed origin, does not
//! get the secret.

use serde::Serialize;
use skills_core::{Owner, SkillId};

use super::{CalledSkill, MAX_SECRETS, SecretName, binding};
use crate::{
    Actor, Vault, VaultError,
    audit::record,
    backend::{GrantRow, Tables},
    crypt::SecretBinding,
};

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
    tables: &mut dyn Tables,
    actor: Actor<'_>,
    owner: &Owner,
    name: &SecretName,
) -> Result<(), VaultError> {
    let left = tables.secrets_of(owner.as_str(), Some(name.as_str()))?;
    for GrantRow { skill, .. } in tables.grants_of(owner.as_str(), Some(name.as_str()))? {
        if left.iter().any(|secret| secret.skill.is_empty() || secret.skill == skill) {
            continue;
        }
        let grant = SecretBinding { owner: owner.as_str(), skill: &skill, name: name.as_str() };
        tables.remove_grant(grant)?;
        let subject = format!("{name} of {} to market/{skill}", owner.as_str());
        record(tables, actor, "secret.ungrant", &subject)?;
    }
    Ok(())
}

impl Vault {
    /// Grants a secret, global or for this skill, to a skill of the market tier that sends it to an origin. Without an
    /// origin the grant is bound to the first one called. Returns whether the grant is new.
    ///
    /// # Errors
    /// When the owner does not have the secret or has too many grants, or the vault cannot be written.
    pub fn grant_secret(
        &self,
        actor: Actor<'_>,
        owner: &Owner,
        skill: &SkillId,
        origin: Option<&str>,
        name: &SecretName,
    ) -> Result<bool, VaultError> {
        let names = [name.to_string()];
        self.backend.write(|tables| {
            if tables.secrets_for_skill(owner.as_str(), skill.as_str(), &names)?.is_empty() {
                return Err(VaultError::NoSuchSecret {
                    owner: owner.as_str().to_owned(),
                    name: name.to_string(),
                    scope: format!(", neither a global one nor one for the skill {skill}"),
                });
            }
            let old = tables.grants_to_skill(owner.as_str(), skill.as_str(), &names)?.pop();
            // A grant without an origin does not replace one.
            if old.is_some_and(|old| origin.is_none() || old.origin.as_deref() == origin) {
                return Ok(false);
            }
            let grant = GrantRow {
                name: name.to_string(),
                skill: skill.to_string(),
                granted_at: actor.at,
                origin: origin.map(str::to_owned),
            };
            tables.put_grant(owner.as_str(), &grant)?;
            if tables.count_grants(owner.as_str())? > MAX_SECRETS {
                let owner = owner.as_str().to_owned();
                return Err(VaultError::TooMany { owner, what: "grants", max: MAX_SECRETS });
            }
            let at = origin.map(|origin| format!(" at {origin}")).unwrap_or_default();
            let subject = format!("{name} of {} to market/{skill}{at}", owner.as_str());
            record(tables, actor, "secret.grant", &subject)?;
            Ok(true)
        })
    }

    /// Binds grants without an origin to the origin of a call.
    pub(super) fn bind_grants(
        &self,
        owner: &Owner,
        skill: CalledSkill<'_>,
        names: &[String],
    ) -> Result<(), VaultError> {
        let Some(origin) = skill.origin else { return Ok(()) };
        self.backend.write(|tables| {
            for grant in tables.grants_to_skill(owner.as_str(), skill.id.as_str(), names)? {
                if grant.origin.is_none() {
                    let bound = GrantRow { origin: Some(origin.to_owned()), ..grant };
                    tables.put_grant(owner.as_str(), &bound)?;
                }
            }
            Ok(())
        })
    }

    /// Revokes a grant. Returns whether it existed.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn revoke_grant(
        &self,
        actor: Actor<'_>,
        owner: &Owner,
        skill: &SkillId,
        name: &SecretName,
    ) -> Result<bool, VaultError> {
        let binding = binding(owner, Some(skill), name);
        self.backend.write(|tables| {
            if !tables.remove_grant(binding)? {
                return Ok(false);
            }
            let subject = format!("{name} of {} to market/{skill}", owner.as_str());
            record(tables, actor, "secret.ungrant", &subject)?;
            Ok(true)
        })
    }

    /// Returns all grants of an owner.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn grants(&self, owner: &Owner) -> Result<Vec<Grant>, VaultError> {
        let grants = self.backend.read(|tables| tables.grants_of(owner.as_str(), None))?;
        let grant = |GrantRow { name, skill, granted_at, origin }| Grant {
            name,
            skill,
            origin,
            granted_at: granted_at.to_string(),
        };
        Ok(grants.into_iter().map(grant).collect())
    }
}
