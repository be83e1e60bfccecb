//! Cache of histories. A history grows by the changes that are new; only one request at a time extends it.

use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use skills_registry::{RegistryError, SkillRegistry, catalog::StoredRevision};
use tokio::sync::Mutex as AsyncMutex;

use crate::{
    history::{History, Progress},
    pack_entries::PackEntries,
    skill_tree::BlobIds,
    view::View,
};

/// Most bytes of cached histories.
const MAX_BYTES: usize = 48 << 20;

/// Histories of views.
#[derive(Debug)]
pub(crate) struct Repositories {
    pub(crate) blobs: Arc<BlobIds>,
    pub(crate) entries: Arc<PackEntries>,
    cache: Mutex<LruCache<View, Slot>>,
}

#[derive(Debug, Clone)]
struct Slot {
    weight: usize,
    cached: Arc<AsyncMutex<Cached>>,
}

#[derive(Debug, Default)]
struct Cached {
    history: Option<Arc<History>>,
    /// Revision of the catalog that the history has all changes of.
    catalog: StoredRevision,
}

impl Default for Repositories {
    fn default() -> Self {
        let entries: Arc<PackEntries> = Arc::default();
        let blobs = Arc::new(BlobIds::new(Arc::clone(&entries)));
        Self { blobs, entries, cache: Mutex::new(LruCache::unbounded()) }
    }
}

impl Repositories {
    /// Returns the history of a view with all changes so far. `skills` is the registry as the view's owner sees it.
    ///
    /// A client that gives up does not stop the work: the next one would have to begin again.
    pub(crate) async fn history(
        self: &Arc<Self>,
        skills: &Arc<dyn SkillRegistry>,
        view: View,
    ) -> Result<Arc<History>, RegistryError> {
        if let Some(history) = self.cached(&**skills, &view).await? {
            return Ok(history);
        }
        let (repositories, skills) = (Arc::clone(self), Arc::clone(skills));
        let work = async move { repositories.current(&*skills, &view).await };
        // Replaying a log reads and hashes all files, which must not hold up other requests.
        let runtime = tokio::runtime::Handle::current();
        let replayed = tokio::task::spawn_blocking(move || runtime.block_on(work)).await;
        replayed.map_err(|_| RegistryError::Closed)?
    }

    /// Returns the history of a view if it has all changes, without waiting for another request that extends it.
    async fn cached(
        &self,
        skills: &dyn SkillRegistry,
        view: &View,
    ) -> Result<Option<Arc<History>>, RegistryError> {
        let (revision, _) = skills.catalog().await?.stored_version();
        let Some(slot) = self.cache.lock().get(view).cloned() else { return Ok(None) };
        let Ok(cached) = slot.cached.try_lock() else { return Ok(None) };
        Ok(cached.history.as_ref().filter(|_| cached.catalog == revision).cloned())
    }

    async fn current(
        &self,
        skills: &dyn SkillRegistry,
        view: &View,
    ) -> Result<Arc<History>, RegistryError> {
        let (revision, _) = skills.catalog().await?.stored_version();
        let slot = {
            let mut cache = self.cache.lock();
            let new = || Slot { weight: 0, cached: Arc::default() };
            cache.get_or_insert(view.clone(), new).clone()
        };
        let mut cached = slot.cached.lock().await;
        if let Some(history) = cached.history.as_ref().filter(|_| cached.catalog == revision) {
            return Ok(Arc::clone(history));
        }
        if cached.history.is_some() && cached.catalog.history != revision.history {
            // The store lost commits, which the history may have.
            self.entries.clear();
            cached.history = None;
        }
        let history = self.extended(skills, view, cached.history.as_ref()).await?;
        cached.history = Some(Arc::clone(&history));
        cached.catalog = revision;
        drop(cached);
        if history.is_empty() && view.selection.skill().is_some() {
            // Anyone can ask for skills that never existed.
            self.cache.lock().pop(view);
        } else {
            self.set_weight(view, history.weight());
        }
        Ok(history)
    }

    async fn extended(
        &self,
        skills: &dyn SkillRegistry,
        view: &View,
        known: Option<&Arc<History>>,
    ) -> Result<Arc<History>, RegistryError> {
        if let Some(known) = known {
            let page = skills.skill_log(&known.next_request()).await?;
            if page.changes.is_empty() {
                return Ok(Arc::clone(known));
            }
            let mut next = History::clone(known);
            if next.extend(skills, &self.blobs, page).await? == Progress::Complete {
                return Ok(Arc::new(next));
            }
            // Purged content is in no history any more, and has to leave the memory too.
            self.entries.clear();
        }
        let mut history = History::new(view.clone());
        let page = skills.skill_log(&history.next_request()).await?;
        history.extend(skills, &self.blobs, page).await?;
        Ok(Arc::new(history))
    }

    /// Records the memory of a history, and evicts those that were not used for longest.
    fn set_weight(&self, view: &View, weight: usize) {
        let mut cache = self.cache.lock();
        if let Some(slot) = cache.get_mut(view) {
            slot.weight = weight;
        }
        let mut total: usize = cache.iter().map(|(_, slot)| slot.weight + 256).sum();
        while total > MAX_BYTES && cache.len() > 1 {
            let Some((_, evicted)) = cache.pop_lru() else { break };
            total = total.saturating_sub(evicted.weight + 256);
        }
    }
}
