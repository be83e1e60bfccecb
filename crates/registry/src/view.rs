//! The registry of this process as surfaces see it: as an anonymous caller, or as a [`RegistryView`] of one caller.

use std::{borrow::Cow, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Map, Value, json};
use skills_agent_skills::Bundle;
use skills_core::{
    Caller, EntryKind, HandlerId, Layer, PromptDefinition, SkillCollection, Tier, VersionSelector,
};

use crate::{
    BundlePublication, Catalog, Change, ChangeEvents, CollectRequest, Collected, ConnectedWorker,
    DiffRequest, Document, Explanation, ExposedFunction, HistoryPage, HistoryRequest, LabelRequest,
    LogPage, LogRequest, OwnedChangeEvent, OwnedChangeEvents, PromptInfo, PromptRow,
    PublishRequest, Published, Registry, RegistryError, RenderedPrompt, Resource, RollbackRequest,
    SkillInfo, SkillLogPage, SkillLogRequest, SkillRegistry, SkillRow, VersionInfo, VersionState,
    YankRequest,
    change_events::{EventSources, is_visible},
    diff::VersionDiff,
    functions,
    live::LiveOperation,
    search::{SearchPage, SearchRequest},
    workers,
};

/// Actor in the change log for writes through the trait without a credential.
const ACTOR: &str = "local";

