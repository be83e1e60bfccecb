//! The thread that keeps the search index up to the catalog.
//!
//! It compares the catalog with the one it indexed last, so every way in which the catalog changes is covered by one
//! rule. Texts come from the store. Large merges run on a thread of their own: new entries do not wait for them.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Instant,
};

use skills_core::Layer;
use skills_search::{
    AnalyzedDocument, Analyzer, MergeTask, MergedSegment, PartitionWriter, SearchDocument,
};
use skills_store::Store;

use super::{
    ModelLoader, documents,
    index::{IndexProgress, IndexState},
    root_texts::{self, ReadFailure, RootText},
};
use crate::{
    Catalog,
    catalog::{CatalogDifference, ChangedRow},
    publisher::Publisher,
};

/// Entries that are indexed before searches see them.
const CHUNK: usize = 1024;
/// Entries of a chunk above which several threads share the work.
const MIN_PARALLEL: usize = 64;
/// Most threads that build the index.
const MAX_THREADS: usize = 4;
/// Documents up to which a merge is carried out at once.
const MAX_INLINE_MERGE: usize = 2048;
/// Most entries whose text alone is unreadable that are tried again later.
const MAX_RETRIES: usize = 4096;

/// State of the indexer thread.
pub(super) struct Indexer {
    store: Arc<dyn Store>,
    publisher: Arc<Publisher>,
    state: Arc<IndexState>,
    /// Catalog that the index has.
    indexed: Arc<Catalog>,
    writers: BTreeMap<Option<Layer>, PartitionWriter>,
    model: Option<ModelLoader>,
    analyzers: Vec<Analyzer>,
    /// Entries whose text is yet to be read, because the store could not be reached.
    unread: Vec<CatalogDifference>,
    /// Entries whose text alone could not be read.
    unreadable: Vec<CatalogDifference>,
    merged: (mpsc::Sender<Merged>, mpsc::Receiver<Merged>),
}

/// Result of a merge on another thread.
type Merged = (Option<Layer>, MergedSegment);

/// Analyzed entry, and the reason why its text was not read.
type Analyzed = (Option<AnalyzedDocument>, Option<ReadFailure>);

impl Indexer {
    pub(super) fn new(
        store: Arc<dyn Store>,
        publisher: Arc<Publisher>,
        state: Arc<IndexState>,
        model: Option<ModelLoader>,
    ) -> Self {
        Self {
            store,
            publisher,
            state,
            indexed: Arc::default(),
            writers: BTreeMap::new(),
            model,
            analyzers: vec![],
            unread: vec![],
            unreadable: vec![],
            merged: mpsc::channel(),
        }
    }

    /// Runs until the registry closes.
    pub(super) fn run(mut self) {
        let model = self.model.take().and_then(|load| load());
        let threads =
            thread::available_parallelism().map_or(1, |count| count.get().min(MAX_THREADS));
        self.analyzers = (0..threads).map(|_| Analyzer::with_model(model.clone())).collect();
        let _ = self.state.model.set(model);
        let mut is_second_attempt = false;
        loop {
            let started = Instant::now();
            // A panic must not end the search of a running server: it builds the index again, at once and then after
            // each change.
            if catch_unwind(AssertUnwindSafe(|| self.update())).is_err() {
                tracing::error!("search indexer panicked; building the index again");
                self.indexed = Arc::default();
                self.writers.clear();
                is_second_attempt = !is_second_attempt;
                if is_second_attempt {
                    continue;
                }
            } else {
                is_second_attempt = false;
            }
            let has_unread = !self.unread.is_empty();
            if !self.publisher.index_signal.wait(started.elapsed(), has_unread) {
                return;
            }
        }
    }

