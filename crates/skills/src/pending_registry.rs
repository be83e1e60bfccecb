//! Proxy for a registry that is still opening, so that a surface can answer its client's handshake meanwhile. The registry
//! may be replaced later, when another process takes over its store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use serde_json::{Map, Value};
use skills_agent_skills::Bundle;
use skills_core::{
    Caller, Coded as _, EntryKind, HandlerId, PromptDefinition, SkillCollection, Tier,
    VersionSelector,
};
use skills_registry::{
    BundlePublication, Catalog, ChangeEvent, ChangeEvents, CollectRequest, Collected,
    CollectionInfo, ConnectedWorker, DiffRequest, Document, Explanation, ExposedFunction,
    HistoryPage, HistoryRequest, LabelRequest, LogPage, LogRequest, OwnedChangeEvents,
    PublishRequest, Published, RegistryError, RejectedRows, RenderedPrompt, Resource,
    RollbackRequest, SkillInfo, SkillLogPage, SkillLogRequest, SkillRegistry, SkillRow,
    VersionInfo, VersionState, YankRequest,
    diff::VersionDiff,
    live::LiveOperation,
    search::{SearchPage, SearchRequest},
};
use skills_remote::is_unreachable;
use tokio::{sync::watch, time::timeout};

/// Longest wait of a failed read for another registry.
const REPLACE_TIMEOUT: Duration = Duration::from_secs(5);

type Opened = watch::Receiver<RegistryState>;

/// State of a registry that requests wait for.
enum RegistryState {
    /// It is being opened, and requests wait.
    Opening,
    /// It cannot be opened at the moment, and requests fail with this error.
    Unavailable(RegistryError),
    Open(Arc<dyn SkillRegistry>),
}

impl RegistryState {
    const fn registry(&self) -> Option<&Arc<dyn SkillRegistry>> {
        match self {
            Self::Open(skills) => Some(skills),
            Self::Opening | Self::Unavailable(_) => None,
        }
    }
}

/// Opener's side of a [`PendingRegistry`].
pub(crate) struct RegistryOpener(watch::Sender<RegistryState>);

impl RegistryOpener {
    /// Hands over the registry.
    pub(crate) fn open(&self, skills: Arc<dyn SkillRegistry>) {
        self.0.send_replace(RegistryState::Open(skills));
    }

    /// Makes requests wait for the next registry.
    pub(crate) fn clear(&self) {
        self.0.send_replace(RegistryState::Opening);
    }

    /// Makes requests fail until there is a registry.
    pub(crate) fn fail(&self, error: RegistryError) {
        self.0.send_replace(RegistryState::Unavailable(error));
    }
}

/// Registry proxy whose requests wait until the registry is open. Shows one caller's view.
pub(crate) struct PendingRegistry {
    opened: Opened,
    caller: Caller,
    /// Set if another registry may replace the opened one. A read that loses its registry is repeated on the next one.
    is_replaceable: Arc<AtomicBool>,
}

impl PendingRegistry {
    /// Creates the proxy and the opener's side of it.
    pub(crate) fn new() -> (Self, RegistryOpener) {
        let (sender, opened) = watch::channel(RegistryState::Opening);
        let pending = Self { opened, caller: Caller::Anonymous, is_replaceable: Arc::default() };
        (pending, RegistryOpener(sender))
    }

    /// Returns the flag that the opener sets if another registry may replace the opened one.
    pub(crate) fn replaceable_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_replaceable)
    }

    async fn get(&self) -> Result<Arc<dyn SkillRegistry>, RegistryError> {
        view_for(wait(self.opened.clone()).await?, &self.caller)
    }

    /// Follows the changes of the opened registry, and of those that replace it.
    fn follow<E: From<ChangeEvent> + Send + 'static>(
        &self,
        changes: fn(&dyn SkillRegistry) -> BoxStream<'static, E>,
    ) -> BoxStream<'static, E> {
        let caller = self.caller.clone();
        // A view that cannot be created has no changes.
        let changes = move |skills: &Arc<dyn SkillRegistry>| match view_for(skills.clone(), &caller)
        {
            Ok(skills) => changes(&*skills),
            Err(_) => stream::empty().boxed(),
        };
        let mut opened = self.opened.clone();
        // Subscribes now; the stream below would subscribe only when it is first polled.
        let current = opened.borrow_and_update().registry().map(&changes);
        let state = (opened, current, changes);
        stream::unfold(state, |(mut opened, mut current, changes)| async move {
            loop {
                let event = async {
                    match &mut current {
                        Some(events) => events.next().await,
                        None => None,
                    }
                };
                tokio::select! {
                    // A stream that has ended waits for the next registry.
                    Some(event) = event => return Some((event, (opened, current, changes))),
                    changed = opened.changed() => changed.ok()?,
                }
                current = opened.borrow_and_update().registry().map(&changes);
                if current.is_some() {
                    // Changes between the opening and the subscription are unknown.
                    return Some((ChangeEvent::Everything.into(), (opened, current, changes)));
                }
            }
        })
        .boxed()
    }
}

