//! The registry of this process, as surfaces see it: for everyone, or as a [`View`] of one caller.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Map, Value, json};
use skills_core::{Bundle, Caller, HandlerId, Layer, PromptDefinition, Tier};
use skills_store::Change;

use crate::{
    Catalog, Changes, Document, Explanation, ExposedFunction, PromptInfo, PromptRow, Registry,
    RegistryError, RenderedPrompt, Resource, SkillInfo, SkillRow, Skills,
    changed::{self, Sources},
    functions,
    live::Question,
};

/// Who is named in the log for writes that come through the trait without a credential.
const ACTOR: &str = "local";

impl From<&SkillRow> for SkillInfo {
    fn from(row: &SkillRow) -> Self {
        Self {
            id: row.id.to_string(),
            tier: row.stored_in(),
            title: row.title().to_owned(),
            description: row.meta.description.clone(),
            bytes: row.bytes(),
            registered_at: row.registered_at.to_string(),
            live: row.origin().map(|(client, _)| client.to_owned()),
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

/// The registry with the eyes of one caller.
#[derive(Debug, Clone)]
pub struct View {
    registry: Arc<Registry>,
    caller: Caller,
}

impl Registry {
    /// The registry as a caller sees it.
    #[must_use]
    pub fn seen_by(self: &Arc<Self>, caller: &Caller) -> View {
        View { registry: Arc::clone(self), caller: caller.clone() }
    }

    fn news(&self, caller: &Caller) -> Changes {
        let functions = self.bus().map(|bus| bus.functions_changed());
        let published = self.published();
        let sources = Sources {
            feed: published.changes.subscribe(),
            live: self.live_changes(),
            functions,
            refreshed: self.refreshed(),
        };
        let snapshot = Arc::clone(published);
        let is_of_tool = move |change: &Change| snapshot.catalog.load().is_of_tool(change);
        let prefix = self.catalog().prefix().clone();
        let news = changed::of_feed(sources, caller.owner().cloned(), is_of_tool, prefix);
        match (self.keys().get().cloned(), caller) {
            // Asked before anything is told: nothing that happens after a key was revoked is.
            (Some(keys), Caller::User(_)) => {
                let caller = caller.clone();
                news.take_while(move |_| std::future::ready(keys.knows(&caller))).boxed()
            }
            _ => news,
        }
    }

    /// The caller, if they are who they were when they were given a view.
    fn known<'a>(&self, caller: &'a Caller) -> Result<&'a Caller, RegistryError> {
        match (self.keys().get(), caller) {
            (Some(keys), Caller::User(_)) if !keys.knows(caller) => Err(RegistryError::UnknownKey),
            _ => Ok(caller),
        }
    }

    async fn exposed(&self) -> Result<Vec<ExposedFunction>, RegistryError> {
        match self.bus() {
            Some(_) => functions::exposed(self.call(functions::LIST, &json!({})).await?),
            // Without a bus there are no workers.
            None => Ok(vec![]),
        }
    }
}

/// The layer that a caller means by a tier, and who is named in the log.
fn place(caller: &Caller, tier: Tier) -> Result<(Layer, String), RegistryError> {
    let layer = caller.layer(tier).ok_or(RegistryError::KeyNeeded)?;
    Ok((layer, caller.actor().unwrap_or_else(|| ACTOR.to_owned())))
}

/// Both see the same registry: one as nobody in particular, one as somebody.
macro_rules! local {
    ($type:ty, |$self:ident| $registry:expr, $caller:expr, $arc:expr) => {
        #[async_trait]
        impl Skills for $type {
            fn view($self: Arc<Self>, caller: &Caller) -> Result<Arc<dyn Skills>, RegistryError> {
                Ok(Arc::new($arc.seen_by(caller)))
            }

            async fn catalog(&$self) -> Result<Arc<Catalog>, RegistryError> {
                Ok($registry.catalog_of($registry.known($caller)?))
            }

            fn changes(&$self) -> Changes {
                $registry.news($caller)
            }

            async fn explain(&$self, id: &str) -> Result<Explanation, RegistryError> {
                Ok($registry.explain($registry.known($caller)?, id))
            }

            async fn functions(&$self) -> Result<Vec<ExposedFunction>, RegistryError> {
                $registry.exposed().await
            }

            async fn call_function(
                &$self,
                function: &HandlerId,
                arguments: Value,
            ) -> Result<Value, RegistryError> {
                $registry.known($caller)?;
                $registry.call(function.as_str(), &arguments).await
            }

            async fn has_paths(&$self) -> bool {
                $registry.hosts_clients()
            }

            async fn ask_paths(&$self, question: Question) -> Result<Value, RegistryError> {
                $registry.ask_paths($registry.known($caller)?, question).await
            }

            async fn call_tool(
                &$self,
                id: &str,
                arguments: Map<String, Value>,
            ) -> Result<Value, RegistryError> {
                $registry.call_tool_as($registry.known($caller)?, id, arguments, None).await
            }

            async fn read(&$self, uri: &str) -> Result<Resource, RegistryError> {
                $registry.read_as($registry.known($caller)?, uri).await
            }

            async fn document(&$self, row: &SkillRow, path: &str) -> Result<Document, RegistryError> {
                $registry.document_as($registry.known($caller)?, row, path).await
            }

            async fn render_prompt(
                &$self,
                name: &str,
                arguments: Value,
            ) -> Result<RenderedPrompt, RegistryError> {
                $registry.render_prompt_as($registry.known($caller)?, name, arguments).await
            }

            async fn register_bundle_in(
                &$self,
                tier: Tier,
                id: &str,
                bundle: Bundle<Bytes>,
            ) -> Result<String, RegistryError> {
                let (layer, actor) = place($registry.known($caller)?, tier)?;
                let write = $registry.register_bundle_in(&actor, &layer, id, bundle);
                write.await.map(|at| at.to_string())
            }

            async fn remove_skill_in(&$self, tier: Tier, id: &str) -> Result<bool, RegistryError> {
                let (layer, actor) = place($registry.known($caller)?, tier)?;
                $registry.remove_skill_in(&actor, &layer, id).await
            }

            async fn register_prompt_in(
                &$self,
                tier: Tier,
                name: &str,
                definition: PromptDefinition,
            ) -> Result<String, RegistryError> {
                let (layer, actor) = place($registry.known($caller)?, tier)?;
                let write = $registry.register_prompt_in(&actor, &layer, name, definition);
                write.await.map(|at| at.to_string())
            }

            async fn remove_prompt_in(&$self, tier: Tier, name: &str) -> Result<bool, RegistryError> {
                let (layer, actor) = place($registry.known($caller)?, tier)?;
                $registry.remove_prompt_in(&actor, &layer, name).await
            }
        }
    };
}

local!(Registry, |self| self, &Caller::Anonymous, self);
local!(View, |self| self.registry, &self.caller, self.registry);
