//! Inputs and outputs of the extension functions, which the published reference does not have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skills_core::{AgentSkill, Provenance, ToolMeta};

use super::TierInput;

/// Output of `skills::capabilities`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CapabilitiesOutput {
    /// Name of the registry software.
    pub name: String,
    pub version: String,
    /// Extension functions, sorted.
    pub functions: Vec<String>,
    /// Optional name prefix tried during resolution; empty if disabled.
    pub prefix: String,
    /// Timeout of live clients in milliseconds, if the registry hosts any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ms: Option<u64>,
    /// Whether a live client is connected, if the registry hosts any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_live_clients: Option<bool>,
    /// Problem of the store; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<DegradedOutput>,
}

/// Problem of the store: reads go on, writes fail.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DegradedOutput {
    pub reason: String,
    /// Seconds since which changes of other servers may be missing, if the store cannot be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog_age: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ResolveInput {
    /// Name to resolve, or an address with a version such as `a@3`.
    pub id: String,
    /// Include the layers that were tried and those that are shadowed.
    #[serde(default)]
    pub explain: bool,
    /// Restrict the lookup to this tier.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ResolveOutput {
    /// Id of the stored entry.
    pub id: String,
    pub tier: TierInput,
    /// URI of the document.
    pub uri: String,
    /// Number of the version, in a registry with history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Reason why the version was yanked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yanked: Option<String>,
    pub title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub bytes: u64,
    pub registered_at: String,
    pub files: Vec<FileEntry>,
    /// Manifest metadata, if the skill is a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub tool: Option<Box<ToolMeta>>,
    /// Place that the content came from, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub source: Option<Box<Provenance>>,
    /// Entries that this one shadows, in resolution order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadows: Option<Vec<LayerEntry>>,
    /// Layers that were tried, in resolution order, up to the one with the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried: Option<Vec<LayerEntry>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExecuteInput {
    /// Id of the tool, with or without the name prefix.
    pub id: String,
    /// Arguments that match the parameters of the tool.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// Key of the calling user, which begins with `us-`. Without a key no secrets are used.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ExecuteOutput {
    /// Response of the tool.
    pub data: Value,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PlaceEntry")]
pub struct LayerEntry {
    pub tier: TierInput,
    pub id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct FilesInput {
    /// Id of a skill, or an address with a version.
    pub id: String,
    /// Restrict the lookup to this tier.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FilesOutput {
    pub id: String,
    /// Files: the root document first, the others sorted by path.
    pub files: Vec<FileEntry>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FileEntry {
    pub path: String,
    pub size: u64,
    /// SHA-256 digest: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Executable bit, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executable: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct CatalogInput {
    /// Cursor: `next` of the page before.
    #[serde(default)]
    pub after: Option<String>,
    /// Most skills of a page.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Restrict the listing to these ids, and to the versions of addresses such as `a@3`. If a page has no room for all, `next` is the last id that it covers;
    /// request the ids after it again.
    #[serde(default)]
    pub ids: Option<Vec<String>>,
    /// Restrict the listing to this tier.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Selection among the entries of one id.
    #[serde(default)]
    pub layers: Layers,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Selection among the entries of one id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Layers {
    /// The effective entry alone.
    #[default]
    Effective,
    /// Shadowed entries too.
    All,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CatalogOutput {
    pub skills: Vec<CatalogEntry>,
    /// Cursor for `after` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CatalogEntry {
    pub id: String,
    /// Tier of a stored skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<TierInput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub registered_at: String,
    pub files: Vec<FileEntry>,
    /// Frontmatter as an Agent Skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub agent: Option<Box<AgentSkill>>,
    /// Manifest metadata, if the skill is a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub tool: Option<Box<ToolMeta>>,
    /// Place that the content came from, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub source: Option<Box<Provenance>>,
    /// Reason why the entry cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<String>,
    /// Live client of a skill that is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<String>,
    /// Number of the version, in a registry with history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Number of the newest version, if another one is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest: Option<u64>,
    /// Reason why the version was yanked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yanked: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct SearchInput {
    /// Words, "phrases", and filters: tag:, tool:, tier:, kind:; - before one excludes it.
    #[serde(default)]
    pub query: String,
    /// Most results of a page: 10, at most 100.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Restrict the search to `skill`, `prompt`, `tool` or `live`.
    #[serde(default)]
    pub kind: Option<String>,
    /// Restrict the search to this tier, including entries that are shadowed.
    #[serde(default)]
    pub tier: Option<TierInput>,
    /// Cursor: `next` of the page before.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Leave out skills that models may not invoke.
    #[serde(default)]
    pub for_model: bool,
    /// Keep the query out of the log of queries without a result.
    #[serde(default)]
    pub unlogged: bool,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct AvailableInput {
    #[serde(default)]
    pub filter: AvailableFilter,
    /// Key of the calling user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Filter for `skills::available`. All given conditions must hold; case is ignored.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct AvailableFilter {
    /// Substring of the license.
    #[serde(default)]
    pub license: Option<String>,
    /// Substring of the compatibility requirements.
    #[serde(default)]
    pub compatibility: Option<String>,
    /// Name of an allowed tool.
    #[serde(default)]
    pub tool: Option<String>,
}
