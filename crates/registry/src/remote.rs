//! A registry at the other end of a bus, spoken to through the functions of the iii contract.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use skills_bus::{CallError, Json, client::BusClient};
use skills_core::{PromptArgument, PromptDefinition, uri::SCHEME};

use crate::{PromptInfo, RegistryError, RenderedPrompt, Resource, SkillInfo, Skills};

/// Speaks `skills::*` and `prompts::*`.
#[derive(Debug)]
pub struct RemoteRegistry {
    client: BusClient,
    timeout: Duration,
}

#[derive(Deserialize)]
struct SkillList {
    skills: Vec<SkillListRow>,
}

#[derive(Deserialize)]
struct SkillListRow {
    id: String,
    bytes: u64,
    registered_at: String,
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<ResourceRow>,
}

#[derive(Deserialize)]
struct ResourceRow {
    uri: String,
    name: Option<String>,
    title: Option<String>,
    description: Option<String>,
}

#[derive(Deserialize)]
struct Contents {
    contents: Vec<ContentRow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContentRow {
    uri: String,
    mime_type: String,
    text: String,
}

#[derive(Deserialize)]
struct PromptList {
    prompts: Vec<PromptListRow>,
}

#[derive(Deserialize)]
struct PromptListRow {
    name: String,
    function_id: String,
    registered_at: String,
}

#[derive(Deserialize)]
struct PromptDetails {
    prompts: Vec<PromptDetailsRow>,
}

#[derive(Deserialize)]
struct PromptDetailsRow {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    arguments: Vec<PromptArgument>,
}

#[derive(Deserialize)]
struct Rendered {
    description: Option<String>,
    messages: Vec<Value>,
}

#[derive(Deserialize)]
struct Registered {
    registered_at: String,
}

#[derive(Deserialize)]
struct Removed {
    removed: bool,
}

impl RemoteRegistry {
    /// A registry behind a connected client.
    #[must_use]
    pub const fn new(client: BusClient, timeout: Duration) -> Self {
        Self { client, timeout }
    }

    async fn call<T: DeserializeOwned>(
        &self,
        function_id: &str,
        payload: &Value,
    ) -> Result<T, RegistryError> {
        let result = self.client.call(function_id, Json::from(payload), self.timeout).await;
        result.map_err(|error| remote(&error))?.parse().map_err(|error| RegistryError::Remote {
            code: "unexpected_answer".to_owned(),
            message: format!(
                "{function_id} answered something else than the contract says: {error}"
            ),
        })
    }
}

fn remote(error: &CallError) -> RegistryError {
    RegistryError::Remote { code: error.code().to_owned(), message: error.to_string() }
}

#[async_trait]
impl Skills for RemoteRegistry {
    async fn skills(&self) -> Result<Vec<SkillInfo>, RegistryError> {
        let empty = json!({});
        let list: SkillList = self.call("skills::list", &empty).await?;
        let resources: ResourceList = self.call("skills::resources-list", &empty).await?;
        let mut by_uri: HashMap<String, ResourceRow> =
            resources.resources.into_iter().map(|row| (row.uri.clone(), row)).collect();
        let info = |row: SkillListRow| {
            let resource = by_uri.remove(&format!("{SCHEME}{}", row.id));
            let (title, description) = match resource {
                Some(resource) => (resource.title.or(resource.name), resource.description),
                None => (None, None),
            };
            SkillInfo {
                title: title.unwrap_or_else(|| row.id.clone()),
                description,
                id: row.id,
                bytes: row.bytes,
                registered_at: row.registered_at,
            }
        };
        Ok(list.skills.into_iter().map(info).collect())
    }

    async fn prompts(&self) -> Result<Vec<PromptInfo>, RegistryError> {
        let empty = json!({});
        let list: PromptList = self.call("prompts::list", &empty).await?;
        let details: PromptDetails = self.call("prompts::mcp-list", &empty).await?;
        let mut by_name: HashMap<String, PromptDetailsRow> =
            details.prompts.into_iter().map(|row| (row.name.clone(), row)).collect();
        let info = |row: PromptListRow| {
            let details = by_name.remove(&row.name);
            let (description, arguments) =
                details.map(|row| (row.description, row.arguments)).unwrap_or_default();
            PromptInfo {
                name: row.name,
                description,
                arguments,
                function_id: row.function_id,
                registered_at: row.registered_at,
            }
        };
        Ok(list.prompts.into_iter().map(info).collect())
    }

    async fn read(&self, uri: &str) -> Result<Resource, RegistryError> {
        let answer: Contents = self.call("skills::resources-read", &json!({ "uri": uri })).await?;
        let row = answer.contents.into_iter().next().ok_or_else(|| RegistryError::Remote {
            code: "unexpected_answer".to_owned(),
            message: format!("skills::resources-read answered nothing for {uri}"),
        })?;
        Ok(Resource { uri: row.uri, mime_type: row.mime_type, text: row.text.into() })
    }

    async fn render_prompt(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        let payload = json!({ "name": name, "arguments": arguments });
        let rendered: Rendered = self.call("prompts::mcp-get", &payload).await?;
        Ok(RenderedPrompt { description: rendered.description, messages: rendered.messages })
    }

    async fn register_skill(&self, id: &str, body: String) -> Result<String, RegistryError> {
        let payload = json!({ "id": id, "skill": body });
        let answer: Registered = self.call("skills::register", &payload).await?;
        Ok(answer.registered_at)
    }

    async fn remove_skill(&self, id: &str) -> Result<bool, RegistryError> {
        let answer: Removed = self.call("skills::unregister", &json!({ "id": id })).await?;
        Ok(answer.removed)
    }

    async fn register_prompt(
        &self,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError> {
        let PromptDefinition { description, arguments, function_id } = definition;
        let payload = json!({
            "name": name,
            "description": description,
            "arguments": arguments,
            "function_id": function_id,
        });
        let answer: Registered = self.call("prompts::register", &payload).await?;
        Ok(answer.registered_at)
    }

    async fn remove_prompt(&self, name: &str) -> Result<bool, RegistryError> {
        let answer: Removed = self.call("prompts::unregister", &json!({ "name": name })).await?;
        Ok(answer.removed)
    }
}
