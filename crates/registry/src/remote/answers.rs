//! What the functions of the contract answer, as far as it is needed here. Another make may say more.

use crate::{Explanation, Place};
use serde::Deserialize;
use serde_json::Value;
use skills_core::{AgentSkill, PromptArgument, Tier, ToolMeta};

/// What a registry of this make says of itself.
#[derive(Deserialize, Default)]
pub(super) struct Capabilities {
    pub(super) functions: Vec<String>,
    /// What names are also looked for with there.
    #[serde(default)]
    pub(super) prefix: String,
    /// How long a live client may take to answer there.
    #[serde(default)]
    pub(super) client_ms: Option<u64>,
}

impl Capabilities {
    /// Whether the registry has a function beside those of the contract.
    pub(super) fn has(&self, function: &str) -> bool {
        self.functions.iter().any(|known| known == function)
    }
}

#[derive(Deserialize)]
pub(super) struct SkillList {
    pub(super) skills: Vec<SkillListRow>,
}

#[derive(Deserialize)]
pub(super) struct SkillListRow {
    pub(super) id: String,
    pub(super) bytes: u64,
    pub(super) registered_at: String,
}

#[derive(Deserialize)]
pub(super) struct ResourceList {
    pub(super) resources: Vec<ResourceRow>,
}

#[derive(Deserialize)]
pub(super) struct ResourceRow {
    pub(super) uri: String,
    pub(super) name: Option<String>,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Contents {
    pub(super) contents: Vec<ContentRow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContentRow {
    pub(super) uri: String,
    pub(super) mime_type: String,
    pub(super) text: Option<String>,
    pub(super) blob: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct PromptList {
    pub(super) prompts: Vec<PromptListRow>,
}

#[derive(Deserialize)]
pub(super) struct PromptListRow {
    pub(super) name: String,
    pub(super) function_id: String,
    pub(super) registered_at: String,
}

#[derive(Deserialize)]
pub(super) struct PromptDetails {
    pub(super) prompts: Vec<PromptDetailsRow>,
}

#[derive(Deserialize)]
pub(super) struct PromptDetailsRow {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) arguments: Vec<PromptArgument>,
}

#[derive(Deserialize)]
pub(super) struct Rendered {
    pub(super) description: Option<String>,
    pub(super) messages: Vec<Value>,
}

#[derive(Deserialize)]
pub(super) struct Registered {
    pub(super) registered_at: String,
}

#[derive(Deserialize)]
pub(super) struct Removed {
    pub(super) removed: bool,
}

#[derive(Deserialize)]
pub(super) struct CatalogPage {
    pub(super) skills: Vec<CatalogRow>,
    pub(super) next: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct CatalogRow {
    pub(super) id: String,
    #[serde(default = "official")]
    pub(super) tier: Tier,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) registered_at: String,
    pub(super) files: Vec<FileRow>,
    pub(super) agent: Option<Box<AgentSkill>>,
    pub(super) tool: Option<Box<ToolMeta>>,
    /// What is wrong with it, if it cannot be read.
    pub(super) corrupt: Option<String>,
    /// The client that has it, if it is not stored.
    pub(super) live: Option<String>,
}

/// What there is where nobody knows of tiers.
const fn official() -> Tier {
    Tier::Official
}

#[derive(Deserialize)]
pub(super) struct FileRow {
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) digest: String,
}

/// The answer of `skills::resolve` that is explained.
#[derive(Deserialize)]
pub(super) struct Explained {
    id: String,
    tier: Tier,
    #[serde(default)]
    shadows: Vec<Place>,
    #[serde(default)]
    tried: Vec<Place>,
}

impl From<Explained> for Explanation {
    fn from(Explained { id, tier, shadows, tried }: Explained) -> Self {
        Self { answer: Some(Place { tier, id }), shadows, tried }
    }
}

/// What a tool gave.
#[derive(Debug, Deserialize)]
pub(super) struct Executed {
    pub(super) data: Value,
}
