//! The search index of a registry, as its searches see it.

use std::{
    sync::{Arc, OnceLock},
    thread::JoinHandle,
    time::Duration,
};

use arc_swap::ArcSwap;
use imbl::OrdMap;
use parking_lot::Mutex;
use skills_core::{Layer, Owner, Tier, WorkAccount, WorkKind, work::StopFlag};
use skills_search::{EmbeddingModel, Partition, SynonymTable};
use skills_store::Store;
use tokio::{sync::watch, time::timeout};

use super::{
    SearchConfig, SearchRequest,
    evaluation::{Evaluated, Evaluation, Scope},
    indexer::Indexer,
    signal::IndexSignal,
};
use crate::{Catalog, RegistryError, catalog::StoredRevision, publisher::Publisher};

/// Longest wait of a search for entries that are being indexed. Longer than indexing what was just written ever takes.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// A search. It counts its steps, and leaves out what is beyond their limits (`skills_search`).
const SEARCH: WorkKind = WorkKind::compute("search");
/// Memory of a search: its candidates, and the text of one of them.
const SEARCH_BYTES: usize = 1 << 20;

/// State of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexProgress {
    /// Entries that were indexed.
    pub indexed: usize,
    /// Entries that are to be indexed first.
    pub total: usize,
    /// Entries that are found by their metadata only, because the store could not be reached. They are tried again.
    pub unread: usize,
    /// Version of the catalog that the index has.
    pub version: (StoredRevision, u64),
    /// Whether the first build is complete.
    pub is_complete: bool,
}

/// Partitions of all layers; `None` for live entries.
pub(super) type Partitions = OrdMap<Option<Layer>, Partition>;

/// Data that the indexer and searches share.
#[derive(Debug)]
pub(super) struct IndexState {
    pub(super) partitions: ArcSwap<Partitions>,
    pub(super) progress: watch::Sender<IndexProgress>,
    /// Model of meaning, once it is loaded.
    pub(super) model: OnceLock<Option<Arc<EmbeddingModel>>>,
}

/// Search index of a registry. It is built when it is first used.
#[derive(Debug)]
pub struct SearchIndex {
    config: SearchConfig,
    state: Arc<IndexState>,
    synonyms: OnceLock<Arc<SynonymTable>>,
    started: OnceLock<()>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SearchIndex {
    pub(crate) fn new(config: SearchConfig) -> Self {
        let state = IndexState {
            partitions: ArcSwap::default(),
            progress: watch::Sender::new(IndexProgress::default()),
            model: OnceLock::new(),
        };
        Self {
            config,
            state: Arc::new(state),
            synonyms: OnceLock::new(),
            started: OnceLock::new(),
            thread: Mutex::default(),
        }
    }

    fn synonyms(&self) -> &Arc<SynonymTable> {
        self.synonyms.get_or_init(|| {
            let groups = self.config.synonyms.iter().map(Vec::as_slice);
            Arc::new(SynonymTable::with_groups(groups))
        })
    }

    pub(crate) const fn config(&self) -> &SearchConfig {
        &self.config
    }

    /// Subscribes to the progress of the index.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<IndexProgress> {
        self.state.progress.subscribe()
    }

    /// Returns the approximate memory of the index in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.state.partitions.load().values().map(Partition::memory).sum()
    }

    /// Starts to build the index, once.
    pub(crate) fn start(&self, store: &Arc<dyn Store>, publisher: &Arc<Publisher>) {
        self.started.get_or_init(|| {
            let (store, publisher) = (Arc::clone(store), Arc::clone(publisher));
            let (state, model) = (Arc::clone(&self.state), self.config.model.clone());
            let indexer = Indexer::new(store, publisher, state, model);
            let thread = std::thread::Builder::new()
                .name("search-indexer".to_owned())
                .spawn(|| indexer.run());
            match thread {
                Ok(thread) => *self.thread.lock() = Some(thread),
                Err(error) => tracing::error!(%error, "search index cannot be built"),
            }
        });
    }

    /// Waits for the end of the indexer, which was told to end.
    pub(crate) fn join(&self) {
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("search indexer ended with a panic");
        }
    }

    /// Waits until the index has a version of the catalog, but not for long. Returns whether it has.
    pub(crate) async fn wait_for(
        &self,
        version: (StoredRevision, u64),
        signal: &IndexSignal,
    ) -> bool {
        let has_version = |progress: &IndexProgress| {
            progress.is_complete
                && progress.version.0 >= version.0
                && progress.version.1 >= version.1
        };
        let mut progress = self.progress();
        if has_version(&progress.borrow()) {
            return true;
        }
        signal.hurry();
        // Bound to a variable: the guard must not outlive the wait.
        let waited = timeout(MAX_WAIT, progress.wait_for(has_version)).await;
        matches!(waited, Ok(Ok(_)))
    }

    /// Searches as a caller sees the catalog.
    pub(crate) async fn search(
        &self,
        catalog: Arc<Catalog>,
        owner: Option<Owner>,
        request: SearchRequest,
    ) -> Result<Evaluated, RegistryError> {
        let partitions = self.state.partitions.load_full();
        let synonyms = Arc::clone(self.synonyms());
        let model = self.state.model.get().cloned().flatten();
        let search = move |_: &StopFlag| {
            let (scopes, partitions) = select(&partitions, owner);
            let partitions: Vec<&Partition> = partitions.iter().collect();
            let (catalog, scopes) = (&*catalog, &scopes[..]);
            let (partitions, model) = (&partitions[..], model.as_deref());
            let evaluation = Evaluation { catalog, scopes, partitions, synonyms: &synonyms, model };
            evaluation.run(&request)
        };
        Ok(WorkAccount::current().run(SEARCH, SEARCH_BYTES, search).await??)
    }
}

/// Returns the partitions that a caller sees, in the order of resolution.
fn select(partitions: &Partitions, owner: Option<Owner>) -> (Vec<Scope>, Vec<Partition>) {
    let private = owner.map(|owner| (Scope::Tier(Tier::Private), Some(Layer::Private(owner))));
    let shared = [
        (Scope::Tier(Tier::Official), Some(Layer::Official)),
        (Scope::Tier(Tier::Market), Some(Layer::Market)),
        (Scope::Live, None),
    ];
    let found = private.into_iter().chain(shared).filter_map(|(scope, layer)| {
        let partition = partitions.get(&layer)?;
        Some((scope, partition.clone()))
    });
    found.unzip()
}
