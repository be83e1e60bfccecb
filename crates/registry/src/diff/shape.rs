//! Difference of two versions as data, the same on every surface.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skills_core::Digest;

/// Side of a difference: a version, or content that is not registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffSide {
    /// Number of the version; `None` for a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Content digest.
    pub digest: Digest,
    /// Reason of a yank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yanked: Option<String>,
}

/// Difference of two versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VersionDiff {
    /// Earlier version.
    pub from: DiffSide,
    /// Later version.
    pub to: DiffSide,
    /// Changed fields of the frontmatter, or of a prompt's definition.
    pub frontmatter: Vec<FieldChange>,
    /// Changed files, sorted by path.
    pub files: Vec<FileDiff>,
    /// Permissions and reach that the later version has and the earlier one lacks.
    pub allows: Vec<Allowance>,
    /// True if texts were left out because the difference is too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Changed field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// Name of the field; `metadata.author` for one of a mapping.
    pub field: String,
    /// Value before; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Value after; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Kind of change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileStatus {
    /// Only the later version has it.
    Added,
    /// Only the earlier version has it.
    Removed,
    /// Its content or its executable bit is different.
    Changed,
    /// The same content is at another path.
    Renamed,
}

/// File of one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffFile {
    /// Path inside the bundle.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Content address.
    pub digest: Digest,
    /// Executable bit, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<bool>,
}

/// Changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// Path after the change, or before a removal.
    pub path: String,
    /// Kind of change.
    pub status: FileStatus,
    /// File before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<DiffFile>,
    /// File after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<DiffFile>,
    /// Unified diff of a text. Binary files have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// True if a side is not text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
    /// True if the unified diff is cut off or left out because it is too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Kind of permission or reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllowanceKind {
    /// Tool in `allowed-tools`.
    AllowedTool,
    /// File that can be executed.
    Script,
    /// URL in a text.
    Url,
    /// URL or host that a tool's manifest calls.
    Endpoint,
}

/// Permission or reach that a version adds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Allowance {
    /// Kind.
    pub kind: AllowanceKind,
    /// Tool, path or URL.
    pub value: String,
    /// File that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}
