//! The registry itself: what surfaces in this process call.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    thread::JoinHandle,
    time::Duration,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use serde_json::Value;
use skills_bus::{Bus, Json};
use skills_core::{
    Bundle, Content, EntryKey, HandlerId, Kind, Layer, PromptDefinition, PromptMessages,
    PromptName, ResourceUri, SkillId, Timestamp,
    bundle::media_type,
    output,
    uri::{percent_decoded, section},
};
use skills_store::{Batch, Effect, EntryContent, Mutation, Store};

use crate::{
    BusState, Catalog, ChangeFeed, RegistryError, RenderedPrompt, Resource,
    blobs::Blobs,
    feed::Feed,
    writer::{Foreign, Published, WriteError, Writer},
};

/// How much of the newest changes a feed keeps in memory for its slowest subscriber.
const CHANGE_FEED_BYTES: usize = 4 << 20;
/// The same for changes of the bus state, which carry their values.
const STATE_FEED_BYTES: usize = 16 << 20;

/// What can be set about a registry.
#[derive(Debug, Clone)]
pub struct RegistryConfig {
    /// How long the function behind a section or a prompt may take.
    pub handler_timeout: Duration,
    /// How many bytes of bodies are kept in memory.
    pub blob_cache_bytes: usize,
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self { handler_timeout: Duration::from_secs(10), blob_cache_bytes: 32 << 20 }
    }
}

/// The only door to skills and prompts.
pub struct Registry {
    store: Arc<dyn Store>,
    /// Weak, because the bus holds functions that hold the registry.
    bus: Option<Weak<dyn Bus>>,
    published: Arc<Published>,
    writer: Mutex<Option<Arc<Writer>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    blobs: Blobs,
    config: RegistryConfig,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Registry {
    /// Reads the catalog from a store and starts the writer. Without a bus, sections and prompts
    /// cannot be rendered.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn open(
        store: Arc<dyn Store>,
        bus: Option<Weak<dyn Bus>>,
        config: RegistryConfig,
    ) -> Result<Arc<Self>, RegistryError> {
        let published = Arc::new(Published {
            catalog: ArcSwap::from_pointee(Catalog::of_entries(
                store.entries()?,
                store.revision()?,
            )),
            changes: Feed::new(CHANGE_FEED_BYTES),
            state: Feed::new(STATE_FEED_BYTES),
        });
        let (writer, thread) = Writer::start(Arc::clone(&store), Arc::clone(&published))
            .map_err(|_| RegistryError::Closed)?;
        Ok(Arc::new(Self {
            blobs: Blobs::new(Arc::clone(&store), config.blob_cache_bytes),
            writer: Mutex::new(Some(Arc::new(writer))),
            thread: Mutex::new(Some(thread)),
            store,
            bus,
            published,
            config,
        }))
    }

