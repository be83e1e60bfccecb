//! The registry of this process, as surfaces see it.

use async_trait::async_trait;
use serde_json::Value;
use skills_core::PromptDefinition;

use crate::{
    PromptInfo, PromptRow, Registry, RegistryError, RenderedPrompt, Resource, SkillInfo, SkillRow,
    Skills,
};

/// Who is named in the log for writes that come through the trait.
const ACTOR: &str = "local";

impl From<&SkillRow> for SkillInfo {
    fn from(row: &SkillRow) -> Self {
        Self {
            id: row.id.to_string(),
            title: row.title().to_owned(),
            description: row.meta.description.clone(),
            bytes: row.bytes(),
            registered_at: row.registered_at.to_string(),
        }
    }
}

impl From<&PromptRow> for PromptInfo {
    fn from(row: &PromptRow) -> Self {
        Self {
            name: row.name.to_string(),
            description: row.definition.description.clone(),
            arguments: row.definition.arguments.clone(),
            function_id: row.definition.function_id.clone(),
            registered_at: row.registered_at.to_string(),
        }
    }
}

#[async_trait]
impl Skills for Registry {
    async fn skills(&self) -> Result<Vec<SkillInfo>, RegistryError> {
        Ok(self.catalog().skills().into_iter().map(|row| row.as_ref().into()).collect())
    }

    async fn prompts(&self) -> Result<Vec<PromptInfo>, RegistryError> {
        Ok(self.catalog().prompts().into_iter().map(|row| row.as_ref().into()).collect())
    }

    async fn read(&self, uri: &str) -> Result<Resource, RegistryError> {
        Self::read(self, uri).await
    }

    async fn render_prompt(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        Self::render_prompt(self, name, arguments).await
    }

    async fn register_skill(&self, id: &str, body: String) -> Result<String, RegistryError> {
        Self::register_skill(self, ACTOR, id, body).await.map(|at| at.to_string())
    }

    async fn remove_skill(&self, id: &str) -> Result<bool, RegistryError> {
        Self::remove_skill(self, ACTOR, id).await
    }

    async fn register_prompt(
        &self,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError> {
        Self::register_prompt(self, ACTOR, name, definition).await.map(|at| at.to_string())
    }

    async fn remove_prompt(&self, name: &str) -> Result<bool, RegistryError> {
        Self::remove_prompt(self, ACTOR, name).await
    }
}
