//! Metadata, files and archives of skills.

use axum::{
    Json,
    extract::{Path, Query, rejection::PathRejection, rejection::QueryRejection},
    http::header,
    response::{IntoResponse as _, Response},
};
use serde::Deserialize;
use skills_core::{Caller, EntryKind, SkillId, content::media_type};
use skills_http::TaggedBody;
use skills_registry::HistoryRequest;

use super::{
    error::ClawHubError,
    fingerprint, owner,
    request::{ApiRequest, FoundSkill},
    wire::{
        InstallArchive, InstallResponse, Moderation, OwnerInfo, Resolution, Skill, SkillName,
        SkillResponse, Version, VersionFiles, VersionList, VersionName, VersionResponse, WellKnown,
        Whoami, WhoamiUser, number_of,
    },
};
use crate::{
    archive::{Archive, archive},
    skill_tree::read_file,
};

/// Versions that are compared with a fingerprint, newest first. A client remembers the version of what it installed, so
/// that older ones are known to it.
const MAX_COMPARED: usize = 100;

/// Names one skill.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SkillQuery {
    #[serde(default)]
    slug: String,
    owner_handle: Option<String>,
    version: Option<String>,
    tag: Option<String>,
    path: Option<String>,
    #[serde(default)]
    hash: String,
    limit: Option<usize>,
    cursor: Option<String>,
}

type Parameters = Result<Query<SkillQuery>, QueryRejection>;
type Slug = Result<Path<String>, PathRejection>;

pub(super) async fn well_known(request: ApiRequest) -> Json<WellKnown> {
    Json(WellKnown { api_base: request.base_url() })
}

/// Tells who the caller is, by which clients check a key. A server's token has no user.
pub(super) async fn whoami(request: ApiRequest) -> Result<Json<Whoami>, ClawHubError> {
    let has_token = request.state.distribution.settings.is_private;
    if request.caller == Caller::Anonymous && !has_token {
        return Err(ClawHubError::KeyNeeded);
    }
    let role = if matches!(request.caller, Caller::Admin(_)) { "admin" } else { "user" };
    let handle = owner::own_handle(&request.caller);
    Ok(Json(Whoami { user: WhoamiUser { handle, role } }))
}

pub(super) async fn skill(
    request: ApiRequest,
    slug: Slug,
    query: Parameters,
) -> Result<Json<SkillResponse>, ClawHubError> {
    let (Path(slug), Query(query)) = (slug?, query?);
    let FoundSkill { row, versions } = request.skill(&slug, query.owner_handle.as_deref()).await?;
    let handle = owner::handle_of(row.tier, &request.caller);
    Ok(Json(SkillResponse {
        skill: Skill::new(&row, &versions),
        latest_version: Version::of_row(&row, &versions),
        owner: OwnerInfo { handle, display_name: row.tier },
        moderation: None,
    }))
}

/// Nothing is moderated here; a skill that the caller does not see is not found.
pub(super) async fn moderation(
    request: ApiRequest,
    slug: Slug,
    query: Parameters,
) -> Result<Json<Moderation>, ClawHubError> {
    let (Path(slug), Query(query)) = (slug?, query?);
    request.skill(&slug, query.owner_handle.as_deref()).await?;
    Ok(Json(Moderation { moderation: None }))
}

pub(super) async fn versions(
    request: ApiRequest,
    slug: Slug,
    query: Parameters,
) -> Result<Json<VersionList>, ClawHubError> {
    let (Path(slug), Query(query)) = (slug?, query?);
    let FoundSkill { row, versions } = request.skill(&slug, query.owner_handle.as_deref()).await?;
    let history = HistoryRequest {
        id: row.id.to_string(),
        tier: Some(row.tier),
        limit: query.limit,
        after: query.cursor,
    };
    let page = request.skills.history(EntryKind::Skill, &history).await?;
    let shown = page.data.into_iter().filter(|info| info.yanked.is_none() && !info.purged);
    let items = shown.map(|info| Version::new(info, &versions)).collect();
    Ok(Json(VersionList { items, next_cursor: page.next }))
}

pub(super) async fn version(
    request: ApiRequest,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Parameters,
) -> Result<Json<VersionResponse>, ClawHubError> {
    let (Path((slug, version)), Query(query)) = (path?, query?);
    let skill = request.skill(&slug, query.owner_handle.as_deref()).await?;
    let row = request.version(&skill, Some(&version), None).await?;
    let files = fingerprint::served_files(&*request.skills, &row).await?;
    let name = SkillName { slug: row.id.to_string(), display_name: row.title().to_owned() };
    let version = Version::of_row(&row, &skill.versions);
    Ok(Json(VersionResponse { version: VersionFiles { version, files }, skill: name }))
}