    /// The present snapshot. It costs no lock and stays valid for as long as it is held.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.published.catalog.load_full()
    }

    /// Every change from now on, without gaps.
    #[must_use]
    pub fn changes(&self) -> ChangeFeed {
        // Subscribe first: a change between the two steps is then seen twice, and skipped once.
        let live = self.published.changes.subscribe();
        ChangeFeed::new(live, Arc::clone(&self.store), self.catalog().revision())
    }

    /// The bus's key-value store.
    #[must_use]
    pub fn state(self: &Arc<Self>) -> BusState {
        BusState::new(Arc::clone(self))
    }

    /// Registers a skill of one Markdown document.
    ///
    /// The write is queued when this is called, not when its result is awaited, so that writes keep the
    /// order of the calls.
    pub fn register_skill(
        &self,
        actor: &str,
        id: &str,
        body: String,
    ) -> impl Future<Output = Result<Timestamp, RegistryError>> + Send + use<> {
        let write = Self::check_skill(id, body).map(|put| self.put(actor, put));
        async move { write?.await }
    }

    /// Registers a skill of several files, which are stored together or not at all. Queued when called.
    pub fn register_bundle(
        &self,
        actor: &str,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> impl Future<Output = Result<Timestamp, RegistryError>> + Send + use<> {
        let id = id.parse::<SkillId>();
        let write = id.map(|id| self.put(actor, Self::put_bundle(&id, bundle)));
        async move { write?.await }
    }

    fn check_skill(id: &str, body: String) -> Result<Mutation, RegistryError> {
        let id: SkillId = id.parse()?;
        Ok(Self::put_bundle(&id, Bundle::new(body, vec![])?))
    }

    fn put_bundle(id: &SkillId, bundle: Bundle<Bytes>) -> Mutation {
        let (meta, root, files) = bundle.into_parts();
        let bytes =
            std::iter::once(Bytes::from(root)).chain(files.into_iter().map(|(_, bytes)| bytes));
        let blobs = meta.files.iter().map(|file| file.digest).zip(bytes).collect();
        let content = EntryContent::Skill(meta);
        Mutation::Put { layer: Layer::Official, id: id.to_shared(), content, blobs }
    }

    /// Registers a prompt. Queued when called, as [`Self::register_skill`] is.
    pub fn register_prompt(
        &self,
        actor: &str,
        name: &str,
        definition: PromptDefinition,
    ) -> impl Future<Output = Result<Timestamp, RegistryError>> + Send + use<> {
        let check = || -> Result<Mutation, RegistryError> {
            let name: PromptName = name.parse()?;
            let content = EntryContent::Prompt(definition.checked()?);
            let id = name.to_shared();
            Ok(Mutation::Put { layer: Layer::Official, id, content, blobs: vec![] })
        };
        let write = check().map(|put| self.put(actor, put));
        async move { write?.await }
    }

    fn put(
        &self,
        actor: &str,
        put: Mutation,
    ) -> impl Future<Output = Result<Timestamp, RegistryError>> + Send + use<> {
        let write = self.write(actor, put);
        async move {
            match write.await? {
                Effect::Changed(change) => Ok(change.at),
                Effect::Nothing | Effect::State(_) => Err(RegistryError::Unexpected("a put")),
            }
        }
    }

    /// Removes a skill and tells whether there was one. Queued when called.
    pub fn remove_skill(
        &self,
        actor: &str,
        id: &str,
    ) -> impl Future<Output = Result<bool, RegistryError>> + Send + use<> {
        let id = id.parse::<SkillId>().map(|id| id.to_shared());
        let write = id.map(|id| self.remove(actor, Kind::Skill, id));
        async move { write?.await }
    }

    /// Removes a prompt and tells whether there was one. Queued when called.
    pub fn remove_prompt(
        &self,
        actor: &str,
        name: &str,
    ) -> impl Future<Output = Result<bool, RegistryError>> + Send + use<> {
        let name = name.parse::<PromptName>().map(|name| name.to_shared());
        let write = name.map(|name| self.remove(actor, Kind::Prompt, name));
        async move { write?.await }
    }

    fn remove(
        &self,
        actor: &str,
        kind: Kind,
        id: Arc<str>,
    ) -> impl Future<Output = Result<bool, RegistryError>> + Send + use<> {
        let key = EntryKey { kind, layer: Layer::Official, id };
        let write = self.write(actor, Mutation::Remove(key));
        async move { Ok(matches!(write.await?, Effect::Changed(_))) }
    }

    fn write(
        &self,
        actor: &str,
        mutation: Mutation,
    ) -> impl Future<Output = Result<Effect, RegistryError>> + Send + use<> {
        let write = self.submit(Batch { actor: actor.into(), mutations: vec![mutation] });
        async move {
            match write.await {
                Ok(mut effects) => effects.pop().ok_or(RegistryError::Unexpected("a batch")),
                Err(WriteError::Registry(error)) => Err(error),
                Err(WriteError::Batch(error)) => Err(error.into()),
            }
        }
    }

    pub(crate) fn submit(
        &self,
        batch: Batch,
    ) -> impl Future<Output = Result<Vec<Effect>, WriteError>> + Send + use<> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let submitted = writer.as_ref().map(|writer| writer.submit(batch));
        async move {
            match submitted {
                Some(submitted) => submitted.await,
                None => Err(RegistryError::Closed.into()),
            }
        }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn published(&self) -> &Published {
        &self.published
    }

    /// Reads what a URI names.
    ///
    /// # Errors
    /// When the URI is not one of the three shapes, names nothing, or its function gives no result.
    pub async fn read(&self, uri: &str) -> Result<Resource, RegistryError> {
        let parsed: ResourceUri = uri.parse()?;
        let (mime_type, body) = match parsed {
            ResourceUri::Index => {
                (output::MARKDOWN, Bytes::from_owner(IndexText(self.catalog().index())))
            }
            ResourceUri::Skill(id) => (output::MARKDOWN, self.body(&id).await?),
            ResourceUri::Inside { skill, path } => match self.document(&skill, &path).await? {
                Some(document) => document,
                None => self.section(&path).await?,
            },
        };
        Ok(Resource { uri: uri.to_owned(), mime_type: mime_type.to_owned(), body })
    }

    async fn section(&self, path: &str) -> Result<(&'static str, Bytes), RegistryError> {
        let function = section(path)?;
        let output = self.call(function.as_str(), &Value::Object(serde_json::Map::new())).await?;
        let content = Content::from_output(output);
        Ok((content.mime_type, content.text.into()))
    }

    /// A file of a skill's bundle, if there is one at that path. In a URI it may be percent-encoded.
    async fn document(
        &self,
        id: &SkillId,
        path: &str,
    ) -> Result<Option<(&'static str, Bytes)>, RegistryError> {
        let found = {
            let catalog = self.published.catalog.load();
            let Some(row) = catalog.skill(id.as_str()) else { return Ok(None) };
            let at = |path: &str| row.meta.file(path).map(|file| (media_type(path), file.digest));
            at(path).or_else(|| at(&percent_decoded(path)?))
        };
        let Some((mime_type, digest)) = found else { return Ok(None) };
        let bytes = self.blobs.get(digest).await?;
        let bytes = bytes.ok_or_else(|| RegistryError::MissingBody(format!("{id}/{path}")))?;
        Ok(Some((mime_type, bytes)))
    }

    async fn body(&self, id: &SkillId) -> Result<Bytes, RegistryError> {
        let key = EntryKey { kind: Kind::Skill, layer: Layer::Official, id: id.to_shared() };
        if self.catalog().skill(id.as_str()).is_none() {
            self.look_for(&key).await?;
        }
        if let Some(body) = self.known_body(id).await? {
            return Ok(body);
        }
        // Somebody may have replaced it a moment ago, in a store that others write to.
        self.look_again(&key).await?;
        self.known_body(id).await?.ok_or_else(|| RegistryError::MissingBody(id.to_string()))
    }

    async fn known_body(&self, id: &SkillId) -> Result<Option<Bytes>, RegistryError> {
        let not_found = || RegistryError::NotFound { kind: Kind::Skill, id: id.to_string() };
        let root = {
            let catalog = self.published.catalog.load();
            let row = catalog.skill(id.as_str()).ok_or_else(not_found)?;
            row.meta.root().map(|root| root.digest)
        };
        match root {
            Some(root) => self.blobs.get(root).await,
            None => Ok(None),
        }
    }

    /// Looks for an entry that the catalog does not have, if the store may have more than it told.
    async fn look_for(&self, key: &EntryKey) -> Result<(), RegistryError> {
        if self.store.is_complete() { Ok(()) } else { self.look_again(key).await }
    }

    async fn look_again(&self, key: &EntryKey) -> Result<(), RegistryError> {
        let (store, key) = (Arc::clone(&self.store), key.clone());
        self.foreign(Box::new(move |now| store.lookup(&key, now).into())).await.map(drop)
    }

    /// Runs a look at what others have done to the store on the writer's thread, where it cannot cross
    /// a write of ours, and publishes what it finds. Queued when called. Returns how many changes there
    /// were.
    pub(crate) fn foreign(
        &self,
        look: Box<dyn FnOnce(Timestamp) -> Foreign + Send>,
    ) -> impl Future<Output = Result<usize, RegistryError>> + Send + use<> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let queued = writer.as_ref().map(|writer| writer.look(look));
        async move {
            match queued {
                Some(queued) => queued.await,
                None => Err(RegistryError::Closed),
            }
        }
    }

    /// Renders a prompt with the caller's arguments; `null` stands for none.
    ///
    /// # Errors
    /// When there is no such prompt, or its handler gives no result that is a prompt.
    pub async fn render_prompt(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        let name: PromptName = name.parse()?;
        if self.catalog().prompt(name.as_str()).is_none() {
            let key = EntryKey { kind: Kind::Prompt, layer: Layer::Official, id: name.to_shared() };
            self.look_for(&key).await?;
        }
        let catalog = self.catalog();
        let row = catalog
            .prompt(name.as_str())
            .ok_or_else(|| RegistryError::NotFound { kind: Kind::Prompt, id: name.to_string() })?;
        let arguments = match arguments {
            Value::Null => Value::Object(serde_json::Map::new()),
            given => given,
        };
        // Checked again: the entry may have been stored under other rules.
        let function: HandlerId = row.definition.function_id.parse()?;
        let output = self.call(function.as_str(), &arguments).await?;
        let rendered = PromptMessages::from_output(output).map_err(|source| {
            RegistryError::Output { function_id: function.to_string(), source }
        })?;
        let description =
            rendered.description.unwrap_or_else(|| row.definition.description.clone());
        Ok(RenderedPrompt { description: Some(description), messages: rendered.messages })
    }

    /// The bus, if there is one and it is still there.
    pub(crate) fn bus(&self) -> Option<Arc<dyn Bus>> {
        self.bus.as_ref()?.upgrade()
    }

    pub(crate) async fn call(&self, id: &str, data: &Value) -> Result<Value, RegistryError> {
        let failed = |error| RegistryError::from_call(id, error);
        let bus = self.bus().ok_or_else(|| match &self.bus {
            Some(_) => RegistryError::Closed,
            None => RegistryError::NoBus { function_id: id.to_owned() },
        })?;
        let output =
            bus.call(id, Json::from(data), self.config.handler_timeout).await.map_err(failed)?;
        output.parse().map_err(|error| {
            failed(skills_bus::CallError::remote("invalid_result", error.to_string()))
        })
    }

    /// Stops taking writes, waits for those that are queued, and ends the writer.
    pub fn close(&self) {
        drop(self.writer.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the writer thread ended with a panic");
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.close();
    }
}

/// Lets the index be handed on as bytes without a copy.
struct IndexText(Arc<str>);

impl AsRef<[u8]> for IndexText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
