//! Removal of skills and versions by those who may publish them. A removed skill keeps its versions, and a withdrawn
//! version its content, so both can be undone.

use axum::{
    Json,
    body::Bytes,
    extract::{Path, rejection::PathRejection},
};
use serde::Deserialize;
use skills_core::{EntryKind, SkillId, Tier, VersionSelector};
use skills_registry::{PublishRequest, RollbackRequest, YankRequest};

use super::{error::ClawHubError, owner, request::ApiRequest, wire::Done};

/// Reason of a yank if the client sends none.
const REASON: &str = "withdrawn by its publisher";

/// Body of a removal, which may be absent.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Removal {
    owner_handle: Option<String>,
    reason: Option<String>,
}

impl Removal {
    fn parse(body: &[u8]) -> Result<Self, ClawHubError> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(body).map_err(|error| ClawHubError::Body(error.to_string()))
    }
}

/// Returns the skill that the caller may change.
fn writable(
    request: &ApiRequest,
    slug: &str,
    removal: &Removal,
) -> Result<(Tier, SkillId), ClawHubError> {
    let tier = owner::writable_tier(removal.owner_handle.as_deref(), &request.caller)?;
    let id = slug.parse().map_err(|_| ClawHubError::SkillNotFound)?;
    Ok((tier, id))
}

/// Returns the skill that a request changes, and counts the change.
async fn counted_change(
    request: &ApiRequest,
    slug: &str,
    body: &[u8],
) -> Result<(Tier, SkillId), ClawHubError> {
    let target = writable(request, slug, &Removal::parse(body)?)?;
    request.count_change().await?;
    Ok(target)
}

pub(super) async fn remove(
    request: ApiRequest,
    slug: Result<Path<String>, PathRejection>,
    body: Bytes,
) -> Result<Json<Done>, ClawHubError> {
    let Path(slug) = slug?;
    let (tier, id) = counted_change(&request, &slug, &body).await?;
    if request.skills.remove_skill(tier, id.as_str()).await? {
        Ok(Json(Done { ok: true }))
    } else {
        Err(ClawHubError::SkillNotFound)
    }
}

/// Publishes the last version of a removed skill again, as a new one.
pub(super) async fn restore(
    request: ApiRequest,
    slug: Result<Path<String>, PathRejection>,
    body: Bytes,
) -> Result<Json<Done>, ClawHubError> {
    let Path(slug) = slug?;
    let (tier, id) = counted_change(&request, &slug, &body).await?;
    let catalog = request.skills.catalog().await?;
    if catalog.exact_skill(tier, id.as_str()).is_none() {
        let newest = request.all_versions(tier, &id.to_shared()).await?.newest();
        let (number, _) = newest.ok_or(ClawHubError::SkillNotFound)?;
        let rollback = RollbackRequest {
            id: id.to_string(),
            tier: Some(tier),
            to: VersionSelector::Number(number),
            publish: PublishRequest::default(),
        };
        request.skills.rollback(EntryKind::Skill, &rollback).await?;
    }
    Ok(Json(Done { ok: true }))
}

pub(super) async fn yank(
    request: ApiRequest,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Bytes,
) -> Result<Json<Done>, ClawHubError> {
    set_yanked(&request, path?.0, &body, false).await
}

pub(super) async fn unyank(
    request: ApiRequest,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Bytes,
) -> Result<Json<Done>, ClawHubError> {
    set_yanked(&request, path?.0, &body, true).await
}

async fn set_yanked(
    request: &ApiRequest,
    (slug, version): (String, String),
    body: &[u8],
    undo: bool,
) -> Result<Json<Done>, ClawHubError> {
    let removal = Removal::parse(body)?;
    let (tier, id) = writable(request, &slug, &removal)?;
    let versions = request.all_versions(tier, &id.to_shared()).await?;
    let number = versions.number(&version).ok_or(ClawHubError::VersionNotFound)?;
    request.count_change().await?;
    let reason = if undo { None } else { removal.reason.or_else(|| Some(REASON.to_owned())) };
    let yank = YankRequest {
        id: id.to_string(),
        tier: Some(tier),
        version: VersionSelector::Number(number),
        reason: reason.unwrap_or_default(),
        undo,
        purge: false,
    };
    request.skills.yank(EntryKind::Skill, &yank).await?;
    Ok(Json(Done { ok: true }))
}
