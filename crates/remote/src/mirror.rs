//! Mirror of a remote registry: caches its catalog until a change is notified.

use std::{collections::HashSet, sync::Arc, time::Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use skills_agent_skills::Bundle;
use skills_core::{
    Caller, Code, Coded, EntryKind, HandlerId, LogLimiter, PromptDefinition, SkillCollection, Tier,
    VersionSelector,
};
use skills_registry::{
    BundlePublication, Catalog, ChangeEvent, ChangeEvents, CollectRequest, Collected,
    CollectionInfo, DiffRequest, Explanation, ExposedFunction, HistoryPage, HistoryRequest,
    LabelRequest, LogPage, LogRequest, PublishRequest, Published, RegistryError, RejectedRows,
    RenderedPrompt, Resource, RollbackRequest, SkillInfo, SkillRegistry, SkillRow, VersionInfo,
    VersionState, YankRequest,
    diff::VersionDiff,
    feed::{Feed, FeedItem},
    live::LiveOperation,
    search::{SearchPage, SearchRequest},
};
use tokio::sync::Mutex as AsyncMutex;

use crate::{RemoteRegistry, listing, private_layer_snapshot::PrivateLayerSnapshot, rows};

/// Memory of the feed of change events, which carry ids only.
const FEED_BYTES: usize = 64 << 10;
const EVENT_BYTES: usize = 128;

/// Most stale skills that are requested one by one. More lead to a new listing.
const MAX_STALE_SKILLS: usize = 500;

/// A registry behind a bus with a cached catalog, for long-lived surfaces.
///
/// The owner of the bus connection calls [`notify`](Self::notify): the mirror does not know how changes travel.
#[derive(Debug)]
pub struct Mirror {
    remote: RemoteRegistry,
    /// Entries that have changed since the catalog was requested.
    stale: Mutex<StaleSet>,
    catalog: AsyncMutex<Arc<Catalog>>,
    /// Private layer at the last refresh.
    private: AsyncMutex<Option<PrivateLayerSnapshot>>,
    events: Feed<ChangeEvent>,
    /// Limits warnings of dropped rows, which the remote registry can cause with every change.
    log_limiter: LogLimiter,
}

/// Entries of the cached catalog that are out of date.
#[derive(Debug, Clone, Default)]
struct StaleSet {
    everything: bool,
    skills: HashSet<Arc<str>>,
    prompts: bool,
}

impl StaleSet {
    fn add(&mut self, event: &ChangeEvent) {
        match event {
            ChangeEvent::Skill(id) => drop(self.skills.insert(Arc::clone(id))),
            ChangeEvent::Prompt(_) => self.prompts = true,
            // The list of tools is computed from the skills.
            // The catalog has served versions only.
            ChangeEvent::SkillVersions(_)
            | ChangeEvent::SkillVersion { .. }
            | ChangeEvent::PromptVersions(_) => {}
            ChangeEvent::Collection(_) | ChangeEvent::Tools | ChangeEvent::Functions => {}
            ChangeEvent::Everything => self.everything = true,
        }
        if self.skills.len() > MAX_STALE_SKILLS {
            self.everything = true;
            self.skills.clear();
        }
    }

    fn contains(&self, event: &ChangeEvent) -> bool {
        self.everything
            || match event {
                ChangeEvent::Skill(id) => self.skills.contains(id),
                ChangeEvent::Prompt(_) => self.prompts,
                ChangeEvent::SkillVersions(_)
                | ChangeEvent::SkillVersion { .. }
                | ChangeEvent::PromptVersions(_)
                | ChangeEvent::Collection(_)
                | ChangeEvent::Tools
                | ChangeEvent::Functions
                | ChangeEvent::Everything => false,
            }
    }

    /// Returns whether the refresh of these entries changed the tools.
    fn tools_differ(&self, before: &Catalog, after: &Catalog) -> bool {
        if self.everything {
            return before.tools() != after.tools();
        }
        self.skills.iter().any(|id| before.tools_around(id) != after.tools_around(id))
    }

    fn merge(&mut self, other: Self) {
        self.everything |= other.everything;
        self.prompts |= other.prompts;
        self.skills.extend(other.skills);
    }

    fn is_empty(&self) -> bool {
        !self.everything && !self.prompts && self.skills.is_empty()
    }
}

impl Mirror {
    /// Calls a stored tool through the registry's `skills::execute`.
    ///
    /// # Errors
    /// When the registry has no such function, or the call fails.
    pub async fn call_tool(
        &self,
        id: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, RegistryError> {
        self.remote.call_tool(id, arguments).await
    }

    /// Creates a mirror that has not requested the catalog yet.
    #[must_use]
    pub fn new(remote: RemoteRegistry) -> Self {
        Self {
            remote,
            stale: Mutex::new(StaleSet { everything: true, ..StaleSet::default() }),
            catalog: AsyncMutex::default(),
            private: AsyncMutex::default(),
            events: Feed::new(FEED_BYTES),
            log_limiter: LogLimiter::default(),
        }
    }

    /// Marks the changed entries as stale and notifies subscribers.
    pub fn notify(&self, event: ChangeEvent) {
        let is_valid = match &event {
            ChangeEvent::Skill(id)
            | ChangeEvent::SkillVersions(id)
            | ChangeEvent::SkillVersion { id, .. }
            | ChangeEvent::Collection(id) => rows::is_skill_id(id),
            ChangeEvent::Prompt(name) | ChangeEvent::PromptVersions(name) => {
                rows::check_prompt_name(name).is_ok()
            }
            _ => true,
        };
        // No catalog has an entry with an invalid id.
        if !is_valid {
            return;
        }
        if event == ChangeEvent::Everything {
            self.remote.reset_capabilities();
        }
        self.stale.lock().add(&event);
        self.events.send(event, EVENT_BYTES);
    }

    /// Returns whether the mirror uses the key of a user.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.remote.key.is_some()
    }

    /// Drops the cached catalog once the registry refuses the key. One small call: cheaper than
    /// [`refresh_private`](Self::refresh_private), so it can be made more often.
    ///
    /// # Errors
    /// When the registry cannot be reached, or refuses the key.
    pub async fn check_key(&self) -> Result<(), RegistryError> {
        if !self.remote.has_tiers().await? {
            return Ok(());
        }
        self.invalidate_on_unknown_key(PrivateLayerSnapshot::check_key(&self.remote).await)
    }

    fn invalidate_on_unknown_key<T>(
        &self,
        result: Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        result.inspect_err(|error| {
            if error.code() == Code::UnknownKey {
                self.stale.lock().add(&ChangeEvent::Everything);
            }
        })
    }

    /// Polls the private layer of the key's user and notifies of changes.
    ///
    /// # Errors
    /// When the private layer cannot be listed.
    pub async fn refresh_private(&self) -> Result<(), RegistryError> {
        // A registry without tiers would list all entries.
        if !self.remote.has_tiers().await? {
            return Ok(());
        }
        let found = PrivateLayerSnapshot::fetch(&self.remote).await;
        let found = self.invalidate_on_unknown_key(found)?;
        let mut last = self.private.lock().await;
        let mut events = last.as_ref().map_or_else(Vec::new, |last| last.changes(&found));
        // An entry that came and went between two polls may be in a catalog that was requested in between.
        let catalog = Arc::clone(&*self.catalog.lock().await);
        let stale = self.stale.lock().clone();
        let is_new = |event: &ChangeEvent| !stale.contains(event) && !events.contains(event);
        let differences: Vec<ChangeEvent> =
            found.differences(&catalog).into_iter().filter(is_new).collect();
        events.extend(differences);
        *last = Some(found);
        events.into_iter().for_each(|event| self.notify(event));
        Ok(())
    }

    /// Requests the stale entries, or the whole catalog where the registry cannot list single skills.
    async fn fetch(&self, before: &Catalog, stale: &StaleSet) -> Result<Catalog, RegistryError> {
        if !stale.everything {
            let ids: Vec<Arc<str>> = stale.skills.iter().cloned().collect();
            let updated = listing::update(&self.remote, before, &ids, stale.prompts).await?;
            if let Some(catalog) = updated {
                return Ok(catalog);
            }
        }
        listing::catalog(&self.remote).await
    }
}

#[async_trait]
impl SkillRegistry for Mirror {
    fn view(self: Arc<Self>, caller: &Caller) -> Result<Arc<dyn SkillRegistry>, RegistryError> {
        crate::view(self, caller)
    }

    async fn all_skills(&self) -> Result<Vec<SkillInfo>, RegistryError> {
        self.remote.all_skills().await
    }

    async fn explain(&self, id: &str) -> Result<Explanation, RegistryError> {
        self.remote.explain(id).await
    }

    async fn catalog(&self) -> Result<Arc<Catalog>, RegistryError> {
        // Locked during the request: concurrent callers share its result.
        let mut catalog = self.catalog.lock().await;
        let stale = std::mem::take(&mut *self.stale.lock());
        if stale.is_empty() {
            return Ok(Arc::clone(&catalog));
        }
        let guard = RefreshGuard { mirror: self, stale: Some(stale.clone()) };
        let before = Arc::clone(&catalog);
        let rejected_before = self.remote.rejected_rows();
        *catalog = Arc::new(self.fetch(&before, &stale).await?);
        let rejected = self.remote.rejected_rows();
        if rejected != rejected_before
            && let Some(suppressed) = self.log_limiter.check(Instant::now())
        {
            rejected.log(suppressed);
        }
        guard.complete();
        if stale.tools_differ(&before, &catalog) {
            self.events.send(ChangeEvent::Tools, EVENT_BYTES);
        }
        Ok(Arc::clone(&catalog))
    }

    fn rejected_rows(&self) -> RejectedRows {
        self.remote.rejected_rows()
    }

    async fn search(&self, request: SearchRequest) -> Result<SearchPage, RegistryError> {
        match self.remote.search_remote(&request).await? {
            Some(page) => Ok(page),
            None => self.catalog().await?.search_rows(&request),
        }
    }

    fn changes(&self) -> ChangeEvents {
        futures_util::stream::unfold(self.events.subscribe(), |mut events| async move {
            let event = match events.next().await? {
                FeedItem::Item(event) => event,
                FeedItem::Missed(_) => ChangeEvent::Everything,
            };
            Some((event, events))
        })
        .boxed()
    }

    async fn hosts_live_clients(&self) -> bool {
        self.remote.hosts_live_clients().await
    }

    async fn has_live_clients(&self) -> bool {
        self.remote.has_live_clients().await
    }

    async fn call_live(
        &self,
        operation: LiveOperation,
        arguments: Map<String, Value>,
    ) -> Result<Value, RegistryError> {
        self.remote.call_live(operation, arguments).await
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

    async fn register_bundle(
        &self,
        tier: Tier,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> Result<String, RegistryError> {
        self.remote.register_bundle(tier, id, bundle).await
    }

    async fn remove_skill(&self, tier: Tier, id: &str) -> Result<bool, RegistryError> {
        self.remote.remove_skill(tier, id).await
    }

    async fn register_prompt(
        &self,
        tier: Tier,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError> {
        self.remote.register_prompt(tier, name, definition).await
    }

    async fn remove_prompt(&self, tier: Tier, name: &str) -> Result<bool, RegistryError> {
        self.remote.remove_prompt(tier, name).await
    }

    async fn publish_bundle(
        &self,
        tier: Tier,
        id: &str,
        bundle: Bundle<Bytes>,
        request: PublishRequest,
    ) -> Result<Published, RegistryError> {
        self.remote.publish_bundle(tier, id, bundle, request).await
    }

    async fn publish_bundles(
        &self,
        tier: Tier,
        publications: Vec<BundlePublication>,
    ) -> Result<Vec<Result<Published, RegistryError>>, RegistryError> {
        self.remote.publish_bundles(tier, publications).await
    }

    async fn publish_prompt(
        &self,
        tier: Tier,
        name: &str,
        definition: PromptDefinition,
        request: PublishRequest,
    ) -> Result<Published, RegistryError> {
        self.remote.publish_prompt(tier, name, definition, request).await
    }

    async fn collections(&self) -> Result<Vec<CollectionInfo>, RegistryError> {
        self.remote.collections().await
    }

    async fn collection(&self, name: &str) -> Result<CollectionInfo, RegistryError> {
        self.remote.collection(name).await
    }

    async fn put_collection(
        &self,
        tier: Tier,
        name: &str,
        collection: SkillCollection,
        request: PublishRequest,
    ) -> Result<Published, RegistryError> {
        self.remote.put_collection(tier, name, collection, request).await
    }

    async fn remove_collection(&self, tier: Tier, name: &str) -> Result<bool, RegistryError> {
        self.remote.remove_collection(tier, name).await
    }

    async fn history(
        &self,
        kind: EntryKind,
        request: &HistoryRequest,
    ) -> Result<HistoryPage, RegistryError> {
        self.remote.history(kind, request).await
    }

    async fn version(
        &self,
        kind: EntryKind,
        tier: Option<Tier>,
        id: &str,
        version: &VersionSelector,
    ) -> Result<VersionInfo, RegistryError> {
        self.remote.version(kind, tier, id, version).await
    }

    async fn skill_version(
        &self,
        tier: Option<Tier>,
        id: &str,
        version: &VersionSelector,
    ) -> Result<Arc<SkillRow>, RegistryError> {
        self.remote.skill_version(tier, id, version).await
    }

    async fn diff(
        &self,
        kind: EntryKind,
        request: &DiffRequest,
    ) -> Result<VersionDiff, RegistryError> {
        self.remote.diff(kind, request).await
    }

    async fn set_label(
        &self,
        kind: EntryKind,
        request: &LabelRequest,
    ) -> Result<VersionState, RegistryError> {
        self.remote.set_label(kind, request).await
    }

    async fn rollback(
        &self,
        kind: EntryKind,
        request: &RollbackRequest,
    ) -> Result<Published, RegistryError> {
        self.remote.rollback(kind, request).await
    }

    async fn yank(
        &self,
        kind: EntryKind,
        request: &YankRequest,
    ) -> Result<VersionState, RegistryError> {
        self.remote.yank(kind, request).await
    }

    async fn log(&self, request: &LogRequest) -> Result<LogPage, RegistryError> {
        self.remote.log(request).await
    }

    async fn collect(&self, request: &CollectRequest) -> Result<Collected, RegistryError> {
        self.remote.collect(request).await
    }
}

/// Puts stale entries back on drop unless the refresh completed, also when its future is dropped.
struct RefreshGuard<'a> {
    mirror: &'a Mirror,
    stale: Option<StaleSet>,
}

impl RefreshGuard<'_> {
    fn complete(mut self) {
        self.stale = None;
    }
}

impl Drop for RefreshGuard<'_> {
    fn drop(&mut self) {
        if let Some(stale) = self.stale.take() {
            self.mirror.stale.lock().merge(stale);
        }
    }
}
