//! The three steps of a publish: announce each file, send it, and publish all of them as one version.

use std::sync::Arc;

use axum::{
    Json,
    extract::{
        Path,
        rejection::{JsonRejection, PathRejection},
    },
};
use bytes::Bytes;
use serde::Deserialize;
use skills_agent_skills::Bundle;
use skills_core::{
    BundlePath, Caller, Digest, Label, Provenance, SkillId, SourceKind, Tier, Timestamp,
    VersionSelector, WorkAccount,
    limits::{MAX_BUNDLE_FILES, MAX_LABELS},
    skill::ROOT_PATH,
    version::LATEST,
};
use skills_registry::{
    LabelRequest, PublishRequest, Published, ReadVersion, SkillRow, available::to_agent_skill,
};

use super::{
    error::ClawHubError,
    owner,
    request::ApiRequest,
    uploads::{Announcement, Content, UploadReference},
    wire::{PublishResponse, UploadUrl, UploadedFile},
};
use crate::plugin_version::PluginVersion;

#[derive(Deserialize)]
pub(super) struct AnnouncedFile {
    path: String,
    size: u64,
    sha256: Digest,
}

pub(super) async fn upload_url(
    request: ApiRequest,
    body: Result<Json<AnnouncedFile>, JsonRejection>,
) -> Result<Json<UploadUrl>, ClawHubError> {
    require_publisher(&request.caller)?;
    let Json(AnnouncedFile { path, size, sha256 }) = body?;
    let file = Announcement { path: path.parse()?, size, sha256 };
    let account = WorkAccount::current();
    let uploads = &request.state.uploads;
    let ticket = uploads.announce(&request.caller, file, account.held_memory())?;
    let upload_url = format!("{}/api/v1/uploads/{}", request.base_url(), ticket.id);
    Ok(Json(UploadUrl { upload_url, upload_ticket: ticket.secret }))
}

pub(super) async fn upload(
    request: ApiRequest,
    id: Result<Path<String>, PathRejection>,
    body: Bytes,
) -> Result<Json<UploadedFile>, ClawHubError> {
    require_publisher(&request.caller)?;
    let (Path(storage_id), account) = (id?, WorkAccount::current());
    let uploads = &request.state.uploads;
    uploads.receive(&request.caller, &storage_id, &body, account.held_memory())?;
    Ok(Json(UploadedFile { storage_id }))
}