pub(super) async fn file(
    request: ApiRequest,
    slug: Slug,
    query: Parameters,
) -> Result<Response, ClawHubError> {
    let (Path(slug), Query(query)) = (slug?, query?);
    let skill = request.skill(&slug, query.owner_handle.as_deref()).await?;
    let row = request.version(&skill, query.version.as_deref(), query.tag.as_deref()).await?;
    let path = query.path.unwrap_or_default();
    let size = row.meta.file(&path).ok_or(ClawHubError::FileNotFound)?.size;
    let _reservation = request.share().try_reserve(usize::try_from(size).unwrap_or(usize::MAX))?;
    let bytes = read_file(&*request.skills, &row, &path).await?;
    Ok(([(header::CONTENT_TYPE, media_type(&path))], bytes).into_response())
}

pub(super) async fn download(
    request: ApiRequest,
    query: Parameters,
) -> Result<Response, ClawHubError> {
    let Query(query) = query?;
    let skill = request.skill(&query.slug, query.owner_handle.as_deref()).await?;
    let row = request.version(&skill, query.version.as_deref(), query.tag.as_deref()).await?;
    let blobs = &request.state.distribution.repositories.blobs;
    let Archive { bytes, digest } = archive(&request.skills, blobs, &row).await?;
    let body = TaggedBody::with_digest("application/zip", bytes, &digest);
    Ok(body.respond(&request.headers, "private, no-cache"))
}

/// Tells which version a folder has, and which one is served.
pub(super) async fn resolve(
    request: ApiRequest,
    query: Parameters,
) -> Result<Json<Resolution>, ClawHubError> {
    let Query(SkillQuery { slug, owner_handle, hash, .. }) = query?;
    let name = |version: String| VersionName { version };
    let FoundSkill { row, versions } = match request.skill(&slug, owner_handle.as_deref()).await {
        Ok(skill) => skill,
        // The next version of a skill that was removed has to be higher than the last.
        Err(ClawHubError::Withdrawn) => {
            let tier = owner::tier_of(owner_handle.as_deref(), &request.caller)?;
            let id: SkillId = slug.parse()?;
            let tier = request.removed_tier(tier, &id).await?;
            let tier = tier.ok_or(ClawHubError::SkillNotFound)?;
            let newest = request.all_versions(tier, &id.to_shared()).await?.newest();
            let latest_version = newest.map(|(_, version)| name(version.to_string()));
            return Ok(Json(Resolution { matching: None, latest_version }));
        }
        Err(error) => return Err(error),
    };
    let latest_version = Some(name(versions.name(number_of(&row)).to_string()));
    let mut matching = None;
    if fingerprint::matches(&*request.skills, &row, &hash).await? {
        matching = Some(number_of(&row));
    } else if row.heads.is_some() {
        matching = older_match(&request, &row.id, row.tier, &hash).await?;
    }
    let matching = matching.map(|number| name(versions.name(number).to_string()));
    Ok(Json(Resolution { matching, latest_version }))
}

/// Returns the newest version that a folder with this fingerprint has.
async fn older_match(
    request: &ApiRequest,
    id: &str,
    tier: skills_core::Tier,
    hash: &str,
) -> Result<Option<u64>, ClawHubError> {
    let history = HistoryRequest {
        id: id.to_owned(),
        tier: Some(tier),
        limit: Some(MAX_COMPARED),
        after: None,
    };
    let page = request.skills.history(EntryKind::Skill, &history).await?;
    for info in page.data {
        let selector = skills_core::VersionSelector::Number(info.version);
        // Versions without content match nothing.
        let Ok(row) = request.skills.skill_version(Some(tier), id, &selector).await else {
            continue;
        };
        if fingerprint::matches(&*request.skills, &row, hash).await? {
            return Ok(Some(info.version));
        }
    }
    Ok(None)
}

pub(super) async fn install(
    request: ApiRequest,
    slug: Slug,
    query: Parameters,
) -> Result<Json<InstallResponse>, ClawHubError> {
    let (Path(slug), Query(query)) = (slug?, query?);
    let FoundSkill { row, versions } = request.skill(&slug, query.owner_handle.as_deref()).await?;
    let version = versions.name(number_of(&row)).to_string();
    let (base, handle) = (request.base_url(), owner::handle_of(row.tier, &request.caller));
    let address = format!("slug={}&ownerHandle={handle}&version={version}", row.id);
    let download_url = format!("{base}/api/v1/download?{address}");
    let archive = InstallArchive { version, download_url };
    let slug = row.id.to_string();
    Ok(Json(InstallResponse { ok: true, slug, install_kind: "archive", archive }))
}
