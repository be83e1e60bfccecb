//! What somebody's skills are called with: set, listed by name and removed by who has the key, and never read
//! back. `grants`: which skills of the market get them.

mod grants;

use std::sync::Arc;

use axum::{extract::State, response::Response};
use serde::{Deserialize, Deserializer, Serialize};
use skills_core::{Caller, SkillId};
use skills_registry::Catalog;
use skills_vault::{Act, SecretInfo, SecretName, VaultError, now};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};
use zeroize::Zeroizing;

use crate::{
    Gateway,
    caller::WithKey,
    envelope::{Success, answer},
    error::GatewayError,
    fields::{Id, SecretKey, Text},
    input::{Asked, Named, Sent},
    openapi::Refused,
};

pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(set, remove)).merge(grants::routes())
}

/// A text that nobody prints and that leaves no copy behind.
pub(crate) struct Value(pub(crate) Zeroizing<String>);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into()))
    }
}

/// A secret that is to be.
#[derive(Deserialize, ToSchema)]
struct NewSecret {
    /// The plain text; it is encrypted here. At most 64 KiB.
    #[schema(value_type = String, min_length = 1, max_length = 65536, write_only)]
    value: Value,
}

/// Which skill a secret is for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ScopeQuery {
    /// The skill that it is for; for all of them without one.
    #[param(value_type = Option<Id>, inline)]
    skill: Option<Text<SkillId>>,
}

/// A secret that was set or removed.
#[derive(Debug, Serialize, ToSchema)]
struct SecretChanged {
    success: Success,
    name: String,
    /// The skill that it is for; for all of them without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    skill: Option<String>,
}

/// What may be known of a secret.
#[derive(Debug, Serialize, ToSchema)]
struct ListedSecret {
    name: String,
    /// The skill that it is for; for all of them without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    skill: Option<String>,
    /// When it was set, in RFC 3339.
    set_at: String,
    /// The skills of the market that get it.
    granted_to: Vec<String>,
}

impl From<SecretInfo> for ListedSecret {
    fn from(SecretInfo { name, skill, set_at, granted_to }: SecretInfo) -> Self {
        Self { name, skill, set_at, granted_to }
    }
}

/// The secrets of somebody, without their values.
#[derive(Debug, Serialize, ToSchema)]
struct SecretList {
    success: Success,
    data: Vec<ListedSecret>,
}

/// List secrets
///
/// Their names, never their values.
#[utoipa::path(
    get,
    path = "/v1/secrets",
    tag = "secrets",
    responses((status = 200, description = "All of them", body = SecretList)),
    security(("key" = [])),
)]
async fn list(
    State(gateway): State<Gateway>,
    WithKey(user): WithKey,
) -> Result<Response, GatewayError> {
    let secrets = gateway.vault(move |vault| vault.secrets(&user.owner)).await?;
    let data = secrets.into_iter().map(Into::into).collect();
    Ok(answer(SecretList { success: Success, data }))
}

/// Set a secret
///
/// In place of the one of before. It is encrypted, and cannot be read back.
#[utoipa::path(
    put,
    path = "/v1/secrets/{name}",
    tag = "secrets",
    params(("name" = inline(SecretKey), Path, description = "Its name"), ScopeQuery),
    request_body = NewSecret,
    responses(
        (status = 200, description = "It is set", body = SecretChanged),
        (status = 409, response = Refused),
        (status = 415, response = Refused),
        (status = 422, response = Refused),
        (status = 429, response = Refused),
    ),
    security(("key" = [])),
)]
async fn set(
    State(gateway): State<Gateway>,
    key: WithKey,
    Named(Text(name)): Named<Text<SecretName>>,
    Asked(ScopeQuery { skill }): Asked<ScopeQuery>,
    Sent(NewSecret { value: Value(value) }): Sent<NewSecret>,
) -> Result<Response, GatewayError> {
    gateway.count(&key.0)?;
    let catalog = catalog(&gateway, &key).await?;
    let skill = skill.map(|Text(named)| canonical(&catalog, named));
    let changed = changed(&name, skill.as_ref());
    let set = move |vault: &skills_vault::Vault| {
        let (actor, WithKey(user)) = (key.actor(), key);
        let act = Act { by: &actor, at: now() };
        vault.set_secret(act, &user.owner, skill.as_ref(), &name, &value)
    };
    gateway.vault(set).await?;
    Ok(answer(changed))
}

/// Remove a secret
///
/// And the grants of it that have nothing left to give.
#[utoipa::path(
    delete,
    path = "/v1/secrets/{name}",
    tag = "secrets",
    params(("name" = inline(SecretKey), Path, description = "Its name"), ScopeQuery),
    responses(
        (status = 200, description = "It is gone", body = SecretChanged),
        (status = 404, response = Refused),
    ),
    security(("key" = [])),
)]
async fn remove(
    State(gateway): State<Gateway>,
    key: WithKey,
    Named(Text(name)): Named<Text<SecretName>>,
    Asked(ScopeQuery { skill }): Asked<ScopeQuery>,
) -> Result<Response, GatewayError> {
    let catalog = catalog(&gateway, &key).await?;
    let scopes = match skill {
        None => vec![None],
        // As it was named, which is how it may have been set when the name led elsewhere.
        Some(Text(named)) => vec![Some(named.clone()), Some(canonical(&catalog, named))],
    };
    let remove = move |vault: &skills_vault::Vault| {
        let (actor, WithKey(user)) = (key.actor(), key);
        let act = Act { by: &actor, at: now() };
        for skill in &scopes {
            if vault.remove_secret(act, &user.owner, skill.as_ref(), &name)? {
                return Ok(changed(&name, skill.as_ref()));
            }
        }
        let of = scopes.into_iter().next().flatten().map(|skill| format!(" for the skill {skill}"));
        let (owner, name) = (user.owner.to_string(), name.to_string());
        Err(VaultError::NoSuchSecret { owner, name, of: of.unwrap_or_default() })
    };
    Ok(answer(gateway.vault(remove).await?))
}

fn changed(name: &SecretName, skill: Option<&SkillId>) -> SecretChanged {
    SecretChanged {
        success: Success,
        name: name.to_string(),
        skill: skill.map(ToString::to_string),
    }
}

/// What somebody with a key sees.
async fn catalog(gateway: &Gateway, WithKey(user): &WithKey) -> Result<Arc<Catalog>, GatewayError> {
    Ok(gateway.registry().await?.catalog_of(&Caller::User(user.clone())))
}

/// The id of the skill that a name leads to, which is what its secrets are kept for; the name itself where
/// it leads nowhere yet.
fn canonical(catalog: &Catalog, named: SkillId) -> SkillId {
    let found = catalog.skill(named.as_str()).and_then(|row| row.id.parse().ok());
    found.unwrap_or(named)
}