fn require_publisher(caller: &Caller) -> Result<(), ClawHubError> {
    if *caller == Caller::Anonymous { Err(ClawHubError::KeyNeeded) } else { Ok(()) }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PublishBody {
    slug: String,
    owner_handle: Option<String>,
    version: String,
    #[serde(default)]
    changelog: String,
    #[serde(default)]
    tags: Vec<String>,
    source: Option<PublishSource>,
    files: Vec<UploadReference>,
}

/// Repository that the publisher says the files are of.
#[derive(Deserialize)]
struct PublishSource {
    url: String,
    #[serde(rename = "ref")]
    reference: Option<String>,
    commit: Option<String>,
    path: Option<String>,
}

/// A publish whose fields were checked.
struct Publication {
    tier: Tier,
    id: SkillId,
    version: PluginVersion,
    labels: Vec<Label>,
    message: Option<String>,
    provenance: Option<Box<Provenance>>,
}

pub(super) async fn publish(
    request: ApiRequest,
    body: Result<Json<PublishBody>, JsonRejection>,
) -> Result<Json<PublishResponse>, ClawHubError> {
    require_publisher(&request.caller)?;
    let Json(body) = body?;
    let PublishBody { files, .. } = &body;
    if files.len() > MAX_BUNDLE_FILES {
        return Err(ClawHubError::Body(format!("a skill has at most {MAX_BUNDLE_FILES} files")));
    }
    let response = publish_files(&request, &body).await;
    // A client sends a publish again if it may pass later.
    if !response.as_ref().is_err_and(ClawHubError::is_transient) {
        request.state.uploads.remove(&request.caller, files);
    }
    response.map(Json)
}

async fn publish_files(
    request: &ApiRequest,
    body: &PublishBody,
) -> Result<PublishResponse, ClawHubError> {
    let publication = check(request, body)?;
    let contents = request.state.uploads.contents(&request.caller, &body.files)?;
    request.count_change().await?;
    let Publication { tier, id, version, labels, message, provenance } = publication;
    let bundle = bundle(&contents)?;
    let bundle = bundle.with_author_version(version.to_string()).with_provenance(provenance);
    check_agent_skill(&id, tier, &bundle)?;
    let expected_version = check_version(request, tier, &id, version, &bundle).await?;
    let publish = PublishRequest { message, expected_version };
    let stored = request.skills.publish_bundle(tier, id.as_str(), bundle, publish).await?;
    let Published { version: number, .. } = stored;
    for label in labels {
        let label_request = LabelRequest {
            id: id.to_string(),
            tier: Some(tier),
            label,
            version: number.map(VersionSelector::Number),
            expected: None,
        };
        request.skills.set_label(skills_core::EntryKind::Skill, &label_request).await?;
    }
    Ok(PublishResponse {
        ok: true,
        skill_id: format!("{tier}/{id}"),
        version_id: format!("{tier}/{id}@{}", number.unwrap_or_default()),
        slug: id.to_string(),
        version: version.to_string(),
        publication_status: "published",
    })
}

/// Checks the fields of a publish, and whether the caller may publish there.
fn check(request: &ApiRequest, body: &PublishBody) -> Result<Publication, ClawHubError> {
    let tier = owner::writable_tier(body.owner_handle.as_deref(), &request.caller)?;
    let id: SkillId = body.slug.parse()?;
    let version = PluginVersion::parse(&body.version)
        .filter(|version| version.to_string() == body.version)
        .ok_or_else(|| ClawHubError::VersionForm(body.version.chars().take(64).collect()))?;
    let tags = body.tags.iter().filter(|tag| *tag != LATEST).take(MAX_LABELS + 1);
    let labels = tags.map(|tag| tag.parse()).collect::<Result<Vec<Label>, _>>()?;
    if labels.len() > MAX_LABELS {
        return Err(ClawHubError::Body(format!("a skill has at most {MAX_LABELS} tags")));
    }
    let protected = &request.state.distribution.settings.protected_labels;
    let is_user = matches!(request.caller, Caller::User(_));
    if let Some(label) = labels.iter().find(|label| is_user && protected.contains(label)) {
        return Err(ClawHubError::ProtectedTag(label.to_string()));
    }
    let provenance = body.source.as_ref().map(provenance).transpose()?.map(Box::new);
    let message = Some(body.changelog.clone()).filter(|text| !text.trim().is_empty());
    Ok(Publication { tier, id, version, labels, message, provenance })
}

fn provenance(source: &PublishSource) -> Result<Provenance, ClawHubError> {
    let path = source.path.clone().filter(|path| path != ".").unwrap_or_default();
    let (reference, commit) = (source.reference.clone(), source.commit.clone());
    let location = Provenance::new(SourceKind::Git, source.url.clone());
    Ok(Provenance { path, reference, commit, ..location }.check()?)
}

fn bundle(contents: &[(BundlePath, Arc<Content>)]) -> Result<Bundle<Bytes>, ClawHubError> {
    let (mut root, mut files) = (None, Vec::with_capacity(contents.len()));
    for (path, content) in contents {
        if path.as_str() == ROOT_PATH && root.is_none() {
            let text = str::from_utf8(&content.bytes).map_err(|_| ClawHubError::RootDocument)?;
            root = Some(text.to_owned());
        } else {
            files.push((path.clone(), content.bytes.clone()));
        }
    }
    Ok(Bundle::new(root.ok_or(ClawHubError::RootDocument)?, files)?)
}

/// Refuses what no client could install afterwards.
fn check_agent_skill(id: &SkillId, tier: Tier, bundle: &Bundle<Bytes>) -> Result<(), ClawHubError> {
    let (meta, pinned) = (bundle.meta().clone(), ReadVersion::new(0, None));
    let row = SkillRow::of_version(id.to_shared(), tier, meta, Timestamp::now(), pinned);
    to_agent_skill(&row).map(|_| ()).map_err(ClawHubError::NotAgentSkill)
}

/// Checks that a version is higher than all before and has other content than the newest one. Returns the number of the
/// newest one, which the store compares again.
async fn check_version(
    request: &ApiRequest,
    tier: Tier,
    id: &SkillId,
    version: PluginVersion,
    bundle: &Bundle<Bytes>,
) -> Result<Option<u64>, ClawHubError> {
    let id = id.to_shared();
    let catalog = request.skills.catalog().await?;
    let row: Option<Arc<SkillRow>> = catalog.exact_skill(tier, &id).cloned();
    let Some(heads) = row.as_ref().map(|row| row.heads.clone()) else {
        let versions = request.all_versions(tier, &id).await?;
        return check_higher(version, versions.newest()).map(|_| None);
    };
    // A registry without history has no numbers to compare.
    let Some(heads) = heads else { return Ok(None) };
    let versions = match &row {
        Some(row) => request.versions(row).await?,
        None => request.all_versions(tier, &id).await?,
    };
    let newest = VersionSelector::Number(heads.latest);
    if let Ok(newest) = request.skills.skill_version(Some(tier), &id, &newest).await
        && newest.meta.digest() == bundle.meta().digest()
    {
        return Err(ClawHubError::Unchanged(versions.name(heads.latest).to_string()));
    }
    check_higher(version, versions.newest()).map(|()| Some(heads.latest))
}

fn check_higher(
    version: PluginVersion,
    newest: Option<(u64, PluginVersion)>,
) -> Result<(), ClawHubError> {
    match newest {
        Some((_, newest)) if version <= newest => Err(ClawHubError::VersionNotHigher {
            requested: version.to_string(),
            newest: newest.to_string(),
        }),
        _ => Ok(()),
    }
}
