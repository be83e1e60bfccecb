//! `GET /v1/skills/{id}`: a skill in full, and how its name is resolved.

use std::sync::Arc;

use axum::{extract::State, http::HeaderMap, response::Response};
use serde::{Deserialize, Deserializer, de};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use skills_core::{
    Caller, Digest, SkillId, Tier, User, json_size::escaped_size, version::split_version,
};
use skills_execution::Manifest;
use skills_http::{TaggedBody, with_yank_warning};
use skills_manifest::template::SecretRequirements;
use skills_registry::{Registry, RegistryError, SizedLruCache, SkillRow};
use skills_vault::{CalledSkill, Vault};
use utoipa::IntoParams;

use super::wire::{Docs, Explained, ImportedFrom, Missing, Secrets, SkillDetail, Spec, TierName};
use crate::{
    Gateway,
    caller::{MaybeUser, ResponseBudget},
    error::GatewayError,
    extractors::{PathParam, Query, TakenHeaders},
    openapi::ErrorResponse,
    response::Success,
};

/// Responses depend on the caller and must be revalidated each time.
const CACHE_CONTROL: &str = "private, no-cache";
/// Capacity of the cache of responses in bytes.
const MAX_BYTES: usize = 32 << 20;
/// Estimated bytes of a cached response besides its body.
const ENTRY_BYTES: usize = 256;

/// Options of a request.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DetailQuery {
    /// True to explain how the name is resolved.
    #[serde(default, deserialize_with = "parse_flag")]
    #[param(value_type = Option<String>, pattern = "^(0|1|true|false)$")]
    explain: bool,
    /// Tier of the copy, also if it is shadowed.
    #[param(inline)]
    tier: Option<TierName>,
}

/// Parses `1`, `true`, `0` and `false`.
fn parse_flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(de::Error::custom("explain is 0 or 1")),
    }
}

/// Show a skill
///
/// The skill that the name resolves to, the copy of a tier, or one version. A skill without a manifest has its document in
/// `docs`. The header `X-Skill-Yanked` has the percent-encoded reason why the version was yanked.
#[utoipa::path(
    get,
    path = "/v1/skills/{id}",
    tag = "skills",
    params(("id" = String, Path, description = "Id of the skill, with or without the prefix, or an address with a version such as `id@3`"), DetailQuery),
    responses(
        (status = 200, description = "The skill", body = SkillDetail),
        (status = 304, description = "The client has it already, as If-None-Match says"),
        (status = 404, response = ErrorResponse),
        (status = 409, response = ErrorResponse),
        (status = 410, response = ErrorResponse),
        (status = 422, response = ErrorResponse),
    ),
)]
pub(super) async fn detail(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    budget: ResponseBudget,
    PathParam(name): PathParam<String>,
    Query(DetailQuery { explain, tier }): Query<DetailQuery>,
    TakenHeaders(headers): TakenHeaders,
) -> Result<Response, GatewayError> {
    let executor = gateway.executor().await?;
    let registry = executor.registry();
    let row = &*registry.skill_at(&caller, tier.map(Into::into), &name).await?;
    let (id, _) = split_version(&name).map_err(RegistryError::from)?;
    let explain = explain.then(|| registry.catalog_for(&caller).explain(&caller, &id));
    let explain = explain.map(|found| Explained {
        answer: found.answer.map(Into::into),
        shadows: found.shadows.into_iter().map(Into::into).collect(),
        tried: found.tried.into_iter().map(Into::into).collect(),
    });
    let (version, yanked) = row.version().map(|read| (read.version, read.yanked)).unzip();
    let yanked = yanked.flatten();
    let respond = |body: &TaggedBody| respond(body, &headers, yanked.as_deref());
    let detail = |spec, secrets, explain| SkillDetail {
        success: Success,
        spec,
        source: row.tier.into(),
        is_official: row.tier == Tier::Official,
        version,
        yanked: yanked.clone(),
        provenance: row.meta.provenance.as_deref().and_then(ImportedFrom::new),
        secrets,
        explain,
    };
    let is_cached = explain.is_none() && yanked.is_none();
    let key = row.meta.tool.as_ref().filter(|_| is_cached).map(|tool| DetailKey {
        manifest: tool.source.digest,
        id: Arc::clone(&row.id),
        tier: row.tier,
        version,
        is_user: caller.owner().is_some(),
    });
    if let Some(cached) = key.as_ref().and_then(|key| gateway.details.0.get(key)) {
        return Ok(respond(&cached));
    }
    let Some(manifest) = executor.manifest(row).await? else {
        let secrets = caller.owner().map(|_| no_secrets());
        let spec = document_spec(registry, &budget, row).await?;
        let body = tagged(&detail(spec, secrets, explain))?;
        return Ok(respond(&body));
    };
    let needs = &manifest.needs;
    let (secrets, key) = match &caller {
        Caller::User(_) if needs.required.is_empty() => {
            let optional = needs.optional.clone();
            (Some(Secrets { optional, ..no_secrets() }), key)
        }
        // Depends on the secrets that the user has set.
        Caller::User(user) => (Some(user_secrets(&gateway, user, row, &manifest).await?), None),
        Caller::Anonymous | Caller::Admin(_) => (None, key),
    };
    let spec = to_raw_value(&manifest.spec.to_public(row.tier))?;
    let body = tagged(&detail(spec, secrets, explain))?;
    if let Some(key) = key {
        gateway.details.0.put(key, body.clone(), ENTRY_BYTES + body.len());
    }
    Ok(respond(&body))
}

