//! Agent Skill as plain data: the fields of its frontmatter, typed. Parsing and validation are not known here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Fields of an Agent Skill: those of the specification and the supported client extensions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSkill {
    /// Name in the frontmatter, or the name of the directory; empty when neither is known.
    pub name: String,
    /// Purpose of the skill and when to use it.
    pub description: String,
    /// Name of a license, or of the file that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Requirements for running it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<String>,
    /// Custom properties. Values that are not text are kept as written, or as JSON.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Tools that the skill may use without asking.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// True if people may invoke it (`user-invocable`).
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub user_invocable: bool,
    /// True if a model may invoke it (no `disable-model-invocation`).
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub model_invocable: bool,
    /// Hint that clients show for its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
}

const fn yes() -> bool {
    true
}

impl AgentSkill {
    /// Returns the bytes of all texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let optional = [&self.license, &self.compatibility, &self.argument_hint];
        let optional = optional.into_iter().flatten().map(String::len).sum::<usize>();
        let metadata = self.metadata.iter().map(|(key, value)| key.len() + value.len());
        let tools = self.allowed_tools.iter().map(String::len);
        self.name.len()
            + self.description.len()
            + optional
            + metadata.sum::<usize>()
            + tools.sum::<usize>()
    }
}
