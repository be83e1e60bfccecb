//! The skills list that a proposal adds to ACP, and how a client enables it.
//!
//! The proposal (agentclientprotocol/agent-client-protocol#370, "Agent Skills List") is not merged and in no
//! released schema. The union of session updates is closed in version 1, so other clients drop this update or fail the
//! user's turn. Everything that depends on the proposal is in this module.

use std::collections::BTreeMap;

use agent_client_protocol::{
    Error, UntypedMessage,
    v1::schema::{Meta, SessionId},
};
use serde::Serialize;
use serde_json::{Value, json};
use skills_core::uri::SCHEME;
use skills_registry::available;

/// Kind of the update, nested under `update` as in every session update.
const UPDATE: &str = "available_skills_update";
/// Key of `_meta` under which both sides announce support.
const KEY: &str = "agentskills.io";
/// Field of the announcement.
const FLAG: &str = "availableSkillsUpdate";

/// Selection of the clients that get the list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SkillsUpdate {
    /// Clients that ask for it when they connect.
    #[default]
    OptIn,
    /// Every client.
    Always,
    /// No client.
    Never,
}

impl SkillsUpdate {
    /// Returns whether a client with these capabilities gets the list.
    pub(crate) fn is_enabled(self, capabilities: Option<&Meta>) -> bool {
        let flag =
            capabilities.and_then(|meta| meta.get(KEY)).and_then(|announced| announced.get(FLAG));
        match self {
            Self::OptIn => flag == Some(&Value::Bool(true)),
            Self::Always => true,
            Self::Never => false,
        }
    }

    /// Returns the announcement in the capabilities of the agent.
    pub(crate) fn announcement(self) -> Option<Meta> {
        let announced = json!({ FLAG: true, "metadata": true });
        (self != Self::Never).then(|| Meta::from_iter([(KEY.to_owned(), announced)]))
    }
}

/// Skill in the form of the proposal. Fields that it does not have are under `_meta`.
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
    pub(crate) fn new(
        available: &available::AvailableSkill,
        registered_at: Option<String>,
    ) -> Self {
        let available::AvailableSkill { id, skill } = available;
        let mut meta = BTreeMap::new();
        let mut put = |key: &str, value: Value| meta.insert(format!("{KEY}/{key}"), value);
        put("uri", json!(format!("{SCHEME}{id}")));
        if let Some(registered_at) = registered_at {
            put("registeredAt", json!(registered_at));
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

    /// Returns the skill for the `_meta` of the command that invokes it.
    pub(crate) fn command_meta(&self) -> Meta {
        Meta::from_iter([(format!("{KEY}/skill"), json!(self))])
    }
}

/// Builds the notification, which the SDK has no type for.
pub(crate) fn notification(
    session: &SessionId,
    skills: &[AvailableSkill],
) -> Result<UntypedMessage, Error> {
    let update = json!({ "sessionUpdate": UPDATE, "availableSkills": skills });
    UntypedMessage::new("session/update", json!({ "sessionId": session, "update": update }))
}

#[cfg(test)]
mod tests {

    use super::*;

    fn available_skill(frontmatter: &str) -> available::AvailableSkill {
        let document = format!("---\n{frontmatter}\n---\n# Body\n");
        let skill = skills_agent_skills::read_agent_skill(&document, None).unwrap();
        available::AvailableSkill { id: "pdf-tools".to_owned(), skill }
    }

    #[test]
    fn the_update_is_nested_like_every_session_update() {
        let all = available_skill(
            "name: pdf\ndescription: Reads PDF.\nlicense: MIT\ncompatibility: Needs poppler\n\
             allowed-tools: Bash(pdftotext:*) Read\nmetadata: {author: ann}\nuser-invocable: false",
        );
        let skills = [
            AvailableSkill::new(&all, Some("2026-01-01T00:00:00.000000Z".to_owned())),
            AvailableSkill::new(&available_skill("name: a\ndescription: d"), None),
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
    fn only_clients_that_ask_get_the_list_by_default() {
        let meta = |value: Value| value.as_object().unwrap().clone();
        let asks = meta(json!({ "agentskills.io": { "availableSkillsUpdate": true } }));
        for other in [
            json!({}),
            json!({ "agentskills.io": { "availableSkillsUpdate": false } }),
            json!({ "agentskills.io": { "availableSkillsUpdate": "true" } }),
            json!({ "agentskills.io": true }),
            json!({ "availableSkillsUpdate": true }),
        ] {
            assert!(!SkillsUpdate::OptIn.is_enabled(Some(&meta(other.clone()))), "{other}");
        }
        assert!(SkillsUpdate::OptIn.is_enabled(Some(&asks)));
        assert!(!SkillsUpdate::OptIn.is_enabled(None));
        assert!(SkillsUpdate::Always.is_enabled(None));
        assert!(!SkillsUpdate::Never.is_enabled(Some(&asks)));
        assert!(SkillsUpdate::Never.announcement().is_none());
    }
}
