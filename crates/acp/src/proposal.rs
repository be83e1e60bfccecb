//! The list of skills that a proposal wants to add to ACP, and how a client asks for it.
//!
//! The proposal (agentclientprotocol/agent-client-protocol#370, "Agent Skills List") is not merged and in no
//! released schema. The union of session updates is closed in version 1, so clients that do not know this
//! one drop it or fail the user's turn. All that would change with the proposal is here.

use std::collections::BTreeMap;

use agent_client_protocol::{
    Error, UntypedMessage,
    v1::schema::{Meta, SessionId},
};
use serde::Serialize;
use serde_json::{Value, json};
use skills_core::uri::SCHEME;
use skills_registry::available;

/// The update, nested under `update` as all of them are.
const UPDATE: &str = "available_skills_update";
/// Under which key of `_meta` both sides say that they know of it.
const KEY: &str = "agentskills.io";
/// What they say there.
const FLAG: &str = "availableSkillsUpdate";

/// When the list is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SkillsUpdate {
    /// To clients that ask for it when they connect.
    #[default]
    OptIn,
    /// To every client.
    Always,
    /// To none.
    Never,
}

impl SkillsUpdate {
    /// Whether a client with these capabilities is sent it.
    pub(crate) fn is_for(self, capabilities: Option<&Meta>) -> bool {
        let asked = capabilities.and_then(|meta| meta.get(KEY)).and_then(|ours| ours.get(FLAG));
        match self {
            Self::OptIn => asked == Some(&Value::Bool(true)),
            Self::Always => true,
            Self::Never => false,
        }
    }

    /// What is said of it among the capabilities of the agent.
    pub(crate) fn advertisement(self) -> Option<Meta> {
        let ours = json!({ FLAG: true, "metadata": true });
        (self != Self::Never).then(|| Meta::from_iter([(KEY.to_owned(), ours)]))
    }
}

/// A skill as the proposal has it. What it does not have is under `_meta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AvailableSkill {
    pub(crate) name: String,
    pub(crate) description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compatibility: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed_tools: Vec<String>,
    #[serde(rename = "_meta")]
    meta: BTreeMap<String, Value>,
}

impl AvailableSkill {
    pub(crate) fn new(offered: &available::AvailableSkill, registered_at: Option<String>) -> Self {
        let available::AvailableSkill { id, skill } = offered;
        let mut meta = BTreeMap::new();
        let mut put = |key: &str, value: Value| meta.insert(format!("{KEY}/{key}"), value);
        put("uri", json!(format!("{SCHEME}{id}")));
        if let Some(moment) = registered_at {
            put("registeredAt", json!(moment));
        }
        if !skill.metadata.is_empty() {
            put("metadata", json!(skill.metadata));
        }
        for (key, allowed) in
            [("userInvocable", skill.user_invocable), ("modelInvocable", skill.model_invocable)]
        {
            if !allowed {
                put(key, json!(false));
            }
        }
        Self {
            name: skill.name.clone(),
            description: skill.description.clone(),
            license: skill.license.clone(),
            compatibility: skill.compatibility.clone(),
            allowed_tools: skill.allowed_tools.clone(),
            meta,
        }
    }

    /// The same, for the `_meta` of the command that invokes it.
    pub(crate) fn command_meta(&self) -> Meta {
        Meta::from_iter([(format!("{KEY}/skill"), json!(self))])
    }
}

/// The notification. The types of the protocol cannot carry it.
pub(crate) fn notification(
    session: &SessionId,
    skills: &[AvailableSkill],
) -> Result<UntypedMessage, Error> {
    let update = json!({ "sessionUpdate": UPDATE, "availableSkills": skills });
    UntypedMessage::new("session/update", json!({ "sessionId": session, "update": update }))
}

#[cfg(test)]
mod tests {
    use skills_core::AgentSkill;

    use super::*;

    fn offered(frontmatter: &str) -> available::AvailableSkill {
        let document = format!("---\n{frontmatter}\n---\n# Body\n");
        let skill = AgentSkill::read(&document, None).unwrap();
        available::AvailableSkill { id: "pdf-tools".to_owned(), skill }
    }

    #[test]
    fn the_nested_form() {
        let all = offered(
            "name: pdf\ndescription: Reads PDF.\nlicense: MIT\ncompatibility: Needs poppler\n\
             allowed-tools: Bash(pdftotext:*) Read\nmetadata: {author: ann}\nuser-invocable: false",
        );
        let skills = [
            AvailableSkill::new(&all, Some("2026-01-01T00:00:00.000000Z".to_owned())),
            AvailableSkill::new(&offered("name: a\ndescription: d"), None),
        ];
        let message = notification(&SessionId::new("s1"), &skills).unwrap();
        assert_eq!(message.method(), "session/update");
        assert_eq!(
            *message.params(),
            json!({ "sessionId": "s1", "update": {
                "sessionUpdate": "available_skills_update",
                "availableSkills": [
                    {
                        "name": "pdf",
                        "description": "Reads PDF.",
                        "license": "MIT",
                        "compatibility": "Needs poppler",
                        "allowedTools": ["Bash(pdftotext:*)", "Read"],
                        "_meta": {
                            "agentskills.io/uri": "iii://pdf-tools",
                            "agentskills.io/registeredAt": "2026-01-01T00:00:00.000000Z",
                            "agentskills.io/metadata": { "author": "ann" },
                            "agentskills.io/userInvocable": false,
                        },
                    },
                    {
                        "name": "a",
                        "description": "d",
                        "_meta": { "agentskills.io/uri": "iii://pdf-tools" },
                    },
                ],
            }})
        );
    }

    #[test]
    fn only_who_asks_gets_it_unless_told_otherwise() {
        let meta = |value: Value| value.as_object().unwrap().clone();
        let asks = meta(json!({ "agentskills.io": { "availableSkillsUpdate": true } }));
        for other in [
            json!({}),
            json!({ "agentskills.io": { "availableSkillsUpdate": false } }),
            json!({ "agentskills.io": { "availableSkillsUpdate": "true" } }),
            json!({ "agentskills.io": true }),
            json!({ "availableSkillsUpdate": true }),
        ] {
            assert!(!SkillsUpdate::OptIn.is_for(Some(&meta(other.clone()))), "{other}");
        }
        assert!(SkillsUpdate::OptIn.is_for(Some(&asks)));
        assert!(!SkillsUpdate::OptIn.is_for(None));
        assert!(SkillsUpdate::Always.is_for(None));
        assert!(!SkillsUpdate::Never.is_for(Some(&asks)));
        assert!(SkillsUpdate::Never.advertisement().is_none());
    }
}
