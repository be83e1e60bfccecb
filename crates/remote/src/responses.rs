//! Results of the contract's functions, as far as they are used. Other implementations may send more fields.

use serde::Deserialize;
use serde_json::Value;
use skills_bus::ErrorBody;
use skills_core::{AgentSkill, PromptArgument, Provenance, Tier, ToolMeta};
use skills_registry::{ExplainedLayer, Explanation, Published, RegistryError, VersionImport};

use crate::rows::check_skill_id;

/// Result of `skills::capabilities`, which only this implementation has.
#[derive(Deserialize, Default)]
pub(super) struct Capabilities {
    pub(super) functions: Vec<String>,
    /// Optional name prefix of resolution.
    #[serde(default)]
    pub(super) prefix: String,
    /// Time limit of live clients in milliseconds.
    #[serde(default)]
    pub(super) client_ms: Option<u64>,
    /// Whether a live client is connected.
    #[serde(default)]
    pub(super) has_live_clients: Option<bool>,
}

impl Capabilities {
    /// Returns whether the registry has a function beyond the contract.
    pub(super) fn has(&self, function: &str) -> bool {
        self.functions.iter().any(|offered| offered == function)
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
    pub(super) mime_type: String,
    pub(super) text: Option<String>,
    pub(super) blob: Option<String>,
    /// Number of the version.
    #[serde(default)]
    pub(super) version: Option<u64>,
    /// Reason of a yank.
    #[serde(default)]
    pub(super) yanked: Option<String>,
    /// Import that created the version.
    #[serde(default)]
    pub(super) imported: Option<Box<VersionImport>>,
}

/// Result of `skills::register-many`, which only this implementation has.
#[derive(Deserialize)]
pub(super) struct ManyResults {
    pub(super) results: Vec<ManyResult>,
}

/// Result of one skill of several.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum ManyResult {
    Refused {
        code: String,
        message: String,
        #[serde(default)]
        details: Value,
    },
    Registered(Published),
}

impl ManyResult {
    pub(super) fn into_result(self) -> Result<Published, RegistryError> {
        match self {
            Self::Refused { code, message, details } => {
                let is_outcome_unknown = skills_bus::is_outcome_unknown(&details);
                let error = ErrorBody { code, message, is_outcome_unknown };
                Err(RegistryError::from_remote(&error.into()))
            }
            Self::Registered(published) => Ok(published),
        }
    }
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
    /// Place that the content came from.
    pub(super) source: Option<Box<Provenance>>,
    /// Reason why the entry is corrupt.
    pub(super) corrupt: Option<String>,
    /// Live client that has the skill.
    pub(super) live: Option<String>,
    /// Number of the version.
    #[serde(default)]
    pub(super) version: Option<u64>,
    /// Number of the newest version, if another one is served.
    #[serde(default)]
    pub(super) latest: Option<u64>,
    /// Reason of a yank.
    #[serde(default)]
    pub(super) yanked: Option<String>,
}

/// Tier of all entries of a registry without tiers.
const fn official() -> Tier {
    Tier::Official
}

#[derive(Deserialize)]
pub(super) struct FileRow {
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) digest: String,
    pub(super) executable: Option<bool>,
}

/// Result of `skills::resolve` with an explanation.
#[derive(Deserialize)]
pub(super) struct ResolveResult {
    id: String,
    tier: Tier,
    #[serde(default)]
    shadows: Vec<ExplainedLayer>,
    #[serde(default)]
    tried: Vec<ExplainedLayer>,
}

impl ResolveResult {
    /// Converts the result. Steps with invalid ids are left out.
    pub(super) fn into_explanation(self) -> Result<Explanation, RegistryError> {
        let Self { id, tier, shadows, tried } = self;
        check_skill_id(&id).map_err(RegistryError::unexpected_answer)?;
        let valid = |steps: Vec<ExplainedLayer>| {
            steps.into_iter().filter(|step| check_skill_id(&step.id).is_ok()).collect()
        };
        let (shadows, tried) = (valid(shadows), valid(tried));
        Ok(Explanation { answer: Some(ExplainedLayer { tier, id }), shadows, tried })
    }
}

/// Result of `skills::execute`.
#[derive(Debug, Deserialize)]
pub(super) struct Executed {
    pub(super) data: Value,
}
