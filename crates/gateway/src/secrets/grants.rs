//! Grants of secrets to skills of the market. Skills of other tiers need no grant.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::{EntryKind, SkillId, Tier};
use skills_registry::RegistryError;
use skills_vault::{Actor, SecretName, now};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::user_catalog;
use crate::{
    Gateway,
    caller::AuthenticatedUser,
    error::GatewayError,
    extractors::PathParam,
    openapi::ErrorResponse,
    parsed_field::{Id, Parsed, SecretKey},
    response::{Success, json_response},
};

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(grant, revoke))
}

/// Path parameters.
#[derive(Debug, Deserialize)]
struct Grant {
    name: Parsed<SecretName>,
    skill: Parsed<SkillId>,
}

/// State of a grant after the request.
#[derive(Debug, Serialize, ToSchema)]
struct GrantResponse {
    success: Success,
    /// Name of the secret.
    name: String,
    /// Id of the skill of the market.
    skill: String,
    /// True if the skill gets the secret.
    granted: bool,
}

/// Grant a secret to a skill of the market
///
/// The skill must exist. The grant is bound to the server that it calls now.
#[utoipa::path(
    put,
    path = "/v1/secrets/{name}/grants/{skill}",
    tag = "secrets",
    params(
        ("name" = inline(SecretKey), Path, description = "Name of the secret"),
        ("skill" = inline(Id), Path, description = "Id of the skill of the market, with or without the prefix"),
    ),
    responses(
        (status = 200, description = "The secret is granted", body = GrantResponse),
        (status = 404, response = ErrorResponse),
        (status = 409, response = ErrorResponse),
        (status = 429, response = ErrorResponse),
    ),
    security(("key" = [])),
)]
async fn grant(
    State(gateway): State<Gateway>,
    key: AuthenticatedUser,
    PathParam(Grant { name: Parsed(name), skill: Parsed(named) }): PathParam<Grant>,
) -> Result<Response, GatewayError> {
    gateway.count_write(&key.0).await?;
    let catalog = user_catalog(&gateway, &key).await?;
    let row = catalog.skill_in(Tier::Market, named.as_str());
    let row = row
        .ok_or_else(|| RegistryError::NotFound { kind: EntryKind::Skill, id: named.to_string() })?;
    let manifest = gateway.executor().await?.manifest(row).await?;
    // A skill that calls no server now must not get the secret for a server that it calls later.
    let origin = manifest.and_then(|manifest| manifest.origin.clone()).unwrap_or_default();
    let skill: SkillId = row.id.parse().map_err(RegistryError::from)?;
    let response = grant_response(&name, &skill, true);
    let grant = move |vault: &skills_vault::Vault| {
        let (actor, AuthenticatedUser(user)) = (key.actor(), key);
        let act = Actor { name: &actor, at: now() };
        vault.grant_secret(act, &user.owner, &skill, Some(&origin), &name)
    };
    gateway.vault(grant).await?;
    Ok(json_response(response))
}

/// Revoke a grant
///
/// Succeeds also if there is none.
#[utoipa::path(
    delete,
    path = "/v1/secrets/{name}/grants/{skill}",
    tag = "secrets",
    params(
        ("name" = inline(SecretKey), Path, description = "Name of the secret"),
        ("skill" = inline(Id), Path, description = "Id of the skill of the market, with or without the prefix"),
    ),
    responses(
        (status = 200, description = "The secret is not granted", body = GrantResponse),
    ),
    security(("key" = [])),
)]
async fn revoke(
    State(gateway): State<Gateway>,
    key: AuthenticatedUser,
    PathParam(Grant { name: Parsed(name), skill: Parsed(named) }): PathParam<Grant>,
) -> Result<Response, GatewayError> {
    // Also a grant to a skill that has left the market since.
    let found = market_skill(&gateway, &key, &named).await?;
    let skills = [Some(named.clone()), found.clone()];
    let response = grant_response(&name, found.as_ref().unwrap_or(&named), false);
    let revoke = move |vault: &skills_vault::Vault| {
        let (actor, AuthenticatedUser(user)) = (key.actor(), key);
        let act = Actor { name: &actor, at: now() };
        for skill in skills.iter().flatten() {
            vault.revoke_grant(act, &user.owner, skill, &name)?;
        }
        Ok(())
    };
    gateway.vault(revoke).await?;
    Ok(json_response(response))
}

fn grant_response(name: &SecretName, skill: &SkillId, granted: bool) -> GrantResponse {
    GrantResponse { success: Success, name: name.to_string(), skill: skill.to_string(), granted }
}

/// Returns the id of the skill of the market that a name resolves to.
async fn market_skill(
    gateway: &Gateway,
    key: &AuthenticatedUser,
    named: &SkillId,
) -> Result<Option<SkillId>, GatewayError> {
    let catalog = user_catalog(gateway, key).await?;
    let row = catalog.skill_in(Tier::Market, named.as_str());
    Ok(row.and_then(|row| row.id.parse().ok()))
}
