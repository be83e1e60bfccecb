//! A remote registry with a memory: the catalog is kept until the bus tells of a change.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::Value;
use skills_core::{Bundle, HandlerId, PromptDefinition};
use tokio::sync::Mutex;

use super::RemoteRegistry;
use crate::{
    Catalog, Changed, Changes, ExposedFunction, RegistryError, RenderedPrompt, Resource, Skills,
    feed::{Delivery, Feed},
};

/// What the news of a feed may take up: they are ids.
const FEED_BYTES: usize = 64 << 10;
const CHANGE_BYTES: usize = 128;

/// A registry at the other end of a bus, for a surface that stays.
///
/// Somebody has to tell it of changes, with [`hear`](Self::hear): it does not know how they travel.
#[derive(Debug)]
pub struct Mirror {
    remote: RemoteRegistry,
    /// Counts what was heard. A catalog is as new as the count before it was asked for.
    heard: AtomicU64,
    known: Mutex<Option<(u64, Arc<Catalog>)>>,
    news: Feed<Changed>,
}

impl Mirror {
    /// A mirror of a registry, with nothing in it yet.
    #[must_use]
    pub fn new(remote: RemoteRegistry) -> Self {
        Self {
            remote,
            heard: AtomicU64::new(0),
            known: Mutex::default(),
            news: Feed::new(FEED_BYTES),
        }
    }

    /// Takes in that something has changed there.
    pub fn hear(&self, changed: Changed) {
        if changed != Changed::Functions {
            self.heard.fetch_add(1, Ordering::SeqCst);
        }
        self.news.send(changed, CHANGE_BYTES);
    }
}

#[async_trait]
impl Skills for Mirror {
    async fn catalog(&self) -> Result<Arc<Catalog>, RegistryError> {
        // Held while asking: those who want the same meanwhile get the same answer.
        let mut known = self.known.lock().await;
        let heard = self.heard.load(Ordering::SeqCst);
        if let Some((at, catalog)) = &*known
            && *at == heard
        {
            return Ok(Arc::clone(catalog));
        }
        let catalog = self.remote.catalog().await?;
        *known = Some((heard, Arc::clone(&catalog)));
        Ok(catalog)
    }

    fn changes(&self) -> Changes {
        futures_util::stream::unfold(self.news.subscribe(), |mut news| async move {
            let changed = match news.next().await? {
                Delivery::Item(changed) => changed,
                Delivery::Missed(_) => Changed::Everything,
            };
            Some((changed, news))
        })
        .boxed()
    }

    async fn read(&self, uri: &str) -> Result<Resource, RegistryError> {
        self.remote.read(uri).await
    }

    async fn render_prompt(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        self.remote.render_prompt(name, arguments).await
    }

    async fn functions(&self) -> Result<Vec<ExposedFunction>, RegistryError> {
        self.remote.functions().await
    }

    async fn call_function(
        &self,
        function: &HandlerId,
        arguments: Value,
    ) -> Result<Value, RegistryError> {
        self.remote.call_function(function, arguments).await
    }

    async fn register_skill(&self, id: &str, body: String) -> Result<String, RegistryError> {
        self.remote.register_skill(id, body).await
    }

    async fn register_bundle(
        &self,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> Result<String, RegistryError> {
        self.remote.register_bundle(id, bundle).await
    }

    async fn remove_skill(&self, id: &str) -> Result<bool, RegistryError> {
        self.remote.remove_skill(id).await
    }

    async fn register_prompt(
        &self,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError> {
        self.remote.register_prompt(name, definition).await
    }

    async fn remove_prompt(&self, name: &str) -> Result<bool, RegistryError> {
        self.remote.remove_prompt(name).await
    }
}
