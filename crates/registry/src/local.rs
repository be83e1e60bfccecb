//! The registry of this process, as surfaces see it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json};
use skills_core::{Bundle, HandlerId, PromptDefinition};

use crate::{
    Catalog, Changes, ExposedFunction, PromptInfo, PromptRow, Registry, RegistryError,
    RenderedPrompt, Resource, SkillInfo, SkillRow, Skills, changed, functions,
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
    async fn catalog(&self) -> Result<Arc<Catalog>, RegistryError> {
        Ok(Self::catalog(self))
    }

    fn changes(&self) -> Changes {
        let functions = self.bus().map(|bus| bus.functions_changed());
        changed::of_feed(self.published().changes.subscribe(), functions)
    }

    async fn functions(&self) -> Result<Vec<ExposedFunction>, RegistryError> {
        match self.bus() {
            Some(_) => functions::exposed(self.call(functions::LIST, &json!({})).await?),
            // Without a bus there are no workers.
            None => Ok(vec![]),
        }
    }

    async fn call_function(
        &self,
        function: &HandlerId,
        arguments: Value,
    ) -> Result<Value, RegistryError> {
        self.call(function.as_str(), &arguments).await
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

    async fn register_bundle(
        &self,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> Result<String, RegistryError> {
        Self::register_bundle(self, ACTOR, id, bundle).await.map(|at| at.to_string())
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
