//! Requests and responses about versions: one shape for the bus, HTTP, the command line and the trait.
//!
//! The bus takes the requests and returns the responses as they are. HTTP adds `success` to the responses. Prompts have
//! the same shapes; their requests may say `name` instead of `id`.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use skills_agent_skills::Bundle;
use skills_core::{
    Digest, Field, Label, Provenance, RuleError, Tier, VersionSelector,
    version::{check_message, split_version},
};
use skills_store::{CollectionSize, PublishOptions, Removal, Retention, StoredVersion};

use crate::PurgeReport;

/// Versions on a page if the request names no limit.
pub const DEFAULT_VERSIONS: usize = 50;
/// Most versions, or records of the log, on a page.
pub const MAX_VERSIONS: usize = 500;

/// Condition and message of a registration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PublishRequest {
    /// Message of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Number that the newest version must have; 0 for an entry that must not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<u64>,
}

impl PublishRequest {
    /// Returns whether the request has neither condition nor message, so that registries without history can take it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.message.is_none() && self.expected_version.is_none()
    }

    /// Checks the message.
    pub(crate) fn check(self) -> Result<PublishOptions, RuleError> {
        let Self { message, expected_version } = self;
        let message = message.filter(|message| !message.trim().is_empty());
        message.as_deref().map_or(Ok(()), |text| check_message(Field::Message, text))?;
        Ok(PublishOptions { message, expected_version })
    }
}

/// Skill of several that are registered together.
#[derive(Debug, Clone)]
pub struct BundlePublication {
    /// Skill id.
    pub id: String,
    /// Content.
    pub bundle: Bundle<Bytes>,
    /// Condition and message.
    pub request: PublishRequest,
    /// Label that is moved to the new version.
    pub label: Option<Label>,
}

/// Result of a registration or a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Time of the registration in RFC 3339.
    pub registered_at: String,
    /// Version with the content; `None` in a registry without history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// False if the newest version had the same content already.
    #[serde(default = "yes")]
    pub created: bool,
    /// Version that the plain id reads now; `None` if all versions are yanked, or in a registry without history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<u64>,
}

impl Published {
    /// Creates the result of a registration without history.
    pub(crate) const fn without_history(registered_at: String) -> Self {
        Self { registered_at, version: None, created: true, served: None }
    }
}

const fn yes() -> bool {
    true
}

/// Request for a page of versions: `skills::history`, `prompts::history`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRequest {
    /// Id or name.
    #[serde(alias = "name")]
    pub id: String,
    /// Tier; `None` for the one that the id resolves to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Most versions on the page; 50 if absent, at most 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Version of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionInfo {
    /// Number, from 1.
    pub version: u64,
    /// Content digest.
    pub digest: Digest,
    /// Time of the first registration in RFC 3339.
    pub created_at: String,
    /// Actor of the first registration.
    pub by: String,
    /// Message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Author's own version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author_version: Option<String>,
    /// Labels of the version.
    #[serde(default)]
    pub labels: Vec<String>,
    /// True if the plain id reads this version.
    #[serde(default)]
    pub served: bool,
    /// Reason of a yank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yanked: Option<String>,
    /// True if the content was removed for good.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub purged: bool,
    /// Size of all files in bytes.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Path, repository or URL that the content was imported from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Box<Provenance>>,
}

impl VersionInfo {
    /// Describes a stored version of an entry with these labels and this served version.
    pub(crate) fn new(
        version: StoredVersion,
        labels: &[(Label, u64)],
        served: Option<u64>,
    ) -> Self {
        let is_purged = version.removal == Some(Removal::Purged);
        let labels = labels.iter().filter(|(_, number)| *number == version.number);
        Self {
            version: version.number,
            digest: version.digest,
            created_at: version.created_at.to_string(),
            by: version.actor.to_string(),
            message: version.message,
            author_version: version.author_version,
            labels: labels.map(|(label, _)| label.to_string()).collect(),
            served: served == Some(version.number),
            yanked: version.yanked,
            purged: is_purged,
            bytes: version.bytes,
            files: version.files,
            source: None,
        }
    }
}

