//! The trait that surfaces are written against, so that none of them knows where the registry lives.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Map, Value};
use skills_core::{
    Bundle, Caller, Digest, HandlerId, PromptArgument, PromptDefinition, Tier, bundle::media_type,
    skill::ROOT_PATH, uri::SCHEME,
};

use crate::{
    Catalog, Changes, Explanation, ExposedFunction, RegistryError, SkillRow, live::Question,
};

/// A skill in a listing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct SkillInfo {
    /// Its id.
    pub id: String,
    /// Where it is stored, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// First heading, or the id.
    pub title: String,
    /// First paragraph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Size of the root document.
    pub bytes: u64,
    /// RFC 3339.
    pub registered_at: String,
    /// The client that has it, if it is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<String>,
}

/// A prompt in a listing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PromptInfo {
    /// Its name.
    pub name: String,
    /// Shown in a picker.
    pub description: String,
    /// What it asks for.
    pub arguments: Vec<PromptArgument>,
    /// The handler.
    pub function_id: String,
    /// RFC 3339.
    pub registered_at: String,
}

/// What a URI named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The URI, as it was asked for.
    pub uri: String,
    /// Its media type.
    pub mime_type: String,
    /// What it holds. Only a file of a bundle may be something else than text.
    pub body: Bytes,
}

impl Resource {
    /// The body, if it is text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.body).ok()
    }

    /// The body as text, whatever it is.
    #[must_use]
    pub fn into_text(self) -> String {
        String::from_utf8(self.body.into())
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

/// A file of a stored skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Its media type.
    pub media_type: &'static str,
    /// What it holds.
    pub body: Bytes,
    /// The digest of that.
    pub digest: Digest,
}

/// A rendered prompt.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct RenderedPrompt {
    /// What the prompt is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Messages for the model.
    pub messages: Vec<Value>,
}

/// A registry, wherever it lives, as somebody sees it.
#[async_trait]
pub trait Skills: Send + Sync {
    /// The same registry as a caller sees it.
    ///
    /// # Errors
    /// When it cannot tell callers apart.
    fn view(self: Arc<Self>, caller: &Caller) -> Result<Arc<dyn Skills>, RegistryError>;
    /// The present snapshot of all that is registered.
    async fn catalog(&self) -> Result<Arc<Catalog>, RegistryError>;
    /// News of changes from now on.
    fn changes(&self) -> Changes;
    /// All skills that answer to their ids, sorted by id.
    async fn skills(&self) -> Result<Vec<SkillInfo>, RegistryError> {
        Ok(self.catalog().await?.skills_after(None).map(|row| row.as_ref().into()).collect())
    }
    /// All skills of all tiers, also those that are shadowed, sorted by id and then by tier.
    async fn every_skill(&self) -> Result<Vec<SkillInfo>, RegistryError> {
        Ok(self.catalog().await?.layered_after(None).map(|row| row.as_ref().into()).collect())
    }
    /// Why a skill's name leads where it leads.
    async fn explain(&self, id: &str) -> Result<Explanation, RegistryError>;
    /// All prompts that answer to their names, sorted by name.
    async fn prompts(&self) -> Result<Vec<PromptInfo>, RegistryError> {
        Ok(self.catalog().await?.prompts_after(None).map(|row| row.as_ref().into()).collect())
    }
    /// What a URI names.
    async fn read(&self, uri: &str) -> Result<Resource, RegistryError>;
    /// A file of a stored skill, whose row a catalog has just told of.
    async fn document(&self, row: &SkillRow, path: &str) -> Result<Document, RegistryError> {
        let body = self.read(&address(row, path)).await?.body;
        let digest = Digest::of(&body);
        Ok(Document { media_type: media_type(path), body, digest })
    }
    /// The messages of a prompt.
    async fn render_prompt(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError>;
    /// Whether it can be asked about the paths of live clients.
    async fn has_paths(&self) -> bool {
        false
    }
    /// Asks about live clients and their paths.
    async fn ask_paths(&self, _: Question) -> Result<Value, RegistryError> {
        Err(RegistryError::Unsupported("this registry hosts no live clients"))
    }
    /// The functions of workers that ask to be offered to agents.
    async fn functions(&self) -> Result<Vec<ExposedFunction>, RegistryError>;
    /// Calls a function of a worker.
    async fn call_function(
        &self,
        function: &HandlerId,
        arguments: Value,
    ) -> Result<Value, RegistryError>;
    /// Calls a stored tool: a skill of the catalog that has a manifest.
    async fn call_tool(
        &self,
        id: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, RegistryError>;
    /// Registers an official skill and returns when that was, in RFC 3339.
    async fn register_skill(&self, id: &str, body: String) -> Result<String, RegistryError> {
        self.register_bundle_in(Tier::Official, id, Bundle::new(body, vec![])?).await
    }
    /// Registers an official skill of several files and returns when that was, in RFC 3339.
    async fn register_bundle(
        &self,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> Result<String, RegistryError> {
        self.register_bundle_in(Tier::Official, id, bundle).await
    }
    /// The same in a tier; the private one is that of who asks.
    async fn register_bundle_in(
        &self,
        tier: Tier,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> Result<String, RegistryError>;
    /// Removes an official skill; `false` when there was none.
    async fn remove_skill(&self, id: &str) -> Result<bool, RegistryError> {
        self.remove_skill_in(Tier::Official, id).await
    }
    /// The same in a tier.
    async fn remove_skill_in(&self, tier: Tier, id: &str) -> Result<bool, RegistryError>;
    /// Registers an official prompt and returns when that was, in RFC 3339.
    async fn register_prompt(
        &self,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError> {
        self.register_prompt_in(Tier::Official, name, definition).await
    }
    /// The same in a tier.
    async fn register_prompt_in(
        &self,
        tier: Tier,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError>;
    /// Removes an official prompt; `false` when there was none.
    async fn remove_prompt(&self, name: &str) -> Result<bool, RegistryError> {
        self.remove_prompt_in(Tier::Official, name).await
    }
    /// The same in a tier.
    async fn remove_prompt_in(&self, tier: Tier, name: &str) -> Result<bool, RegistryError>;
}

/// The URI of a file of a skill.
pub(crate) fn address(row: &SkillRow, path: &str) -> String {
    match path {
        ROOT_PATH => format!("{SCHEME}{}", row.id),
        path => format!("{SCHEME}{}/{path}", row.id),
    }
}
