//! `GET /v1/skills/{id}`: a skill in full, and why its name leads to it.

use std::sync::OnceLock;

use axum::{extract::State, http::HeaderMap, response::Response};
use serde::{Deserialize, Deserializer, de};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use skills_core::{Caller, SkillId, Tier, User, template::SecretNeeds};
use skills_registry::{Registry, SkillRow};
use skills_vault::{CalledSkill, Vault};
use utoipa::IntoParams;

use super::wire::{Docs, Explained, Missing, Secrets, SkillDetail, Spec, TierName};
use crate::{
    Gateway,
    caller::Asks,
    envelope::{Success, Tagged},
    error::GatewayError,
    input::{Asked, Named},
    manifests::{Manifest, manifest},
    openapi::Refused,
};

/// Which copy of a skill, and how much of it.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DetailQuery {
    /// Also say why the name leads where it leads.
    #[serde(default, deserialize_with = "flag")]
    #[param(value_type = Option<String>, pattern = "^(0|1|true|false)$")]
    explain: bool,
    /// The copy of this tier, also if it is shadowed.
    #[param(inline)]
    tier: Option<TierName>,
}

/// `1` and `true`, `0` and `false`.
fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err(de::Error::custom("explain is 0 or 1")),
    }
}

/// Show a skill
///
/// The one that answers to the name, or the copy of a tier. A skill without a manifest has its document in `docs`.
#[utoipa::path(
    get,
    path = "/v1/skills/{id}",
    tag = "skills",
    params(("id" = String, Path, description = "Its id, with or without the prefix"), DetailQuery),
    responses(
        (status = 200, description = "The skill", body = SkillDetail),
        (status = 304, description = "The client has it already, as If-None-Match says"),
        (status = 404, response = Refused),
    ),
)]
pub(super) async fn detail(
    State(gateway): State<Gateway>,
    Asks(caller): Asks,
    Named(name): Named<String>,
    Asked(DetailQuery { explain, tier }): Asked<DetailQuery>,
    headers: HeaderMap,
) -> Result<Response, GatewayError> {
    let registry = gateway.registry().await?;
    let catalog = registry.catalog_of(&caller);
    let row = catalog.readable_skill(tier.map(Into::into), &name)?;
    let explain = explain.then(|| catalog.explain(&caller, &name)).map(|found| Explained {
        answer: found.answer.map(Into::into),
        shadows: found.shadows.into_iter().map(Into::into).collect(),
        tried: found.tried.into_iter().map(Into::into).collect(),
    });
    let detail = |spec, secrets, explain| SkillDetail {
        success: Success,
        spec,
        source: row.tier.into(),
        is_official: row.tier == Tier::Official,
        secrets,
        explain,
    };
    let Some(manifest) = manifest(&gateway, row).await? else {
        let secrets = caller.owner().map(|_| nothing_needed());
        let spec = document(&registry, row).await?;
        return Ok(Tagged::new(&detail(spec, secrets, explain))?.answer(&headers));
    };
    let needs = &manifest.needs;
    let (secrets, kept) = match &caller {
        Caller::User(_) if needs.required.is_empty() => {
            let optional = needs.optional.clone();
            (Some(Secrets { optional, ..nothing_needed() }), Some(&manifest.to_users))
        }
        Caller::User(user) => (Some(secrets(&gateway, user, row, &manifest).await?), None),
        Caller::Anonymous | Caller::Admin(_) => (None, Some(&manifest.to_others)),
    };
    // What depends on nothing but the manifest is made once.
    let kept = kept.filter(|_| explain.is_none()).map(|kept| &kept[row.tier as usize]);
    if let Some(made) = kept.and_then(OnceLock::get) {
        return Ok(made.answer(&headers));
    }
    let made = Tagged::new(&detail(manifest.on_wire(row.tier)?, secrets, explain))?;
    let answer = made.answer(&headers);
    if let Some(kept) = kept {
        let _ = kept.set(made);
    }
    Ok(answer)
}

/// A skill that is only read, in the shape of the others.
async fn document(registry: &Registry, row: &SkillRow) -> Result<Box<RawValue>, GatewayError> {
    let body = registry.document_of(row).await?;
    let short = row.meta.description.clone().unwrap_or_default();
    Ok(to_raw_value(&Spec {
        id: row.id.to_string(),
        name: row.id.to_string(),
        display_name: Some(row.title().to_owned()),
        description: short.clone(),
        parameters: json!({"type": "object", "properties": {}}),
        implementation: json!({"type": "document"}),
        docs: Some(Docs { short, full_md: String::from_utf8_lossy(&body).into_owned() }),
        source: row.tier.into(),
        is_official: row.tier == Tier::Official,
    })?)
}

fn nothing_needed() -> Secrets {
    Secrets { required: vec![], optional: vec![], missing: vec![] }
}

/// What a skill needs, and what of it this user's call would lack.
async fn secrets(
    gateway: &Gateway,
    user: &User,
    row: &SkillRow,
    manifest: &Manifest,
) -> Result<Secrets, GatewayError> {
    let SecretNeeds { required, optional } = manifest.needs.clone();
    let id: SkillId = row.id.parse().map_err(skills_registry::RegistryError::from)?;
    let (owner, tier, needed) = (user.owner.clone(), row.tier, required.clone());
    let origin = manifest.origin.clone();
    let lacking = move |vault: &Vault| {
        let skill = CalledSkill { tier, id: &id, origin: origin.as_deref() };
        vault.lacking_secrets(&owner, skill, &needed)
    };
    let lacks = gateway.vault(lacking).await?;
    let missing = lacks.into_iter().map(Missing::from).collect();
    Ok(Secrets { required, optional, missing })
}