/// Responds with a skill, and with a warning if its version is yanked.
fn respond(body: &TaggedBody, request: &HeaderMap, yanked: Option<&str>) -> Response {
    with_yank_warning(body.respond(request, CACHE_CONTROL), yanked)
}

fn tagged(detail: &SkillDetail) -> Result<TaggedBody, serde_json::Error> {
    Ok(TaggedBody::new("application/json", serde_json::to_vec(detail)?.into()))
}

/// LRU cache of responses that depend on nothing but the manifest, bounded by memory.
#[derive(Debug)]
pub(crate) struct DetailCache(SizedLruCache<DetailKey, TaggedBody>);

impl Default for DetailCache {
    fn default() -> Self {
        Self(SizedLruCache::new(MAX_BYTES))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DetailKey {
    manifest: Digest,
    id: Arc<str>,
    tier: Tier,
    version: Option<u64>,
    /// Responses to users also list the secrets.
    is_user: bool,
}

/// Returns the spec of a skill without a manifest.
async fn document_spec(
    registry: &Registry,
    budget: &ResponseBudget,
    row: &SkillRow,
) -> Result<Box<RawValue>, GatewayError> {
    let size = row.meta.root().and_then(|file| usize::try_from(file.size).ok());
    budget.reserve(size.unwrap_or_default().saturating_mul(2))?;
    let body = registry.root_document(row).await?;
    let full_md = String::from_utf8_lossy(&body).into_owned();
    // The text as JSON, by itself and in the response.
    budget.reserve(escaped_size(&full_md).saturating_mul(2))?;
    let short = row.description().unwrap_or_default().into_owned();
    Ok(to_raw_value(&Spec {
        id: row.id.to_string(),
        name: row.id.to_string(),
        display_name: Some(row.title().to_owned()),
        description: short.clone(),
        parameters: json!({"type": "object", "properties": {}}),
        implementation: json!({"type": "document"}),
        docs: Some(Docs { short, full_md }),
        source: row.tier.into(),
        is_official: row.tier == Tier::Official,
    })?)
}

fn no_secrets() -> Secrets {
    Secrets { required: vec![], optional: vec![], missing: vec![] }
}

/// Returns the secrets that a skill needs, and those that a call of this user would miss.
async fn user_secrets(
    gateway: &Gateway,
    user: &User,
    row: &SkillRow,
    manifest: &Manifest,
) -> Result<Secrets, GatewayError> {
    let SecretRequirements { required, optional } = manifest.needs.clone();
    let id: SkillId = row.id.parse().map_err(RegistryError::from)?;
    let (owner, tier, needed) = (user.owner.clone(), row.tier, required.clone());
    let origin = manifest.origin.clone();
    let missing = move |vault: &Vault| {
        let skill = CalledSkill { tier, id: &id, origin: origin.as_deref() };
        vault.missing_secrets(&owner, skill, &needed)
    };
    let missing = gateway.vault(missing).await?;
    let missing = missing.into_iter().map(Missing::from).collect();
    Ok(Secrets { required, optional, missing })
}