/// Waits for the replacement of a registry after an error. Returns whether a read can be repeated.
async fn is_replaced(opened: &mut Opened, error: &RegistryError) -> bool {
    is_unreachable(error.code())
        && timeout(REPLACE_TIMEOUT, opened.changed()).await.is_ok_and(|changed| changed.is_ok())
}

/// Evaluates a read on the current registry, and again if another one replaces that meanwhile.
macro_rules! read {
    ($pending:expr, $skills:ident => $read:expr) => {{
        let pending = $pending;
        loop {
            let mut opened = pending.opened.clone();
            opened.mark_unchanged();
            // Dropped before the wait: the next process gets the store once nothing refers to the registry.
            let read = {
                let $skills = pending.get().await?;
                $read.await
            };
            match read {
                Err(error)
                    if pending.is_replaceable.load(Ordering::Relaxed)
                        && is_replaced(&mut opened, &error).await => {}
                result => break result,
            }
        }
    }};
}

/// Returns a caller's view of a registry; an anonymous caller gets the registry as it was opened.
fn view_for(
    skills: Arc<dyn SkillRegistry>,
    caller: &Caller,
) -> Result<Arc<dyn SkillRegistry>, RegistryError> {
    if *caller == Caller::Anonymous { Ok(skills) } else { skills.view(caller) }
}

async fn wait(mut opened: Opened) -> Result<Arc<dyn SkillRegistry>, RegistryError> {
    let is_settled = |state: &RegistryState| !matches!(state, RegistryState::Opening);
    match &*opened.wait_for(is_settled).await.map_err(|_| RegistryError::Closed)? {
        RegistryState::Open(skills) => Ok(Arc::clone(skills)),
        RegistryState::Unavailable(error) => Err(error.clone()),
        RegistryState::Opening => Err(RegistryError::Closed),
    }
}

#[async_trait]
impl SkillRegistry for PendingRegistry {
    fn view(self: Arc<Self>, caller: &Caller) -> Result<Arc<dyn SkillRegistry>, RegistryError> {
        let Self { opened, is_replaceable, .. } = &*self;
        let (opened, is_replaceable) = (opened.clone(), Arc::clone(is_replaceable));
        Ok(Arc::new(Self { opened, caller: caller.clone(), is_replaceable }))
    }

    async fn catalog(&self) -> Result<Arc<Catalog>, RegistryError> {
        read!(self, skills => skills.catalog())
    }

    async fn search(&self, request: SearchRequest) -> Result<SearchPage, RegistryError> {
        read!(self, skills => skills.search(request.clone()))
    }

    fn rejected_rows(&self) -> RejectedRows {
        self.opened.borrow().registry().map(|skills| skills.rejected_rows()).unwrap_or_default()
    }

    fn changes(&self) -> ChangeEvents {
        self.follow(|skills| skills.changes())
    }

    fn changes_by_owner(&self) -> OwnedChangeEvents {
        self.follow(|skills| skills.changes_by_owner())
    }

    async fn all_skills(&self) -> Result<Vec<SkillInfo>, RegistryError> {
        read!(self, skills => skills.all_skills())
    }

    async fn explain(&self, id: &str) -> Result<Explanation, RegistryError> {
        read!(self, skills => skills.explain(id))
    }

    async fn hosts_live_clients(&self) -> bool {
        match self.get().await {
            Ok(skills) => skills.hosts_live_clients().await,
            Err(_) => false,
        }
    }

    async fn has_live_clients(&self) -> bool {
        match self.get().await {
            Ok(skills) => skills.has_live_clients().await,
            Err(_) => false,
        }
    }

    async fn call_live(
        &self,
        operation: LiveOperation,
        arguments: Map<String, Value>,
    ) -> Result<Value, RegistryError> {
        self.get().await?.call_live(operation, arguments).await
    }

    async fn read(&self, uri: &str) -> Result<Resource, RegistryError> {
        read!(self, skills => skills.read(uri))
    }

    async fn document(&self, row: &SkillRow, path: &str) -> Result<Document, RegistryError> {
        read!(self, skills => skills.document(row, path))
    }

    async fn scanned_document(
        &self,
        row: &SkillRow,
        path: &str,
        may_block: bool,
    ) -> Result<Bytes, RegistryError> {
        read!(self, skills => skills.scanned_document(row, path, may_block))
    }

    async fn render_prompt(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        read!(self, skills => skills.render_prompt(name, arguments.clone()))
    }

    async fn workers(&self) -> Result<Vec<ConnectedWorker>, RegistryError> {
        read!(self, skills => skills.workers())
    }

    async fn functions(&self) -> Result<Vec<ExposedFunction>, RegistryError> {
        read!(self, skills => skills.functions())
    }

    async fn call_function(
        &self,
        function: &HandlerId,
        arguments: Value,
    ) -> Result<Value, RegistryError> {
        self.get().await?.call_function(function, arguments).await
    }

