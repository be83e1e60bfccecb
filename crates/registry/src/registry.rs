//! The registry as surfaces in this process call it. `reading` has the reads, `writing` the writes.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use skills_bus::{Bus, Json};
use skills_core::{Code, KeyDirectory, resolve::Prefix};
use skills_store::{Batch, ImportRecords, Mutation, ServerId, Store};
use tokio::sync::watch;

use crate::{
    BusState, Catalog, ChangeFeed, FeedSubscription, PendingWrite, RegistryError, SectionAccess,
    blob_cache::BlobCache,
    follower::Follower,
    live::{LiveChange, LiveHost, LiveUpdate},
    lost_commits,
    negative_cache::NegativeLookupCache,
    publisher::Publisher,
    recovery::WriterHealth,
    search::{SearchConfig, SearchIndex},
    store_contact::{StoreContact, StoreHealth},
    writer::{BatchResult, ExternalCheck, ExternalReply, Writer},
};

/// Settings and collaborators of a registry.
#[derive(Clone)]
pub struct RegistryConfig {
    /// Time limit of the function behind a section or a prompt.
    pub handler_timeout: Duration,
    /// Size of the blob cache, in bytes.
    pub blob_cache_bytes: usize,
    /// Optional name prefix tried during resolution.
    pub prefix: Prefix,
    /// Rule for reading sections on surfaces other than the bus.
    pub sections: SectionAccess,
    /// Settings of the search.
    pub search: SearchConfig,
    /// Directory that checks whether the key of a view is still active. Without one, every key is.
    pub keys: Option<Arc<dyn KeyDirectory>>,
    /// Time after which reads are refused while a shared store cannot be reached. Without one, they never are.
    pub max_stale: Option<Duration>,
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self {
            handler_timeout: Duration::from_secs(10),
            blob_cache_bytes: 32 << 20,
            prefix: Prefix::default(),
            sections: SectionAccess::default(),
            search: SearchConfig::default(),
            keys: None,
            max_stale: None,
        }
    }
}

impl fmt::Debug for RegistryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryConfig")
            .field("handler_timeout", &self.handler_timeout)
            .field("blob_cache_bytes", &self.blob_cache_bytes)
            .field("prefix", &self.prefix)
            .field("sections", &self.sections)
            .finish_non_exhaustive()
    }
}

/// Registry of skills and prompts: all reads and writes go through it.
pub struct Registry {
    store: Arc<dyn Store>,
    /// Weak, because the bus holds functions that hold the registry.
    bus: Option<Weak<dyn Bus>>,
    publisher: Arc<Publisher>,
    /// Taken out of the lock to be used: writes may run on the thread that requests them.
    writer: Mutex<Option<Arc<Writer>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    config: RegistryConfig,
    /// Weak, because the host of live clients holds the registry.
    live_host: OnceLock<Weak<dyn LiveHost>>,
    negative_cache: NegativeLookupCache,
    search: SearchIndex,
    /// Identity among the servers that share the store.
    server_id: ServerId,
    /// Set if other servers share the store.
    follower: Mutex<Option<Follower>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Registry {
    /// Reads the catalog from a store and starts the writer thread. Without a bus, sections and prompts cannot be
    /// rendered.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn open(
        store: Arc<dyn Store>,
        bus: Option<Weak<dyn Bus>>,
        config: RegistryConfig,
    ) -> Result<Arc<Self>, RegistryError> {
        let prefix = config.prefix.clone();
        let catalog = lost_commits::read_catalog(&*store, prefix)?;
        let blobs = BlobCache::new(Arc::clone(&store), config.blob_cache_bytes);
        let publisher =
            Arc::new(Publisher::new(catalog, blobs, StoreContact::new(config.max_stale)));
        let (writer, thread) = Writer::start(Arc::clone(&store), Arc::clone(&publisher))
            .map_err(|_| RegistryError::Closed)?;
        let registry = Arc::new(Self {
            search: SearchIndex::new(config.search.clone()),
            writer: Mutex::new(Some(Arc::new(writer))),
            thread: Mutex::new(Some(thread)),
            store,
            bus,
            publisher,
            config,
            live_host: OnceLock::new(),
            negative_cache: NegativeLookupCache::default(),
            server_id: ServerId::new(),
            follower: Mutex::new(None),
        });
        *registry.follower.lock() = Follower::start(&registry)?;
        Ok(registry)
    }

