//! Which skills of the market get which secrets. Other tiers need no grant.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::{Kind, SkillId, Tier};
use skills_registry::RegistryError;
use skills_vault::{Act, SecretName, now};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::catalog;
use crate::{
    Gateway,
    caller::WithKey,
    envelope::{Success, answer},
    error::GatewayError,
    fields::{Id, SecretKey, Text},
    input::Named,
    manifests::manifest,
    openapi::Refused,
};

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(grant, take_back))
}

/// Which secret, and which skill of the market.
#[derive(Debug, Deserialize)]
struct Grant {
    name: Text<SecretName>,
    skill: Text<SkillId>,
}

/// A grant that is there, or is no more.
#[derive(Debug, Serialize, ToSchema)]
struct Granted {
    success: Success,
    /// The secret's name.
    name: String,
    /// The id of the skill of the market.
    skill: String,
    /// Whether the skill gets the secret now.
    granted: bool,
}

/// Grant a secret to a skill of the market
///
/// It has to be there: nobody is promised a secret whom nobody has seen. The grant is for the server that the skill
/// calls now.
#[utoipa::path(
    put,
    path = "/v1/secrets/{name}/grants/{skill}",
    tag = "secrets",
    params(
        ("name" = inline(SecretKey), Path, description = "The name of the secret"),
        ("skill" = inline(Id), Path, description = "The skill of the market, with or without the prefix"),
    ),
    responses(
        (status = 200, description = "The skill gets it", body = Granted),
        (status = 404, response = Refused),
        (status = 409, response = Refused),
        (status = 429, response = Refused),
    ),
    security(("key" = [])),
)]
async fn grant(
    State(gateway): State<Gateway>,
    key: WithKey,
    Named(Grant { name: Text(name), skill: Text(named) }): Named<Grant>,
) -> Result<Response, GatewayError> {
    gateway.count(&key.0)?;
    let catalog = catalog(&gateway, &key).await?;
    let row = catalog.skill_in(Tier::Market, named.as_str());
    let row =
        row.ok_or_else(|| RegistryError::NotFound { kind: Kind::Skill, id: named.to_string() })?;
    let manifest = manifest(&gateway, row).await?;
    // What calls nothing now is not to have it wherever it calls later.
    let origin = manifest.and_then(|manifest| manifest.origin.clone()).unwrap_or_default();
    let skill: SkillId = row.id.parse().map_err(RegistryError::from)?;
    let granted = granted(&name, &skill, true);
    let grant = move |vault: &skills_vault::Vault| {
        let (actor, WithKey(user)) = (key.actor(), key);
        let act = Act { by: &actor, at: now() };
        vault.grant_secret(act, &user.owner, &skill, Some(&origin), &name)
    };
    gateway.vault(grant).await?;
    Ok(answer(granted))
}

/// Take a grant back
///
/// It does not matter whether it was there.
#[utoipa::path(
    delete,
    path = "/v1/secrets/{name}/grants/{skill}",
    tag = "secrets",
    params(
        ("name" = inline(SecretKey), Path, description = "The name of the secret"),
        ("skill" = inline(Id), Path, description = "The skill of the market, with or without the prefix"),
    ),
    responses(
        (status = 200, description = "The skill does not get it", body = Granted),
    ),
    security(("key" = [])),
)]
async fn take_back(
    State(gateway): State<Gateway>,
    key: WithKey,
    Named(Grant { name: Text(name), skill: Text(named) }): Named<Grant>,
) -> Result<Response, GatewayError> {
    // Also one that has left the market since.
    let found = in_market(&gateway, &key, &named).await?;
    let skills = [Some(named.clone()), found.clone()];
    let answered = granted(&name, found.as_ref().unwrap_or(&named), false);
    let take_back = move |vault: &skills_vault::Vault| {
        let (actor, WithKey(user)) = (key.actor(), key);
        let act = Act { by: &actor, at: now() };
        for skill in skills.iter().flatten() {
            vault.ungrant_secret(act, &user.owner, skill, &name)?;
        }
        Ok(())
    };
    gateway.vault(take_back).await?;
    Ok(answer(answered))
}

fn granted(name: &SecretName, skill: &SkillId, granted: bool) -> Granted {
    Granted { success: Success, name: name.to_string(), skill: skill.to_string(), granted }
}

/// The id of the skill of the market that a name leads to.
async fn in_market(
    gateway: &Gateway,
    key: &WithKey,
    named: &SkillId,
) -> Result<Option<SkillId>, GatewayError> {
    let catalog = catalog(gateway, key).await?;
    let row = catalog.skill_in(Tier::Market, named.as_str());
    Ok(row.and_then(|row| row.id.parse().ok()))
}