    async fn register_bundle(
        &self,
        tier: Tier,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> Result<String, RegistryError> {
        self.get().await?.register_bundle(tier, id, bundle).await
    }

    async fn remove_skill(&self, tier: Tier, id: &str) -> Result<bool, RegistryError> {
        self.get().await?.remove_skill(tier, id).await
    }

    async fn register_prompt(
        &self,
        tier: Tier,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError> {
        self.get().await?.register_prompt(tier, name, definition).await
    }

    async fn remove_prompt(&self, tier: Tier, name: &str) -> Result<bool, RegistryError> {
        self.get().await?.remove_prompt(tier, name).await
    }

    async fn publish_bundle(
        &self,
        tier: Tier,
        id: &str,
        bundle: Bundle<Bytes>,
        request: PublishRequest,
    ) -> Result<Published, RegistryError> {
        self.get().await?.publish_bundle(tier, id, bundle, request).await
    }

    async fn publish_bundles(
        &self,
        tier: Tier,
        publications: Vec<BundlePublication>,
    ) -> Result<Vec<Result<Published, RegistryError>>, RegistryError> {
        self.get().await?.publish_bundles(tier, publications).await
    }

    async fn publish_prompt(
        &self,
        tier: Tier,
        name: &str,
        definition: PromptDefinition,
        request: PublishRequest,
    ) -> Result<Published, RegistryError> {
        self.get().await?.publish_prompt(tier, name, definition, request).await
    }

    async fn collections(&self) -> Result<Vec<CollectionInfo>, RegistryError> {
        self.get().await?.collections().await
    }

    async fn collection(&self, name: &str) -> Result<CollectionInfo, RegistryError> {
        self.get().await?.collection(name).await
    }

    async fn put_collection(
        &self,
        tier: Tier,
        name: &str,
        collection: SkillCollection,
        request: PublishRequest,
    ) -> Result<Published, RegistryError> {
        self.get().await?.put_collection(tier, name, collection, request).await
    }

    async fn remove_collection(&self, tier: Tier, name: &str) -> Result<bool, RegistryError> {
        self.get().await?.remove_collection(tier, name).await
    }

    async fn history(
        &self,
        kind: EntryKind,
        request: &HistoryRequest,
    ) -> Result<HistoryPage, RegistryError> {
        self.get().await?.history(kind, request).await
    }

    async fn version(
        &self,
        kind: EntryKind,
        tier: Option<Tier>,
        id: &str,
        version: &VersionSelector,
    ) -> Result<VersionInfo, RegistryError> {
        self.get().await?.version(kind, tier, id, version).await
    }

    async fn skill_version(
        &self,
        tier: Option<Tier>,
        id: &str,
        version: &VersionSelector,
    ) -> Result<Arc<SkillRow>, RegistryError> {
        self.get().await?.skill_version(tier, id, version).await
    }

    async fn diff(
        &self,
        kind: EntryKind,
        request: &DiffRequest,
    ) -> Result<VersionDiff, RegistryError> {
        self.get().await?.diff(kind, request).await
    }

    async fn set_label(
        &self,
        kind: EntryKind,
        request: &LabelRequest,
    ) -> Result<VersionState, RegistryError> {
        self.get().await?.set_label(kind, request).await
    }

    async fn rollback(
        &self,
        kind: EntryKind,
        request: &RollbackRequest,
    ) -> Result<Published, RegistryError> {
        self.get().await?.rollback(kind, request).await
    }

    async fn yank(
        &self,
        kind: EntryKind,
        request: &YankRequest,
    ) -> Result<VersionState, RegistryError> {
        self.get().await?.yank(kind, request).await
    }

    async fn log(&self, request: &LogRequest) -> Result<LogPage, RegistryError> {
        self.get().await?.log(request).await
    }

    async fn skill_log(&self, request: &SkillLogRequest) -> Result<SkillLogPage, RegistryError> {
        self.get().await?.skill_log(request).await
    }

    async fn collect(&self, request: &CollectRequest) -> Result<Collected, RegistryError> {
        self.get().await?.collect(request).await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;
    use skills_bus::{CallError, Json};
    use skills_core::Code;
    use skills_remote::{BusCaller, Mirror, RemoteRegistry};

    use super::*;

    /// Bus that is gone.
    struct LostBus;

    #[async_trait]
    impl BusCaller for LostBus {
        async fn call(&self, _: &str, _: Json, _: Duration) -> Result<Json, CallError> {
            Err(CallError::remote(Code::ConnectionLost, "lost"))
        }
    }

    #[tokio::test]
    async fn a_read_that_waits_for_the_next_registry_does_not_hold_the_last() {
        let (pending, opened) = PendingRegistry::new();
        pending.is_replaceable.store(true, Ordering::Relaxed);
        let remote = RemoteRegistry::new(LostBus, Duration::from_secs(1));
        let registry: Arc<dyn SkillRegistry> = Arc::new(Mirror::new(remote));
        let last = Arc::downgrade(&registry);
        opened.open(registry);
        let mut read = pin!(pending.explain("a"));
        assert!(poll!(read.as_mut()).is_pending());
        opened.clear();
        assert!(last.upgrade().is_none());
    }
}
