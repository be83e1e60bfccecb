//! Routes for the secrets of a user: set, list names, remove. Values are never returned. `grants` has the routes for
//! grants to skills of the market.

mod grants;

use std::sync::Arc;

use axum::{extract::State, response::Response};
use serde::{Deserialize, Deserializer, Serialize};
use skills_core::{Caller, SkillId};
use skills_registry::Catalog;
use skills_vault::{Actor, SecretInfo, SecretName, VaultError, now};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};
use zeroize::Zeroizing;

use crate::{
    Gateway,
    caller::AuthenticatedUser,
    error::GatewayError,
    extractors::{JsonBody, PathParam, Query},
    openapi::ErrorResponse,
    parsed_field::{Id, Parsed, SecretKey},
    response::{Success, json_response},
};

pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(set, remove)).merge(grants::routes())
}

/// Plain text of a secret; not printable, zeroed on drop.
pub(crate) struct SecretText(pub(crate) Zeroizing<String>);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into()))
    }
}

/// A new secret.
#[derive(Deserialize, ToSchema)]
struct NewSecret {
    /// Plain text, which is stored encrypted. At most 64 KiB.
    #[schema(value_type = String, min_length = 1, max_length = 65536, write_only)]
    value: SecretText,
}

/// Scope of a secret.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ScopeQuery {
    /// Skill that the secret is for; all skills if absent.
    #[param(value_type = Option<Id>, inline)]
    skill: Option<Parsed<SkillId>>,
}

/// A changed secret.
#[derive(Debug, Serialize, ToSchema)]
struct SecretResponse {
    success: Success,
    name: String,
    /// Skill that the secret is for; all skills if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    skill: Option<String>,
}

/// A secret without its value.
#[derive(Debug, Serialize, ToSchema)]
struct ListedSecret {
    name: String,
    /// Skill that the secret is for; all skills if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    skill: Option<String>,
    /// Time of the last change, in RFC 3339.
    set_at: String,
    /// Skills of the market that it is granted to.
    granted_to: Vec<String>,
}

impl From<SecretInfo> for ListedSecret {
    fn from(SecretInfo { name, skill, set_at, granted_to }: SecretInfo) -> Self {
        Self { name, skill, set_at, granted_to }
    }
}

/// Secrets of a user.
#[derive(Debug, Serialize, ToSchema)]
struct SecretList {
    success: Success,
    data: Vec<ListedSecret>,
}

/// List secrets
///
/// Names only, never values.
#[utoipa::path(
    get,
    path = "/v1/secrets",
    tag = "secrets",
    responses((status = 200, description = "All secrets of the user", body = SecretList)),
    security(("key" = [])),
)]
async fn list(
    State(gateway): State<Gateway>,
    AuthenticatedUser(user): AuthenticatedUser,
) -> Result<Response, GatewayError> {
    let secrets = gateway.vault(move |vault| vault.secrets(&user.owner)).await?;
    let data = secrets.into_iter().map(Into::into).collect();
    Ok(json_response(SecretList { success: Success, data }))
}

/// Set a secret
///
/// Replaces the present value. It is stored encrypted, and cannot be read back.
#[utoipa::path(
    put,
    path = "/v1/secrets/{name}",
    tag = "secrets",
    params(("name" = inline(SecretKey), Path, description = "Name of the secret"), ScopeQuery),
    request_body = NewSecret,
    responses(
        (status = 200, description = "The secret is set", body = SecretResponse),
        (status = 409, response = ErrorResponse),
        (status = 429, response = ErrorResponse),
    ),
    security(("key" = [])),
)]
async fn set(
    State(gateway): State<Gateway>,
    key: AuthenticatedUser,
    PathParam(Parsed(name)): PathParam<Parsed<SecretName>>,
    Query(ScopeQuery { skill }): Query<ScopeQuery>,
    JsonBody(NewSecret { value: SecretText(value) }): JsonBody<NewSecret>,
) -> Result<Response, GatewayError> {
    gateway.count_write(&key.0).await?;
    let catalog = user_catalog(&gateway, &key).await?;
    let skill = skill.map(|Parsed(named)| canonical_id(&catalog, named));
    let response = secret_response(&name, skill.as_ref());
    let set = move |vault: &skills_vault::Vault| {
        let (actor, AuthenticatedUser(user)) = (key.actor(), key);
        let act = Actor { name: &actor, at: now() };
        vault.set_secret(act, &user.owner, skill.as_ref(), &name, &value)
    };
    gateway.vault(set).await?;
    Ok(json_response(response))
}

/// Remove a secret
///
/// Also removes grants that no longer have a secret.
#[utoipa::path(
    delete,
    path = "/v1/secrets/{name}",
    tag = "secrets",
    params(("name" = inline(SecretKey), Path, description = "Name of the secret"), ScopeQuery),
    responses(
        (status = 200, description = "The secret is removed", body = SecretResponse),
        (status = 404, response = ErrorResponse),
    ),
    security(("key" = [])),
)]
async fn remove(
    State(gateway): State<Gateway>,
    key: AuthenticatedUser,
    PathParam(Parsed(name)): PathParam<Parsed<SecretName>>,
    Query(ScopeQuery { skill }): Query<ScopeQuery>,
) -> Result<Response, GatewayError> {
    let catalog = user_catalog(&gateway, &key).await?;
    let scopes = match skill {
        None => vec![None],
        // Also under the name itself: it may have been set when the name resolved to another skill.
        Some(Parsed(named)) => vec![Some(named.clone()), Some(canonical_id(&catalog, named))],
    };
    let remove = move |vault: &skills_vault::Vault| {
        let (actor, AuthenticatedUser(user)) = (key.actor(), key);
        let act = Actor { name: &actor, at: now() };
        for skill in &scopes {
            if vault.remove_secret(act, &user.owner, skill.as_ref(), &name)? {
                return Ok(secret_response(&name, skill.as_ref()));
            }
        }
        let of = scopes.into_iter().next().flatten().map(|skill| format!(" for the skill {skill}"));
        let (owner, name) = (user.owner.to_string(), name.to_string());
        Err(VaultError::NoSuchSecret { owner, name, scope: of.unwrap_or_default() })
    };
    Ok(json_response(gateway.vault(remove).await?))
}

fn secret_response(name: &SecretName, skill: Option<&SkillId>) -> SecretResponse {
    SecretResponse {
        success: Success,
        name: name.to_string(),
        skill: skill.map(ToString::to_string),
    }
}

/// Returns the catalog in a user's view.
async fn user_catalog(
    gateway: &Gateway,
    AuthenticatedUser(user): &AuthenticatedUser,
) -> Result<Arc<Catalog>, GatewayError> {
    Ok(gateway.registry().await?.catalog_for(&Caller::User(user.clone())))
}

/// Returns the id that a name resolves to, which its secrets are stored under, or the name itself if it does not resolve
/// yet.
fn canonical_id(catalog: &Catalog, named: SkillId) -> SkillId {
    let found = catalog.skill(named.as_str()).and_then(|row| row.id.parse().ok());
    found.unwrap_or(named)
}
