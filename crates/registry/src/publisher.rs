//! State that the writer thread publishes after a commit: the catalog, the feeds, its own health, and the caches that a
//! commit may make stale.

use std::{collections::BTreeSet, sync::Arc};

use arc_swap::{ArcSwap, ArcSwapOption};
use skills_core::Timestamp;
use skills_store::{Action, Change, Effect, StateChange};
use tokio::sync::watch;

use crate::{
    Catalog, RegistryError,
    blob_cache::BlobCache,
    feed::{ChangeItem, Feed, HistoryReset},
    live::{LiveChange, LiveUpdate},
    lost_commits::VerifiedPosition,
    recovery::WriterHealth,
    search::IndexSignal,
    store_contact::StoreContact,
    version_cache::VersionCache,
};

/// Bytes of the newest changes that a feed keeps in memory for its slowest subscriber.
const CHANGE_FEED_BYTES: usize = 4 << 20;
/// Bytes of the newest bus state changes, which carry their values.
const STATE_FEED_BYTES: usize = 16 << 20;
/// Bytes of the newest changes of live entries, which carry ids only.
const LIVE_FEED_BYTES: usize = 1 << 20;
/// Memory that a change takes beside its content.
const CHANGE_OVERHEAD: usize = 512;
/// Memory that a change of a live entry takes beside its id.
const LIVE_CHANGE_OVERHEAD: usize = 64;

/// Catalog and feeds. Only the writer thread changes them, so readers see them in commit order.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) catalog: ArcSwap<Catalog>,
    pub(crate) changes: Feed<ChangeItem>,
    /// Newest reset merged with those before, for subscribers that missed some of them in the feed.
    pub(crate) last_reset: Arc<ArcSwapOption<HistoryReset>>,
    /// Position up to which the log of the store was compared with the catalog.
    pub(crate) verified: VerifiedPosition,
    pub(crate) state: Feed<Arc<StateChange>>,
    pub(crate) live: Feed<LiveChange>,
    /// Counts the requests to list tools again.
    pub(crate) tools_refresh: watch::Sender<u64>,
    pub(crate) health: watch::Sender<WriterHealth>,
    pub(crate) store_contact: StoreContact,
    pub(crate) blobs: BlobCache,
    pub(crate) versions: VersionCache,
    /// Wakes the search index after each new catalog.
    pub(crate) index_signal: IndexSignal,
}

impl Publisher {
    pub(crate) fn new(catalog: Catalog, blobs: BlobCache, store_contact: StoreContact) -> Self {
        Self {
            blobs,
            versions: VersionCache::default(),
            verified: VerifiedPosition::new(catalog.position()),
            catalog: ArcSwap::from_pointee(catalog),
            changes: Feed::new(CHANGE_FEED_BYTES),
            last_reset: Arc::default(),
            state: Feed::new(STATE_FEED_BYTES),
            live: Feed::new(LIVE_FEED_BYTES),
            tools_refresh: watch::Sender::new(0),
            health: watch::Sender::default(),
            store_contact,
            index_signal: IndexSignal::default(),
        }
    }

    /// Returns the error of a request that the writer thread dropped without a reply.
    pub(crate) fn dropped_error(&self) -> RegistryError {
        match *self.health.borrow() {
            WriterHealth::Failed => RegistryError::WriterStopped,
            WriterHealth::Writing | WriterHealth::Recovering => RegistryError::OutcomeUnknown,
        }
    }

    /// Returns the error of a request for which no writer thread runs.
    pub(crate) fn closed_error(&self) -> RegistryError {
        match *self.health.borrow() {
            WriterHealth::Failed => RegistryError::WriterStopped,
            WriterHealth::Writing | WriterHealth::Recovering => RegistryError::Closed,
        }
    }