    /// Brings the index up to the catalog.
    fn update(&mut self) {
        while let Ok((layer, merged)) = self.merged.1.try_recv() {
            if let Some(writer) = self.writers.get_mut(&layer) {
                writer.apply_merge(merged);
                self.publish(&layer);
            }
        }
        // Before the catalog is read, which then lacks what was purged.
        let purged = self.publisher.index_signal.take_purged();
        let catalog = self.publisher.catalog.load_full();
        let differences = self.indexed.differences(&catalog);
        let mut retried = std::mem::take(&mut self.unread);
        let had_unread = !retried.is_empty();
        retried.append(&mut self.unreadable);
        let is_unreachable = AtomicBool::new(false);
        let total = differences.len();
        for (number, chunk) in differences.chunks(CHUNK).enumerate() {
            if self.publisher.index_signal.is_closed() {
                return;
            }
            self.apply(&catalog, chunk, &is_unreachable);
            let indexed = (number * CHUNK + chunk.len()).min(total);
            self.state.progress.send_modify(|progress| {
                if !progress.is_complete {
                    (progress.indexed, progress.total) = (indexed, total);
                }
            });
        }
        for chunk in retried.chunks(CHUNK) {
            if self.publisher.index_signal.is_closed() {
                return;
            }
            if is_unreachable.load(Ordering::Relaxed) {
                // They are in the index with their metadata already.
                self.unread.extend_from_slice(chunk);
            } else {
                self.apply(&catalog, chunk, &is_unreachable);
            }
        }
        let version = catalog.version();
        self.indexed = catalog;
        let unread = self.unread.len();
        if unread > 0 && !had_unread {
            tracing::warn!(texts = unread, "store unreachable, texts will be searchable later");
        } else if unread == 0 && had_unread {
            tracing::warn!("all texts are searchable again");
        }
        self.state.progress.send_modify(|progress| {
            *progress = IndexProgress { version, unread, is_complete: true, ..*progress };
        });
        for layer in purged {
            if let Some(writer) = self.writers.get_mut(&Some(layer)) {
                writer.erase_deleted();
            }
        }
        self.merge();
    }

    /// Indexes some entries and publishes their partitions.
    fn apply(
        &mut self,
        catalog: &Catalog,
        differences: &[CatalogDifference],
        is_unreachable: &AtomicBool,
    ) {
        let analyzed = self.analyze(differences, is_unreachable);
        let mut added: BTreeMap<Option<Layer>, Vec<AnalyzedDocument>> = BTreeMap::new();
        for (difference, (document, failure)) in differences.iter().zip(analyzed) {
            let documents = added.entry(difference.layer.clone()).or_default();
            match document {
                // An entry that is tried again may have been replaced or removed meanwhile.
                Some(document) if is_current(catalog, difference) => {
                    documents.push(document);
                    match failure {
                        Some(ReadFailure::Unreachable) => self.unread.push(difference.clone()),
                        Some(ReadFailure::Unreadable) if self.unreadable.len() < MAX_RETRIES => {
                            self.unreadable.push(difference.clone());
                        }
                        Some(ReadFailure::Unreadable) | None => {}
                    }
                }
                Some(_) => {}
                None => {
                    if let Some(writer) = self.writers.get_mut(&difference.layer) {
                        writer.remove(&documents::key_of(difference));
                    }
                }
            }
        }
        for (layer, documents) in added {
            self.writers.entry(layer.clone()).or_default().add(documents);
            self.publish(&layer);
        }
    }

