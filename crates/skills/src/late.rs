//! A registry that is still being opened. A surface can greet its client meanwhile.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde_json::Value;
use skills_core::{Bundle, HandlerId, PromptDefinition};
use skills_registry::{
    Catalog, Changed, Changes, ExposedFunction, RegistryError, RenderedPrompt, Resource, Skills,
};
use tokio::sync::watch;

/// Waits for the registry with every request.
pub(crate) struct Late(watch::Receiver<Option<Arc<dyn Skills>>>);

impl Late {
    /// The registry to be, and where to put it.
    pub(crate) fn new() -> (Self, watch::Sender<Option<Arc<dyn Skills>>>) {
        let (sender, receiver) = watch::channel(None);
        (Self(receiver), sender)
    }

    async fn get(&self) -> Result<Arc<dyn Skills>, RegistryError> {
        wait(self.0.clone()).await.ok_or(RegistryError::Closed)
    }
}

async fn wait(mut opened: watch::Receiver<Option<Arc<dyn Skills>>>) -> Option<Arc<dyn Skills>> {
    opened.wait_for(Option::is_some).await.ok()?.clone()
}

#[async_trait]
impl Skills for Late {
    async fn catalog(&self) -> Result<Arc<Catalog>, RegistryError> {
        self.get().await?.catalog().await
    }

    fn changes(&self) -> Changes {
        // News count from now on, and the other way begins only when it is asked for the first.
        if let Some(skills) = &*self.0.borrow() {
            return skills.changes();
        }
        let opened = wait(self.0.clone());
        stream::once(opened)
            .filter_map(std::future::ready)
            // What happened between its opening and now is not known.
            .flat_map(|skills| stream::iter([Changed::Everything]).chain(skills.changes()))
            .boxed()
    }

    async fn read(&self, uri: &str) -> Result<Resource, RegistryError> {
        self.get().await?.read(uri).await
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

    async fn register_skill(&self, id: &str, body: String) -> Result<String, RegistryError> {
        self.get().await?.register_skill(id, body).await
    }

    async fn register_bundle(
        &self,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> Result<String, RegistryError> {
        self.get().await?.register_bundle(id, bundle).await
    }

    async fn remove_skill(&self, id: &str) -> Result<bool, RegistryError> {
        self.get().await?.remove_skill(id).await
    }

    async fn register_prompt(
        &self,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError> {
        self.get().await?.register_prompt(name, definition).await
    }

    async fn remove_prompt(&self, name: &str) -> Result<bool, RegistryError> {
        self.get().await?.remove_prompt(name).await
    }
}