    /// Swaps the catalog, then notifies: a subscriber that receives a change can already read it.
    pub(crate) fn publish(&self, effects: Vec<Effect>) {
        let (mut changes, mut state) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Changed(change) => changes.push(Arc::new(change)),
                Effect::Erased { change, blobs, .. } => {
                    self.blobs.forget(&blobs);
                    changes.push(Arc::new(change));
                }
                Effect::State(change) => state.push(change),
                Effect::Nothing | Effect::Unchanged { .. } => {}
            }
        }
        // A store may carry out the batches of a group side by side.
        changes.sort_by_key(|change| change.revision);
        // A shared store may return a change that the log gave already.
        let known = self.catalog.load().position();
        changes.retain(|change| change.revision > known.revision);
        for change in &changes {
            self.versions.invalidate(&change.key);
        }
        if !changes.is_empty() {
            let next = self.catalog.load().with(changes.iter().map(AsRef::as_ref));
            self.catalog.store(Arc::new(next));
            let purged =
                changes.iter().filter(|change| matches!(change.action, Action::Purge { .. }));
            purged.for_each(|change| self.index_signal.purge(change.key.layer.clone()));
            self.index_signal.raise();
        }
        for change in changes {
            let content = change.content().map_or(0, |content| content.weight());
            let history = known.history;
            self.changes.send(ChangeItem::Change { history, change }, CHANGE_OVERHEAD + content);
        }
        for change in state {
            let size = |value: &Option<String>| value.as_ref().map_or(0, String::len);
            let bytes = CHANGE_OVERHEAD + size(&change.old) + size(&change.new);
            self.state.send(Arc::new(change), bytes);
        }
    }

    /// Swaps the catalog for one that was read again because the store lost commits, then notifies of each entry that is
    /// different.
    pub(crate) fn replace(&self, next: &Catalog) {
        let (before, now) = (self.catalog.load_full(), Timestamp::now());
        let next = Arc::new(next.replacing(&before));
        let changes = before.changes_to(&next, now);
        self.versions.invalidate_all();
        self.blobs.clear();
        self.verified.replace(next.position(), || self.catalog.store(Arc::clone(&next)));
        // Texts that are gone may have been purged.
        let layers: BTreeSet<_> = changes.iter().map(|change| &change.key.layer).collect();
        layers.into_iter().for_each(|layer| self.index_signal.purge(layer.clone()));
        self.index_signal.raise();
        tracing::warn!(
            known = before.revision(),
            revision = next.revision(),
            entries = changes.len(),
            "store lost commits, catalog read again"
        );
        let bytes = CHANGE_OVERHEAD * (changes.len() + 1);
        let to = next.position().stored_revision();
        let reset = Arc::new(HistoryReset::new(to, before.revision(), changes));
        let merged = match self.last_reset.load_full() {
            Some(earlier) => Arc::new(reset.merged_with(&earlier, |key| next.change_to(key, now))),
            None => Arc::clone(&reset),
        };
        self.last_reset.store(Some(merged));
        self.changes.send(ChangeItem::Reset(reset), bytes);
    }

    /// Drops cached blobs after changes that may have removed some. Other servers do not tell which.
    pub(crate) fn forget_erased(&self, changes: &[Change]) {
        let is_erasure = |change: &Change| {
            matches!(change.action, Action::Purge { .. } | Action::Collect { .. })
        };
        if changes.iter().any(is_erasure) {
            self.blobs.clear();
        }
    }

    /// Swaps the catalog for one with the updated live clients, then notifies.
    pub(crate) fn publish_live(&self, updates: &[LiveUpdate], now: Timestamp) {
        let (next, changes) = self.catalog.load().with_live(updates, now);
        self.catalog.store(Arc::new(next));
        self.index_signal.raise();
        for change in changes {
            let bytes = LIVE_CHANGE_OVERHEAD + change.id.len();
            self.live.send(change, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use skills_core::{EntryKind, Layer, PromptDefinition, resolve::Prefix};
    use skills_store::{Batch, EntryContent, MemoryStore, Mutation, PublishOptions, Store as _};

    use super::*;
    use crate::lost_commits;

    /// Returns a catalog of prompts with their descriptions.
    fn catalog(prompts: &[(&str, &str)]) -> Catalog {
        let store = MemoryStore::new();
        for (at, (id, description)) in (1..).zip(prompts) {
            let content = EntryContent::Prompt(PromptDefinition {
                description: (*description).to_owned(),
                arguments: vec![],
                function_id: "f::g".to_owned(),
            });
            let (layer, id) = (Layer::Official, (*id).into());
            let (blobs, options) = (vec![], PublishOptions::default());
            let put = Mutation::Put { layer, id, content, blobs, options };
            store.commit(vec![Batch::new("t", vec![put])], Timestamp::from_micros(at)).unwrap();
        }
        lost_commits::read_catalog(&store, Prefix::default()).unwrap()
    }

    fn publisher(prompts: &[(&str, &str)]) -> Publisher {
        let blobs = BlobCache::new(Arc::new(MemoryStore::new()), 0);
        Publisher::new(catalog(prompts), blobs, StoreContact::new(None))
    }

    #[test]
    fn texts_of_a_layer_that_lost_commits_are_dropped_from_the_index() {
        let publisher = publisher(&[("a", "1")]);
        publisher.replace(&catalog(&[("a", "1")]));
        assert!(publisher.index_signal.take_purged().is_empty(), "nothing is different");
        publisher.replace(&catalog(&[]));
        assert!(publisher.index_signal.take_purged().into_iter().eq([Layer::Official]));
    }

    #[test]
    fn the_newest_reset_has_the_differences_of_those_before() {
        let publisher = publisher(&[("same", "1"), ("gone", "1"), ("other", "1"), ("back", "1")]);
        publisher.replace(&catalog(&[("same", "1"), ("other", "2"), ("back", "2")]));
        publisher.replace(&catalog(&[("same", "1"), ("other", "2"), ("back", "1")]));
        let reset = publisher.last_reset.load_full().unwrap();
        let since = |history| {
            let changes = reset.changes_since(history).map(|change| {
                assert_eq!((change.key.kind, change.revision), (EntryKind::Prompt, 3));
                (change.key.id.to_string(), change.is_served())
            });
            let mut changes: Vec<_> = changes.collect();
            changes.sort();
            changes
        };
        let expected = [("back", true), ("gone", false), ("other", true)];
        assert_eq!(since(0), expected.map(|(id, is_served)| (id.to_owned(), is_served)));
        assert_eq!(since(1), [("back".to_owned(), true)]);
        assert!(since(2).is_empty());
    }
}
