//! A registry that is still being opened. A surface can greet its client meanwhile.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde_json::{Map, Value};
use skills_core::{Bundle, Caller, HandlerId, PromptDefinition, Tier};
use skills_registry::{
    Catalog, Changed, Changes, Document, Explanation, ExposedFunction, RegistryError,
    RenderedPrompt, Resource, SkillInfo, SkillRow, Skills, live::Question,
};
use tokio::sync::watch;

type Opened = watch::Receiver<Option<Arc<dyn Skills>>>;

/// Waits for the registry with every request, and then sees it as a caller does.
pub(crate) struct Late {
    opened: Opened,
    caller: Caller,
}

impl Late {
    /// The registry to be, and where to put it.
    pub(crate) fn new() -> (Self, watch::Sender<Option<Arc<dyn Skills>>>) {
        let (sender, receiver) = watch::channel(None);
        (Self { opened: receiver, caller: Caller::Anonymous }, sender)
    }

    async fn get(&self) -> Result<Arc<dyn Skills>, RegistryError> {
        let skills = wait(self.opened.clone()).await.ok_or(RegistryError::Closed)?;
        seen(skills, &self.caller)
    }
}

/// A registry as a caller sees it; for nobody in particular it is as it was opened.
fn seen(skills: Arc<dyn Skills>, caller: &Caller) -> Result<Arc<dyn Skills>, RegistryError> {
    if *caller == Caller::Anonymous { Ok(skills) } else { skills.view(caller) }
}

async fn wait(mut opened: Opened) -> Option<Arc<dyn Skills>> {
    opened.wait_for(Option::is_some).await.ok()?.clone()
}

#[async_trait]
impl Skills for Late {
    fn view(self: Arc<Self>, caller: &Caller) -> Result<Arc<dyn Skills>, RegistryError> {
        Ok(Arc::new(Self { opened: self.opened.clone(), caller: caller.clone() }))
    }

    async fn catalog(&self) -> Result<Arc<Catalog>, RegistryError> {
        self.get().await?.catalog().await
    }

    fn changes(&self) -> Changes {
        let caller = self.caller.clone();
        // News that cannot be had end at once.
        let changes = move |skills| match seen(skills, &caller) {
            Ok(skills) => skills.changes(),
            Err(_) => stream::empty().boxed(),
        };
        // News count from now on, and the other way begins only when it is asked for the first.
        if let Some(skills) = &*self.opened.borrow() {
            return changes(Arc::clone(skills));
        }
        let opened = wait(self.opened.clone());
        stream::once(opened)
            .filter_map(std::future::ready)
            // What happened between its opening and now is not known.
            .flat_map(move |skills| stream::iter([Changed::Everything]).chain(changes(skills)))
            .boxed()
    }

    async fn every_skill(&self) -> Result<Vec<SkillInfo>, RegistryError> {
        self.get().await?.every_skill().await
    }

    async fn explain(&self, id: &str) -> Result<Explanation, RegistryError> {
        self.get().await?.explain(id).await
    }

    async fn has_paths(&self) -> bool {
        match self.get().await {
            Ok(skills) => skills.has_paths().await,
            Err(_) => false,
        }
    }

    async fn ask_paths(&self, question: Question) -> Result<Value, RegistryError> {
        self.get().await?.ask_paths(question).await
    }

    async fn read(&self, uri: &str) -> Result<Resource, RegistryError> {
        self.get().await?.read(uri).await
    }

    async fn document(&self, row: &SkillRow, path: &str) -> Result<Document, RegistryError> {
        self.get().await?.document(row, path).await
    }

    async fn render_prompt(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        self.get().await?.render_prompt(name, arguments).await
    }

    async fn functions(&self) -> Result<Vec<ExposedFunction>, RegistryError> {
        self.get().await?.functions().await
    }

    async fn call_function(
        &self,
        function: &HandlerId,
        arguments: Value,
    ) -> Result<Value, RegistryError> {
        self.get().await?.call_function(function, arguments).await
    }

    async fn call_tool(
        &self,
        id: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, RegistryError> {
        self.get().await?.call_tool(id, arguments).await
    }

    async fn register_bundle_in(
        &self,
        tier: Tier,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> Result<String, RegistryError> {
        self.get().await?.register_bundle_in(tier, id, bundle).await
    }

    async fn remove_skill_in(&self, tier: Tier, id: &str) -> Result<bool, RegistryError> {
        self.get().await?.remove_skill_in(tier, id).await
    }

    async fn register_prompt_in(
        &self,
        tier: Tier,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError> {
        self.get().await?.register_prompt_in(tier, name, definition).await
    }

    async fn remove_prompt_in(&self, tier: Tier, name: &str) -> Result<bool, RegistryError> {
        self.get().await?.remove_prompt_in(tier, name).await
    }
}
