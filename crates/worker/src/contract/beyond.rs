//! Inputs and outputs of the functions that the published reference does not have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skills_core as rules;

use super::Tier;

/// `skills::capabilities`, which the published reference does not have.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CapabilitiesOutput {
    /// Which registry answers.
    pub name: String,
    pub version: String,
    /// The functions it has beyond the published ones, sorted.
    pub functions: Vec<String>,
    /// What names are also looked for with; empty for nothing.
    pub prefix: String,
    /// How many milliseconds a live client may take to answer, where there may be any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ResolveInput {
    /// The name that is looked for.
    pub id: String,
    /// Whether to say what was passed on the way, and what is shadowed.
    #[serde(default)]
    pub explain: bool,
    /// Only in this tier.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ResolveOutput {
    /// The id under which it is stored.
    pub id: String,
    pub tier: Tier,
    /// Where it can be read.
    pub uri: String,
    pub title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub bytes: u64,
    pub registered_at: String,
    pub files: Vec<FileEntry>,
    /// What its manifest says, if it is a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub tool: Option<Box<rules::ToolMeta>>,
    /// What would answer if it did not, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadows: Option<Vec<PlaceEntry>>,
    /// Where was looked, in order, up to the one that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tried: Option<Vec<PlaceEntry>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExecuteInput {
    /// The tool, with or without the prefix.
    pub id: String,
    /// What it is called with.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// Who calls: a key of a user, which begins with `us-`. Without one no secrets are used.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ExecuteOutput {
    /// What the tool answered.
    pub data: Value,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct PlaceEntry {
    pub tier: Tier,
    pub id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct FilesInput {
    pub id: String,
    /// The copy that this tier holds.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FilesOutput {
    pub id: String,
    /// The root document first, then sorted by path.
    pub files: Vec<FileEntry>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FileEntry {
    pub path: String,
    pub size: u64,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct CatalogInput {
    /// What the page before said is next.
    #[serde(default)]
    pub after: Option<String>,
    /// At most so many.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Only these, as far as they are there. Where a page has no room for all, `next` is the last that it tells
    /// of or has looked for; ask again for those behind it.
    #[serde(default)]
    pub ids: Option<Vec<String>>,
    /// Only of this tier.
    #[serde(default)]
    pub tier: Option<Tier>,
    /// Which of the entries of one id.
    #[serde(default)]
    pub layers: Layers,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// Which entries a list shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Layers {
    /// Those that answer to their ids.
    #[default]
    Effective,
    /// Those that are shadowed too.
    All,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CatalogOutput {
    pub skills: Vec<CatalogEntry>,
    /// What `after` is for the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CatalogEntry {
    pub id: String,
    /// Where it is stored, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub registered_at: String,
    pub files: Vec<FileEntry>,
    /// What it says of itself as an Agent Skill.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub agent: Option<Box<rules::AgentSkill>>,
    /// What its manifest says, if it is a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub tool: Option<Box<rules::ToolMeta>>,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<String>,
    /// The live client that has it, if it is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct AvailableInput {
    #[serde(default)]
    pub filter: AvailableFilter,
    /// Who asks: a key of a user, which begins with `us-`.
    #[serde(default)]
    pub key: Option<String>,
}

/// All that is given must hold; upper and lower case are the same.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct AvailableFilter {
    /// Its license contains this.
    #[serde(default)]
    pub license: Option<String>,
    /// What it needs to run contains this.
    #[serde(default)]
    pub compatibility: Option<String>,
    /// It may use this tool.
    #[serde(default)]
    pub tool: Option<String>,
}