impl From<&SkillRow> for SkillInfo {
    fn from(row: &SkillRow) -> Self {
        Self {
            id: row.id.to_string(),
            tier: row.stored_tier(),
            title: row.title().to_owned(),
            description: row.description().map(Cow::into_owned),
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

/// The registry as one caller sees it.
#[derive(Debug, Clone)]
pub struct RegistryView {
    registry: Arc<Registry>,
    caller: Caller,
}

impl Registry {
    /// Returns the registry as a caller sees it.
    #[must_use]
    pub fn view_for(self: &Arc<Self>, caller: &Caller) -> RegistryView {
        RegistryView { registry: Arc::clone(self), caller: caller.clone() }
    }

    /// Subscribes to the change events of the layers that `sees` accepts.
    fn subscribe(&self, sees: impl Fn(&Layer) -> bool + Send + 'static) -> OwnedChangeEvents {
        let publisher = self.publisher();
        let sources = EventSources {
            changes: publisher.changes.subscribe(),
            live: publisher.live.subscribe(),
            functions: self.bus().map(|bus| bus.functions_changed()),
            tools_refreshes: publisher.tools_refresh.subscribe(),
        };
        // Weak, because a stream that nobody polls must not keep the store of a closed registry open: another process
        // may wait for it.
        let publisher = Arc::downgrade(publisher);
        let affects_tools = move |change: &Change| {
            let publisher = publisher.upgrade();
            publisher.is_some_and(|it| it.catalog.load().change_affects_tools(change))
        };
        sources.into_events(sees, affects_tools, self.config().prefix.clone())
    }

    fn change_events(&self, caller: &Caller) -> ChangeEvents {
        let owner = caller.owner().cloned();
        let events = self.subscribe(move |layer| is_visible(layer, owner.as_ref()));
        let events = events.map(|owned| owned.event);
        match (self.config().keys.clone(), caller) {
            // The end of the key ends the stream even if nothing changes. The check before each event holds back
            // events between the end of the key and its notice.
            (Some(keys), Caller::User(_)) => {
                let (caller, ended) = (caller.clone(), keys.wait_until_ended(caller));
                let events =
                    events.take_while(move |_| std::future::ready(keys.is_active(&caller)));
                events.take_until(ended).boxed()
            }
            _ => events.boxed(),
        }
    }

    /// Subscribes to the events of all callers, or of the one that a view is of.
    fn change_events_by_owner(&self, caller: &Caller) -> OwnedChangeEvents {
        match caller {
            Caller::Anonymous => self.subscribe(|_| true),
            Caller::User(_) | Caller::Admin(_) => {
                self.change_events(caller).map(OwnedChangeEvent::from).boxed()
            }
        }
    }

    /// Returns a caller that may use the registry now: its key is active, and the catalog is not older than `max_stale`
    /// allows. Every request that reads entries or acts on them passes here, whatever its surface. Requests that name no
    /// entry do not: the list of the functions of the bus, and the stream of change events, which ends with the key.
    ///
    /// # Errors
    /// When the key has ended, or the store has been unreachable for too long.
    pub fn check_access<'a>(&self, caller: &'a Caller) -> Result<&'a Caller, RegistryError> {
        self.publisher().store_contact.check_age()?;
        match (&self.config().keys, caller) {
            (Some(keys), Caller::User(_)) if !keys.is_active(caller) => {
                Err(RegistryError::UnknownKey)
            }
            _ => Ok(caller),
        }
    }

    async fn connected_workers(&self) -> Result<Vec<ConnectedWorker>, RegistryError> {
        match self.bus() {
            Some(_) => workers::parse(self.call(workers::LIST, &json!({})).await?),
            None => Ok(vec![]),
        }
    }

    async fn exposed_functions(&self) -> Result<Vec<ExposedFunction>, RegistryError> {
        match self.bus() {
            Some(_) => functions::parse_exposed(self.call(functions::LIST, &json!({})).await?),
            // Without a bus there are no workers.
            None => Ok(vec![]),
        }
    }
}

/// Returns the layer that a tier means for a caller, and the actor for the change log.
fn write_target(caller: &Caller, tier: Tier) -> Result<(Layer, String), RegistryError> {
    let layer = caller.layer(tier).ok_or(RegistryError::KeyNeeded)?;
    Ok((layer, actor(caller)))
}

/// Returns the name of a caller in the change log.
fn actor(caller: &Caller) -> String {
    caller.actor().unwrap_or_else(|| ACTOR.to_owned())
}

/// Implements the trait for the registry, whose caller is anonymous, and for a view of it.
macro_rules! impl_skill_registry {
    ($type:ty, |$self:ident| $registry:expr, $caller:expr, $arc:expr) => {
        #[async_trait]
        impl SkillRegistry for $type {
            fn view($self: Arc<Self>, caller: &Caller) -> Result<Arc<dyn SkillRegistry>, RegistryError> {
                Ok(Arc::new($arc.view_for(caller)))
            }

            async fn catalog(&$self) -> Result<Arc<Catalog>, RegistryError> {
                Ok($registry.catalog_for($registry.check_access($caller)?))
            }

            fn changes(&$self) -> ChangeEvents {
                $registry.change_events($caller)
            }

            fn changes_by_owner(&$self) -> OwnedChangeEvents {
                $registry.change_events_by_owner($caller)
            }

            async fn explain(&$self, id: &str) -> Result<Explanation, RegistryError> {
                Ok($registry.explain($registry.check_access($caller)?, id))
            }

            async fn workers(&$self) -> Result<Vec<ConnectedWorker>, RegistryError> {
                $registry.check_access($caller)?;
                $registry.connected_workers().await
            }

            async fn functions(&$self) -> Result<Vec<ExposedFunction>, RegistryError> {
                $registry.exposed_functions().await
            }

            async fn call_function(
                &$self,
                function: &HandlerId,
                arguments: Value,
            ) -> Result<Value, RegistryError> {
                $registry.check_access($caller)?;
                $registry.call(function.as_str(), &functions::without_bus_fields(arguments)).await
            }

            async fn hosts_live_clients(&$self) -> bool {
                $registry.has_live_host()
            }

            async fn has_live_clients(&$self) -> bool {
                $registry.has_live_clients()
            }

            async fn call_live(
                &$self,
                operation: LiveOperation,
                arguments: Map<String, Value>,
            ) -> Result<Value, RegistryError> {
                $registry.call_live_as($registry.check_access($caller)?, operation, arguments).await
            }

            async fn search(&$self, request: SearchRequest) -> Result<SearchPage, RegistryError> {
                $registry.search_as($registry.check_access($caller)?, request).await
            }

            async fn read(&$self, uri: &str) -> Result<Resource, RegistryError> {
                $registry.read_linked($registry.check_access($caller)?, uri).await
            }

            async fn document(&$self, row: &SkillRow, path: &str) -> Result<Document, RegistryError> {
                $registry.document_as($registry.check_access($caller)?, row, path).await
            }

            async fn scanned_document(
                &$self,
                row: &SkillRow,
                path: &str,
                may_block: bool,
            ) -> Result<Bytes, RegistryError> {
                let caller = $registry.check_access($caller)?;
                $registry.scanned_document_as(caller, row, path, may_block).await
            }

            async fn render_prompt(
                &$self,
                name: &str,
                arguments: Value,
            ) -> Result<RenderedPrompt, RegistryError> {
                $registry.render_prompt_as($registry.check_access($caller)?, name, arguments).await
            }

            async fn register_bundle(
                &$self,
                tier: Tier,
                id: &str,
                bundle: Bundle<Bytes>,
            ) -> Result<String, RegistryError> {
                let (layer, actor) = write_target($registry.check_access($caller)?, tier)?;
                let write = $registry.register_bundle(&actor, &layer, id, bundle);
                write.await.map(|at| at.to_string())
            }

            async fn remove_skill(&$self, tier: Tier, id: &str) -> Result<bool, RegistryError> {
                let (layer, actor) = write_target($registry.check_access($caller)?, tier)?;
                $registry.remove_skill(&actor, &layer, id).await
            }

            async fn register_prompt(
                &$self,
                tier: Tier,
                name: &str,
                definition: PromptDefinition,
            ) -> Result<String, RegistryError> {
                let (layer, actor) = write_target($registry.check_access($caller)?, tier)?;
                let write = $registry.register_prompt(&actor, &layer, name, definition);
                write.await.map(|at| at.to_string())
            }

            async fn remove_prompt(&$self, tier: Tier, name: &str) -> Result<bool, RegistryError> {
                let (layer, actor) = write_target($registry.check_access($caller)?, tier)?;
                $registry.remove_prompt(&actor, &layer, name).await
            }

            async fn publish_bundle(
                &$self,
                tier: Tier,
                id: &str,
                bundle: Bundle<Bytes>,
                request: PublishRequest,
            ) -> Result<Published, RegistryError> {
                let (layer, actor) = write_target($registry.check_access($caller)?, tier)?;
                $registry.publish_bundle(&actor, &layer, id, bundle, request).await
            }

            async fn publish_bundles(
                &$self,
                tier: Tier,
                publications: Vec<BundlePublication>,
            ) -> Result<Vec<Result<Published, RegistryError>>, RegistryError> {
                let (layer, actor) = write_target($registry.check_access($caller)?, tier)?;
                $registry.publish_bundles(&actor, &layer, publications).await
            }

            async fn publish_prompt(
                &$self,
                tier: Tier,
                name: &str,
                definition: PromptDefinition,
                request: PublishRequest,
            ) -> Result<Published, RegistryError> {
                let (layer, actor) = write_target($registry.check_access($caller)?, tier)?;
                $registry.publish_prompt(&actor, &layer, name, definition, request).await
            }

            async fn put_collection(
                &$self,
                tier: Tier,
                name: &str,
                collection: SkillCollection,
                request: PublishRequest,
            ) -> Result<Published, RegistryError> {
                let (layer, actor) = write_target($registry.check_access($caller)?, tier)?;
                $registry.put_collection(&actor, &layer, name, collection, request).await
            }

            async fn remove_collection(&$self, tier: Tier, name: &str) -> Result<bool, RegistryError> {
                let (layer, actor) = write_target($registry.check_access($caller)?, tier)?;
                $registry.remove_collection(&actor, &layer, name).await
            }

            async fn history(
                &$self,
                kind: EntryKind,
                request: &HistoryRequest,
            ) -> Result<HistoryPage, RegistryError> {
                let caller = $registry.check_access($caller)?;
                let key = $registry.entry_key(caller, kind, request.tier, &request.id).await?;
                $registry.history(&key, request).await
            }

            async fn version(
                &$self,
                kind: EntryKind,
                tier: Option<Tier>,
                id: &str,
                version: &VersionSelector,
            ) -> Result<VersionInfo, RegistryError> {
                let caller = $registry.check_access($caller)?;
                let key = $registry.entry_key(caller, kind, tier, id).await?;
                $registry.version_info(&key, version).await
            }

            async fn skill_version(
                &$self,
                tier: Option<Tier>,
                id: &str,
                version: &VersionSelector,
            ) -> Result<Arc<SkillRow>, RegistryError> {
                let caller = $registry.check_access($caller)?;
                $registry.skill_version_as(caller, tier, id, version).await
            }

            async fn diff(
                &$self,
                kind: EntryKind,
                request: &DiffRequest,
            ) -> Result<VersionDiff, RegistryError> {
                let caller = $registry.check_access($caller)?;
                let key = $registry.entry_key(caller, kind, request.tier, &request.id).await?;
                $registry.diff(&key, &request.from, &request.to).await
            }

            async fn set_label(
                &$self,
                kind: EntryKind,
                request: &LabelRequest,
            ) -> Result<VersionState, RegistryError> {
                let caller = $registry.check_access($caller)?;
                let key = $registry.entry_key(caller, kind, request.tier, &request.id).await?;
                $registry.set_label(&actor(caller), &key, request).await
            }

            async fn rollback(
                &$self,
                kind: EntryKind,
                request: &RollbackRequest,
            ) -> Result<Published, RegistryError> {
                let caller = $registry.check_access($caller)?;
                let key = $registry.entry_key(caller, kind, request.tier, &request.id).await?;
                $registry.rollback(&actor(caller), &key, request).await
            }

            async fn yank(
                &$self,
                kind: EntryKind,
                request: &YankRequest,
            ) -> Result<VersionState, RegistryError> {
                let caller = $registry.check_access($caller)?;
                let key = $registry.entry_key(caller, kind, request.tier, &request.id).await?;
                $registry.yank(&actor(caller), &key, request).await
            }

            async fn log(&$self, request: &LogRequest) -> Result<LogPage, RegistryError> {
                $registry.log_as($registry.check_access($caller)?, request).await
            }

            async fn skill_log(
                &$self,
                request: &SkillLogRequest,
            ) -> Result<SkillLogPage, RegistryError> {
                $registry.skill_log_as($registry.check_access($caller)?, request).await
            }

            async fn collect(&$self, request: &CollectRequest) -> Result<Collected, RegistryError> {
                $registry.collect(&actor($registry.check_access($caller)?), request).await
            }
        }
    };
}

impl_skill_registry!(Registry, |self| self, &Caller::Anonymous, self);
impl_skill_registry!(RegistryView, |self| self.registry, &self.caller, self.registry);
