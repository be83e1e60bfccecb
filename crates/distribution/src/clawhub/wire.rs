//! Responses. Clients check the types of all fields: times are milliseconds, and `null` is not the same as an absent field.

use std::collections::BTreeMap;

use serde::Serialize;
use skills_core::{Digest, Tier};
use skills_registry::{SkillRow, VersionInfo, available::to_agent_skill};

use super::skill_versions::{SkillVersions, millis};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WellKnown {
    pub(super) api_base: String,
}

#[derive(Serialize)]
pub(super) struct Whoami {
    pub(super) user: WhoamiUser,
}

#[derive(Serialize)]
pub(super) struct WhoamiUser {
    pub(super) handle: Option<String>,
    pub(super) role: &'static str,
}

#[derive(Serialize)]
pub(super) struct SearchResponse {
    pub(super) results: Vec<SearchHit>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SearchHit {
    pub(super) slug: String,
    pub(super) owner_handle: String,
    pub(super) display_name: String,
    pub(super) summary: Option<String>,
    pub(super) version: String,
    pub(super) score: f32,
    pub(super) updated_at: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SkillList {
    pub(super) items: Vec<ListedSkill>,
    pub(super) next_cursor: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedSkill {
    #[serde(flatten)]
    pub(super) skill: Skill,
    pub(super) latest_version: Version,
}

/// Counters that this registry does not keep.
#[derive(Serialize)]
pub(super) struct Stats {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Skill {
    pub(super) slug: String,
    pub(super) display_name: String,
    pub(super) summary: Option<String>,
    /// Labels and `latest`, with their versions.
    pub(super) tags: BTreeMap<String, String>,
    pub(super) stats: Stats,
    pub(super) created_at: u64,
    pub(super) updated_at: u64,
}

impl Skill {
    pub(super) fn new(row: &SkillRow, versions: &SkillVersions) -> Self {
        let labels = row.heads.iter().flat_map(|heads| heads.labels.iter());
        let labels = labels.map(|(label, number)| (label.to_string(), versions.name(*number)));
        let latest = ("latest".to_owned(), versions.name(number_of(row)));
        let tags = labels.chain([latest]).map(|(tag, version)| (tag, version.to_string()));
        let first_at = versions.first_at();
        let updated_at = row.registered_at.as_millis();
        Self {
            slug: row.id.to_string(),
            display_name: row.title().to_owned(),
            summary: to_agent_skill(row).ok().map(|agent| agent.description),
            tags: tags.collect(),
            stats: Stats {},
            created_at: if first_at == 0 { updated_at } else { first_at },
            updated_at,
        }
    }
}

/// Returns the number of a row's version; 0 in a registry without history.
pub(super) fn number_of(row: &SkillRow) -> u64 {
    row.version().map_or(0, |version| version.version)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Version {
    pub(super) version: String,
    pub(super) created_at: u64,
    pub(super) changelog: String,
}

impl Version {
    pub(super) fn of_row(row: &SkillRow, versions: &SkillVersions) -> Self {
        Self {
            version: versions.name(number_of(row)).to_string(),
            created_at: row.registered_at.as_millis(),
            changelog: String::new(),
        }
    }

    pub(super) fn new(info: VersionInfo, versions: &SkillVersions) -> Self {
        Self {
            version: versions.name(info.version).to_string(),
            created_at: millis(&info.created_at),
            changelog: info.message.unwrap_or_default(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SkillResponse {
    pub(super) skill: Skill,
    pub(super) latest_version: Version,
    pub(super) owner: OwnerInfo,
    /// Nothing is scanned here.
    pub(super) moderation: Option<()>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OwnerInfo {
    pub(super) handle: String,
    pub(super) display_name: Tier,
}

#[derive(Serialize)]
pub(super) struct Moderation {
    pub(super) moderation: Option<()>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VersionList {
    pub(super) items: Vec<Version>,
    pub(super) next_cursor: Option<String>,
}

#[derive(Serialize)]
pub(super) struct VersionResponse {
    pub(super) version: VersionFiles,
    pub(super) skill: SkillName,
}

#[derive(Serialize)]
pub(super) struct VersionFiles {
    #[serde(flatten)]
    pub(super) version: Version,
    pub(super) files: Vec<FileEntry>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SkillName {
    pub(super) slug: String,
    pub(super) display_name: String,
}

#[derive(Debug, Serialize)]
pub(super) struct FileEntry {
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) sha256: Digest,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resolution {
    #[serde(rename = "match")]
    pub(super) matching: Option<VersionName>,
    pub(super) latest_version: Option<VersionName>,
}

#[derive(Serialize)]
pub(super) struct VersionName {
    pub(super) version: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstallResponse {
    pub(super) ok: bool,
    pub(super) slug: String,
    pub(super) install_kind: &'static str,
    pub(super) archive: InstallArchive,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstallArchive {
    pub(super) version: String,
    pub(super) download_url: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UploadUrl {
    pub(super) upload_url: String,
    pub(super) upload_ticket: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UploadedFile {
    pub(super) storage_id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PublishResponse {
    pub(super) ok: bool,
    pub(super) skill_id: String,
    pub(super) version_id: String,
    pub(super) slug: String,
    pub(super) version: String,
    pub(super) publication_status: &'static str,
}

#[derive(Serialize)]
pub(super) struct Done {
    pub(super) ok: bool,
}