/// Page of versions, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryPage {
    /// Versions.
    pub data: Vec<VersionInfo>,
    /// Cursor of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Request for the difference of two versions: `skills::diff`, `prompts::diff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffRequest {
    /// Id or name.
    #[serde(alias = "name")]
    pub id: String,
    /// Tier; `None` for the one that the id resolves to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Earlier version.
    pub from: VersionSelector,
    /// Later version.
    pub to: VersionSelector,
}

/// Returns the id and the earlier version of a difference: `id@3`, or an id and `from`.
///
/// # Errors
/// When the address is malformed, or the earlier version is given twice or not at all.
pub fn diff_from(
    address: &str,
    from: Option<VersionSelector>,
) -> Result<(Cow<'_, str>, VersionSelector), RuleError> {
    let (id, version) = split_version(address)?;
    match (version, from) {
        (Some(version), None) | (None, Some(version)) => Ok((id, version)),
        (Some(version), Some(from)) if version == from => Ok((id, version)),
        _ => Err(RuleError::DiffFrom { id: id.into_owned() }),
    }
}

/// Request to move or remove a label: `skills::label`, `prompts::label`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelRequest {
    /// Id or name.
    #[serde(alias = "name")]
    pub id: String,
    /// Tier; `None` for the one that the id resolves to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Label.
    pub label: Label,
    /// Version that gets the label; `null` removes the label.
    pub version: Option<VersionSelector>,
    /// Number of the version that must have the label now; 0 if none must have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
}

/// Request to register the content of an older version again: `skills::rollback`, `prompts::rollback`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackRequest {
    /// Id or name.
    #[serde(alias = "name")]
    pub id: String,
    /// Tier; `None` for the one that the id resolves to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// The older version.
    pub to: VersionSelector,
    /// Condition and message. The message follows `rollback to N`.
    #[serde(flatten)]
    pub publish: PublishRequest,
}

/// Request to withdraw a version, or to undo that: `skills::yank`, `prompts::yank`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct YankRequest {
    /// Id or name.
    #[serde(alias = "name")]
    pub id: String,
    /// Tier; `None` for the one that the id resolves to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// The version.
    pub version: VersionSelector,
    /// Reason; required unless the yank is undone.
    #[serde(default)]
    pub reason: String,
    /// True to undo a yank.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// True to remove the content for good.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub purge: bool,
}

/// Versions of an entry after a change of labels or yanks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionState {
    /// Id or name.
    pub id: String,
    /// Version that the request was about; `None` for a label that was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// False if everything was as requested before.
    pub changed: bool,
    /// Version that the plain id reads now; `None` if all versions are yanked or the entry is removed.
    pub served: Option<u64>,
    /// Content that a purge removed, and the rest that is still there; `None` for other changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purged: Option<PurgeReport>,
}

/// Request to remove the content of old versions: `skills::gc`. A version is kept if either limit keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CollectRequest {
    /// Number of the newest versions of each entry that are kept; `None` counts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<u64>,
    /// Days for which versions are kept; `None` counts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u64>,
    /// True to say only what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

impl From<CollectRequest> for Retention {
    fn from(request: CollectRequest) -> Self {
        let age = request.days.map(|days| Duration::from_secs(days.saturating_mul(24 * 60 * 60)));
        Self { versions: request.versions, age }
    }
}

/// Result of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Collected {
    /// Number of versions that were removed, or would be.
    pub versions: u64,
    /// Bytes of the files that no other version has.
    pub bytes: u64,
    /// True if nothing was removed.
    pub dry_run: bool,
}

impl Collected {
    pub(crate) const fn new(size: CollectionSize, dry_run: bool) -> Self {
        Self { versions: size.versions, bytes: size.bytes, dry_run }
    }
}

/// Returns the number of rows of a page.
pub(crate) fn page_limit(requested: Option<usize>) -> usize {
    requested.unwrap_or(DEFAULT_VERSIONS).clamp(1, MAX_VERSIONS)
}

/// Parses the cursor of a page.
///
/// # Errors
/// When it is not one that a previous page returned.
pub(crate) fn parse_cursor(after: Option<&str>) -> Result<Option<u64>, RuleError> {
    after.map(|after| after.parse().map_err(|_| RuleError::Cursor)).transpose()
}
