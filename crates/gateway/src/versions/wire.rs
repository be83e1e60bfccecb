//! JSON types of versions: the responses of the registry, with `success` and their OpenAPI schemas.

use serde::Serialize;
use serde_json::Value;
use skills_core::EntryKey;
use skills_registry::{
    FileHolder, Published, PurgeReport, VersionInfo, VersionState, diff::VersionDiff,
};
use utoipa::ToSchema;

use crate::{
    response::Success,
    skills::{ImportedFrom, TierName},
};

/// Version: its number, a label, the author's version, or `sha256:` and at least 12 digits of its digest.
#[derive(ToSchema)]
#[schema(examples(3, "stable"))]
#[serde(untagged)]
#[expect(dead_code, reason = "describes requests")]
pub(super) enum Version {
    /// Number, from 1.
    Number(u64),
    /// Text after `@` of an address.
    Text(String),
}

/// A version of a skill.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct VersionEntry {
    /// Number, from 1.
    version: u64,
    /// Content digest: SHA-256 of the paths and digests of all files.
    digest: String,
    /// Time of the first registration, in RFC 3339.
    created_at: String,
    /// Actor of the first registration.
    by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The author's own version, from the frontmatter.
    #[serde(skip_serializing_if = "Option::is_none")]
    author_version: Option<String>,
    labels: Vec<String>,
    /// True if the plain id reads this version.
    served: bool,
    /// Reason of a yank.
    #[serde(skip_serializing_if = "Option::is_none")]
    yanked: Option<String>,
    /// True if the content was removed for good.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    purged: bool,
    /// Size of all files in bytes.
    bytes: u64,
    /// Number of files.
    files: u64,
    /// Repository or address that the content was imported from.
    #[serde(skip_serializing_if = "Option::is_none")]
    provenance: Option<ImportedFrom>,
}

impl From<VersionInfo> for VersionEntry {
    fn from(info: VersionInfo) -> Self {
        let VersionInfo { version, digest, created_at, by, message, author_version, .. } = info;
        let VersionInfo { labels, served, yanked, purged, bytes, files, source, .. } = info;
        let provenance = source.as_deref().and_then(ImportedFrom::new);
        let digest = digest.to_string();
        Self {
            version,
            digest,
            created_at,
            by,
            message,
            author_version,
            labels,
            served,
            yanked,
            purged,
            bytes,
            files,
            provenance,
        }
    }
}

/// A page of versions, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct VersionList {
    pub(super) success: Success,
    pub(super) data: Vec<VersionEntry>,
    /// Cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// Versions of a skill after a change of labels or yanks.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StateResponse {
    success: Success,
    id: String,
    /// Version that the request is about; absent if a label was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// False if nothing had to change.
    changed: bool,
    /// Version that the plain id reads now; null if it reads none.
    served: Option<u64>,
    /// Effect of a purge; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    purged: Option<Purged>,
}

/// Effect of a purge on the stored files.
#[derive(Debug, Serialize, ToSchema)]
struct Purged {
    /// Bytes that are gone; absent for a private skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    freed_bytes: Option<u64>,
    /// Skills that still have files of the purged version, at most 20.
    held_by: Vec<Holder>,
    /// Number of private skills among the holders of a public skill's files.
    held_privately: u64,
}

/// Newest version of a skill that has a file.
#[derive(Debug, Serialize, ToSchema)]
struct Holder {
    #[schema(inline)]
    tier: TierName,
    id: String,
    version: u64,
}

impl From<PurgeReport> for Purged {
    fn from(PurgeReport { freed_bytes, held_by, held_privately }: PurgeReport) -> Self {
        let holder =
            |FileHolder { tier, id, version }| Holder { tier: TierName::from(tier), id, version };
        Self { freed_bytes, held_by: held_by.into_iter().map(holder).collect(), held_privately }
    }
}

impl From<VersionState> for StateResponse {
    fn from(VersionState { id, version, changed, served, purged }: VersionState) -> Self {
        let purged = purged.map(Into::into);
        Self { success: Success, id, version, changed, served, purged }
    }
}

/// A registered version.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PublishedResponse {
    success: Success,
    id: String,
    tier: TierName,
    /// Time of the registration, in RFC 3339.
    registered_at: String,
    /// Version with the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// False if the newest version had the same content already.
    created: bool,
    /// Version that the plain id reads now.
    #[serde(skip_serializing_if = "Option::is_none")]
    served: Option<u64>,
}

impl PublishedResponse {
    pub(super) fn new(key: &EntryKey, published: Published) -> Self {
        let Published { registered_at, version, created, served } = published;
        let (id, tier) = (key.id.to_string(), key.layer.tier().into());
        Self { success: Success, id, tier, registered_at, version, created, served }
    }
}

/// Difference of two versions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DiffResponse {
    pub(super) success: Success,
    #[serde(flatten)]
    #[schema(value_type = Diff)]
    pub(super) diff: VersionDiff,
}

/// OpenAPI schema of [`VersionDiff`].
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the response")]
pub(super) struct Diff {
    from: DiffSide,
    to: DiffSide,
    /// Changed fields of the frontmatter.
    frontmatter: Vec<FieldChange>,
    /// Changed files, sorted by path.
    files: Vec<FileDiff>,
    /// What the later version allows and the earlier one did not.
    allows: Vec<Allowance>,
    /// True if texts were left out because the difference is too large.
    truncated: Option<bool>,
}

/// OpenAPI schema of a compared version.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the response")]
pub(super) struct DiffSide {
    version: Option<u64>,
    /// Content digest.
    digest: String,
    /// Reason of a yank.
    yanked: Option<String>,
}

/// OpenAPI schema of a changed field.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the response")]
pub(super) struct FieldChange {
    field: String,
    before: Option<Value>,
    after: Option<Value>,
}

/// OpenAPI schema of a changed file.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the response")]
pub(super) struct FileDiff {
    path: String,
    /// `added`, `removed`, `changed` or `renamed`.
    status: String,
    before: Option<DiffFile>,
    after: Option<DiffFile>,
    /// Unified diff of a text.
    diff: Option<String>,
    /// True if a side is not text.
    binary: Option<bool>,
    /// True if the unified diff is cut off or left out.
    truncated: Option<bool>,
}

/// OpenAPI schema of one side of a changed file.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the response")]
pub(super) struct DiffFile {
    path: String,
    size: u64,
    digest: String,
    executable: Option<bool>,
}

/// OpenAPI schema of a new permission.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the response")]
pub(super) struct Allowance {
    /// `allowed-tool`, `script`, `url` or `endpoint`.
    kind: String,
    value: String,
    /// File that has it.
    path: Option<String>,
}