    /// Analyzes entries, on several threads if there are many. Removed entries have no document.
    fn analyze(
        &mut self,
        differences: &[CatalogDifference],
        is_unreachable: &AtomicBool,
    ) -> Vec<Analyzed> {
        let store = &*self.store;
        let analyze = |analyzer: &mut Analyzer, part: &[CatalogDifference]| -> Vec<Analyzed> {
            let mut analyzed = Vec::with_capacity(part.len());
            for group in root_texts::groups(part) {
                let texts = root_texts::read(store, group, is_unreachable);
                let group = group.iter().zip(texts);
                analyzed.extend(group.map(|(entry, text)| analyze(analyzer, entry, &text)));
            }
            analyzed
        };
        if differences.len() < MIN_PARALLEL {
            return self
                .analyzers
                .first_mut()
                .map_or_else(Vec::new, |first| analyze(first, differences));
        }
        let size = differences.len().div_ceil(self.analyzers.len());
        thread::scope(|scope| {
            let parts = differences.chunks(size).zip(&mut self.analyzers);
            let threads: Vec<_> = parts
                .map(|(part, analyzer)| scope.spawn(move || analyze(analyzer, part)))
                .collect();
            let results = threads.into_iter().flat_map(|thread| match thread.join() {
                Ok(analyzed) => analyzed,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            results.collect()
        })
    }

    fn publish(&mut self, layer: &Option<Layer>) {
        let mut partitions = (**self.state.partitions.load()).clone();
        match self.writers.get(layer) {
            Some(writer) if !writer.is_empty() => {
                partitions.insert(layer.clone(), writer.snapshot());
            }
            // Owners come and go; those without entries take no memory.
            _ => {
                partitions.remove(layer);
                self.writers.remove(layer);
            }
        }
        self.state.partitions.store(Arc::new(partitions));
    }

    /// Starts the merges that are due.
    fn merge(&mut self) {
        let mut changed = Vec::new();
        for (layer, writer) in &mut self.writers {
            while let Some(task) = writer.plan_merge() {
                if task.documents() <= MAX_INLINE_MERGE {
                    writer.apply_merge(task.run());
                    changed.push(layer.clone());
                } else {
                    let (merged, publisher) = (self.merged.0.clone(), Arc::clone(&self.publisher));
                    merge_on_thread(layer.clone(), task, merged, publisher);
                    break;
                }
            }
        }
        for layer in changed {
            self.publish(&layer);
        }
    }
}

/// Returns whether the catalog still has the row of a difference, maybe read again from a store that lost commits.
fn is_current(catalog: &Catalog, difference: &CatalogDifference) -> bool {
    match (&difference.row, &difference.layer) {
        (ChangedRow::Skill(row), Some(layer)) => {
            catalog.stored_skill(layer, &row.id).is_some_and(|found| found == row)
        }
        // Only texts of stored skills are tried again.
        _ => true,
    }
}

/// Analyzes an entry. One whose text makes the analyzer panic is found by its metadata, and keeps no other from being
/// found.
fn analyze(analyzer: &mut Analyzer, difference: &CatalogDifference, root: &RootText) -> Analyzed {
    let mut attempt = |text: Option<&str>| {
        let analyzed = catch_unwind(AssertUnwindSafe(|| {
            document(difference, text).map(|document| analyzer.analyze(&document))
        }));
        if analyzed.is_err() {
            tracing::error!(id = %difference.id, "entry not indexed in full: its text cannot be analyzed");
            analyzer.reset();
        }
        analyzed.ok()
    };
    match attempt(root.text.as_deref()) {
        Some(analyzed) => (analyzed, root.failure),
        None => (attempt(None).flatten(), None),
    }
}

/// Returns the document of an entry; that of a removed one is `None`.
fn document(difference: &CatalogDifference, text: Option<&str>) -> Option<SearchDocument> {
    match &difference.row {
        ChangedRow::Removed(_) => None,
        ChangedRow::Prompt(row) => Some(documents::of_prompt(row)),
        ChangedRow::Skill(row) => Some(documents::of_skill(row, text)),
    }
}

/// Merges on a thread of its own, and wakes the indexer.
fn merge_on_thread(
    layer: Option<Layer>,
    task: MergeTask,
    merged: mpsc::Sender<Merged>,
    publisher: Arc<Publisher>,
) {
    let work = move || {
        if merged.send((layer, task.run())).is_ok() {
            publisher.index_signal.raise();
        }
    };
    let started = thread::Builder::new().name("search-merge".to_owned()).spawn(work);
    if let Err(error) = started {
        // The segments stay unmerged, which makes searches slower and nothing else.
        tracing::warn!(%error, "search index not merged");
    }
}
