//! The registry itself: what surfaces in this process call. What they read is in `reading`, what they write in
//! `writing`.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    thread::JoinHandle,
    time::Duration,
};

use arc_swap::ArcSwap;
use serde_json::Value;
use skills_bus::{Bus, Json};
use skills_core::{Identify, Timestamp, resolve::Prefix};
use skills_store::{Batch, Effect, Store};
use tokio::sync::watch;

use crate::{
    BusState, Catalog, ChangeFeed, Execute, RegistryError,
    arguments::Arguments,
    blobs::Blobs,
    feed::{Feed, Subscription},
    live::{LiveChange, LiveSource, LiveUpdate},
    looked::Looked,
    writer::{Foreign, Published, WriteError, Writer},
};

/// How much of the newest changes a feed keeps in memory for its slowest subscriber.
const CHANGE_FEED_BYTES: usize = 4 << 20;
/// The same for changes of the bus state, which carry their values.
const STATE_FEED_BYTES: usize = 16 << 20;
/// The same for what is not stored, of which only ids are told.
const LIVE_FEED_BYTES: usize = 1 << 20;

/// What can be set about a registry.
#[derive(Debug, Clone)]
pub struct RegistryConfig {
    /// How long the function behind a section or a prompt may take.
    pub handler_timeout: Duration,
    /// How many bytes of bodies are kept in memory.
    pub blob_cache_bytes: usize,
    /// What names are also looked for with.
    pub prefix: Prefix,
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self {
            handler_timeout: Duration::from_secs(10),
            blob_cache_bytes: 32 << 20,
            prefix: Prefix::default(),
        }
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
    executor: OnceLock<Arc<dyn Execute>>,
    arguments: Arguments,
    keys: OnceLock<Arc<dyn Identify>>,
    config: RegistryConfig,
    /// Weak, because whoever hosts live clients shows them what is stored.
    live: OnceLock<Weak<dyn LiveSource>>,
    looked: Looked,
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
                config.prefix.clone(),
            )),
            changes: Feed::new(CHANGE_FEED_BYTES),
            state: Feed::new(STATE_FEED_BYTES),
            live: Feed::new(LIVE_FEED_BYTES),
            refreshed: watch::Sender::new(0),
        });
        let (writer, thread) = Writer::start(Arc::clone(&store), Arc::clone(&published))
            .map_err(|_| RegistryError::Closed)?;
        Ok(Arc::new(Self {
            blobs: Blobs::new(Arc::clone(&store), config.blob_cache_bytes),
            executor: OnceLock::new(),
            arguments: Arguments::default(),
            keys: OnceLock::new(),
            writer: Mutex::new(Some(Arc::new(writer))),
            thread: Mutex::new(Some(thread)),
            store,
            bus,
            published,
            config,
            live: OnceLock::new(),
            looked: Looked::default(),
        }))
    }

    /// The present snapshot, as everyone sees it. It costs no lock and stays valid for as long as it is held.
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

    /// Every change of what is not stored from now on. Who falls behind is told how many were missed.
    #[must_use]
    pub fn live_changes(&self) -> Subscription<LiveChange> {
        self.published.live.subscribe()
    }

    /// Names whoever hosts live clients. The first counts.
    pub fn set_live_source(&self, source: Weak<dyn LiveSource>) {
        let _ = self.live.set(source);
    }

    /// Whether somebody hosts live clients.
    #[must_use]
    pub fn hosts_clients(&self) -> bool {
        self.live_source().is_some()
    }

    /// Whoever hosts live clients, if somebody does.
    pub(crate) fn live_source(&self) -> Option<Arc<dyn LiveSource>> {
        self.live.get()?.upgrade()
    }

    /// How long a live client may take to answer, if somebody hosts any.
    #[must_use]
    pub fn clients_answer_within(&self) -> Option<Duration> {
        Some(self.live_source()?.answer_within())
    }

    pub(crate) const fn looked(&self) -> &Looked {
        &self.looked
    }

    /// Takes in what became of live clients: their skills and prompts are listed with what is stored, below it.
    /// Queued when called, and in order.
    pub fn set_live(
        &self,
        updates: Vec<LiveUpdate>,
    ) -> impl Future<Output = Result<(), RegistryError>> + Send + use<> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let queued = writer.as_ref().map(|writer| writer.live(updates));
        async move {
            match queued {
                Some(queued) => queued.await,
                None => Err(RegistryError::Closed),
            }
        }
    }

    /// The bus's key-value store.
    #[must_use]
    pub fn state(self: &Arc<Self>) -> BusState {
        BusState::new(Arc::clone(self))
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

    pub(crate) const fn published(&self) -> &Arc<Published> {
        &self.published
    }

    pub(crate) const fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    pub(crate) const fn executor(&self) -> &OnceLock<Arc<dyn Execute>> {
        &self.executor
    }

    pub(crate) const fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    pub(crate) const fn keys(&self) -> &OnceLock<Arc<dyn Identify>> {
        &self.keys
    }

    /// Has whoever keeps a view of a user be asked whether the key is still good. Whoever comes first stays.
    pub fn identify_with(&self, keys: Arc<dyn Identify>) {
        if self.keys.set(keys).is_err() {
            tracing::warn!("keys are looked up by whoever was there first");
        }
    }

    /// Tells everyone who follows the tools to ask for them again, whether they changed or not.
    pub fn refresh_tools(&self) {
        self.published.refreshed.send_modify(|times| *times += 1);
    }

    /// How often that was done, for those who tell of it.
    #[must_use]
    pub fn refreshed(&self) -> watch::Receiver<u64> {
        self.published.refreshed.subscribe()
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