    /// Returns the current snapshot as an anonymous caller sees it. It takes no lock and stays valid for as long as
    /// it is held.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.publisher.catalog.load_full()
    }

    /// Subscribes to all changes from now on, without gaps.
    #[must_use]
    pub fn changes(&self) -> ChangeFeed {
        // Subscribed first: a change between the two steps arrives twice, and is skipped once.
        let subscription = self.publisher.changes.subscribe();
        let after = self.catalog().stored_version().0;
        let last_reset = Arc::clone(&self.publisher.last_reset);
        ChangeFeed::new(subscription, last_reset, Arc::clone(&self.store), after)
    }

    /// Subscribes to all changes of live entries from now on. A slow subscriber gets the number of changes that it missed.
    #[must_use]
    pub fn live_changes(&self) -> FeedSubscription<LiveChange> {
        self.publisher.live.subscribe()
    }

    /// Registers the live-client host, which is created after the registry. Later calls are ignored.
    pub fn attach_live_host(&self, host: Weak<dyn LiveHost>) {
        let _ = self.live_host.set(host);
    }

    /// Returns whether live clients are hosted.
    #[must_use]
    pub fn has_live_host(&self) -> bool {
        self.live_host().is_some()
    }

    /// Returns whether a live client is connected.
    #[must_use]
    pub fn has_live_clients(&self) -> bool {
        self.live_host().is_some_and(|host| host.has_clients())
    }

    pub(crate) fn live_host(&self) -> Option<Arc<dyn LiveHost>> {
        self.live_host.get()?.upgrade()
    }

    /// Returns how long a live client may take to answer, where live clients are hosted.
    #[must_use]
    pub fn live_answer_timeout(&self) -> Option<Duration> {
        Some(self.live_host()?.answer_timeout())
    }

    pub(crate) const fn negative_cache(&self) -> &NegativeLookupCache {
        &self.negative_cache
    }

    /// Updates the entries of live clients. Listings show them below all stored entries.
    pub fn update_live(&self, updates: Vec<LiveUpdate>) -> PendingWrite<()> {
        self.enqueue(|writer| writer.update_live(updates))
    }

    /// Returns the bus's key-value store.
    #[must_use]
    pub fn state(self: &Arc<Self>) -> BusState {
        BusState::new(Arc::clone(self))
    }

    /// Queues a batch. `convert` makes the result of the write from that of the batch.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        actor: &str,
        mutations: Vec<Mutation>,
        convert: impl FnOnce(BatchResult) -> Result<T, RegistryError> + Send + 'static,
    ) -> PendingWrite<T> {
        let batch = Batch::new(actor, mutations);
        self.enqueue(|writer| writer.submit(batch, convert))
    }

    /// Queues batches that are committed in one group.
    pub(crate) fn submit_together<T: Send + 'static>(
        &self,
        actor: &str,
        batches: Vec<Vec<Mutation>>,
        convert: impl Fn(BatchResult) -> Result<T, RegistryError> + Send + 'static,
    ) -> PendingWrite<Vec<Result<T, RegistryError>>> {
        let actor: Arc<str> = actor.into();
        let batch = |mutations| Batch::new(Arc::clone(&actor), mutations);
        let batches = batches.into_iter().map(batch).collect();
        self.enqueue(|writer| writer.submit_together(batches, convert))
    }

    fn enqueue<T: Send + 'static>(
        &self,
        request: impl FnOnce(&Writer) -> PendingWrite<T>,
    ) -> PendingWrite<T> {
        match self.writer() {
            Some(writer) => request(&writer),
            None => PendingWrite::reject(RegistryError::Closed),
        }
    }

    fn writer(&self) -> Option<Arc<Writer>> {
        self.writer.lock().clone()
    }

    /// Returns the search index, which is built from now on if it was not before.
    pub fn search_index(&self) -> &SearchIndex {
        self.search.start(&self.store, &self.publisher);
        &self.search
    }

    pub(crate) const fn server_id(&self) -> ServerId {
        self.server_id
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) const fn publisher(&self) -> &Arc<Publisher> {
        &self.publisher
    }

    pub(crate) fn blobs(&self) -> &BlobCache {
        &self.publisher.blobs
    }

    pub(crate) const fn config(&self) -> &RegistryConfig {
        &self.config
    }

    /// Notifies all subscribers that the tools should be listed again, whether they changed or not.
    pub fn refresh_tools(&self) {
        self.publisher.tools_refresh.send_modify(|count| *count += 1);
    }

    /// Subscribes to the number of [`refresh_tools`](Self::refresh_tools) calls.
    #[must_use]
    pub fn tools_refreshes(&self) -> watch::Receiver<u64> {
        self.publisher.tools_refresh.subscribe()
    }

    /// Runs a check for changes that other processes made to the store, and publishes what it finds. It runs on the
    /// writer thread, so it cannot cross a write of this process. Returns the number of changes.
    pub fn apply_external(&self, check: ExternalCheck) -> PendingWrite<usize> {
        self.enqueue(|writer| writer.check_external(check))
    }

    /// Queues a check for external changes for a thread that waits for `reply` itself. It is dropped if the check does not
    /// run.
    pub(crate) fn queue_external(&self, check: ExternalCheck, reply: ExternalReply) {
        if let Some(writer) = self.writer() {
            writer.queue_external(check, reply);
        }
    }

    /// Returns the records of imports of the servers that share the store, if several can.
    #[must_use]
    pub fn import_records(&self) -> Option<Arc<dyn ImportRecords>> {
        Arc::clone(&self.store).import_records()
    }

    /// Returns the bus, if there is one and it still runs.
    pub(crate) fn bus(&self) -> Option<Arc<dyn Bus>> {
        self.bus.as_ref()?.upgrade()
    }

    pub(crate) async fn call(&self, id: &str, data: &Value) -> Result<Value, RegistryError> {
        let failed = |error| RegistryError::from_call(id, error);
        let bus = self.bus().ok_or_else(|| match &self.bus {
            Some(_) => RegistryError::Closed,
            None => RegistryError::NoBus { function_id: id.to_owned() },
        })?;
        let called = bus.call(id, Json::from(data), self.config.handler_timeout).await;
        let output = match called {
            Ok(output) => output,
            Err(error) => return Err(self.locate_missing(failed(error)).await),
        };
        output.parse().map_err(|error| {
            failed(skills_bus::CallError::remote(Code::InvalidResult, error.to_string()))
        })
    }

    /// Subscribes to the state of the writer thread.
    #[must_use]
    pub fn writer_health(&self) -> watch::Receiver<WriterHealth> {
        self.publisher.health.subscribe()
    }

    /// Subscribes to the reachability of a store that other servers share.
    #[must_use]
    pub fn store_health(&self) -> watch::Receiver<StoreHealth> {
        self.publisher.store_contact.subscribe()
    }

    /// Stops accepting writes, waits for the queued ones, and ends the writer thread.
    pub fn close(&self) {
        drop(self.follower.lock().take());
        drop(self.writer.lock().take());
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("writer thread ended with a panic");
        }
        self.publisher.index_signal.close();
        self.search.join();
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.close();
    }
}
