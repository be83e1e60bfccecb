//! Cache of histories. A history grows by the changes that are new; only one request at a time extends it.

use std::sync::Arc;

use skills_core::{WorkAccount, WorkKind, work::Turn};
use skills_registry::{SkillRegistry, catalog::StoredRevision};

use crate::{
    error::DistributionError,
    history::{History, Progress, ReplayContext},
    pack_entries::PackEntries,
    skill_tree::BlobIds,
    timeline::includes,
    turn_cache::{TurnCache, turn_end},
    view::View,
};

/// Most bytes of cached histories.
const MAX_BYTES: usize = 48 << 20;

const REPLAY: WorkKind = WorkKind::compute("history of a git remote");
/// Memory of a turn besides the history and the files that it reads: a page of the log.
const REPLAY_BYTES: usize = 1 << 20;

/// Histories of views.
#[derive(Debug)]
pub(crate) struct Repositories {
    pub(crate) blobs: Arc<BlobIds>,
    pub(crate) entries: Arc<PackEntries>,
    histories: TurnCache<View, Cached>,
}

#[derive(Debug, Default)]
struct Cached {
    history: Option<Arc<History>>,
    /// Revision of the catalog that the history has all changes of.
    catalog: StoredRevision,
    /// History that lacks a part of the log, and the number of the store's history that it is of.
    partial: Option<(History, u64)>,
}

impl Cached {
    /// Returns the history if it has all changes up to a revision.
    fn find(&self, wanted: StoredRevision) -> Option<Arc<History>> {
        self.history.as_ref().filter(|_| includes(self.catalog, wanted)).cloned()
    }
}

impl Default for Repositories {
    fn default() -> Self {
        let entries: Arc<PackEntries> = Arc::default();
        let blobs = Arc::new(BlobIds::new(Arc::clone(&entries)));
        Self { blobs, entries, histories: TurnCache::new(MAX_BYTES) }
    }
}

impl Repositories {
    /// Returns the history of a view with all changes so far. `skills` is the registry as the view's owner sees it.
    ///
    /// Replaying a log reads and hashes all files. The clients that wait for it take turns, each on its own account; what
    /// was replayed for a client that gives up is there for the next one.
    pub(crate) async fn history(
        self: &Arc<Self>,
        skills: &Arc<dyn SkillRegistry>,
        view: View,
    ) -> Result<Arc<History>, DistributionError> {
        let (revision, _) = skills.catalog().await?.stored_version();
        let turns = self.histories.get(&view);
        if let Some(history) = turns.peek(|cached| cached.find(revision)) {
            return Ok(history);
        }
        let account = WorkAccount::current();
        let find = |cached: &Cached| cached.find(revision);
        let (repositories, skills, own) = (Arc::clone(self), Arc::clone(skills), account.clone());
        let replayed_view = view.clone();
        let turn = move |cached: &mut Cached, turn: &Turn<'_>| {
            let extended = repositories.extend(&*skills, &replayed_view, cached, (&own, turn));
            turn_end(own.block_on(extended))
        };
        let history = turns.take(&account, (REPLAY, REPLAY_BYTES), find, turn).await?;
        if history.is_empty() && view.selection.skill().is_some() {
            // Anyone can ask for skills that never existed.
            self.histories.remove(&view);
        }
        Ok(history)
    }

    /// Extends the history of a view for a turn.
    async fn extend(
        &self,
        skills: &dyn SkillRegistry,
        view: &View,
        cached: &mut Cached,
        (account, turn): (&WorkAccount, &Turn<'_>),
    ) -> Result<(), DistributionError> {
        let (revision, _) = skills.catalog().await?.stored_version();
        if cached.history.is_some() && cached.catalog.history != revision.history {
            // The store lost commits, which the history may have.
            self.entries.clear();
            cached.history = None;
        }
        cached.partial.take_if(|(_, number)| *number != revision.history);
        let begin = || History::new(view.clone(), revision.revision);
        let request = match (&cached.partial, &cached.history) {
            (Some((partial, _)), _) => partial.next_request(),
            (None, Some(known)) => known.next_request(),
            (None, None) => begin().next_request(),
        };
        let page = skills.skill_log(&request).await?;
        if cached.partial.is_none() && cached.history.is_some() && page.changes.is_empty() {
            cached.catalog = revision;
            return Ok(());
        }
        let mut history = match (cached.partial.take(), &cached.history) {
            (Some((partial, _)), _) => partial,
            (None, Some(known)) => History::clone(known),
            (None, None) => begin(),
        };
        let context = ReplayContext { skills, blobs: &self.blobs, account, turn };
        let progress = history.extend(&context, page).await;
        if let Ok(Progress::Rewritten(read)) = progress {
            // Purged content is in no history any more, and has to leave the memory too.
            self.entries.clear();
            history = History::new(view.clone(), revision.revision.max(read));
        }
        self.histories.set_weight(view, history.weight());
        if matches!(progress, Ok(Progress::Complete)) {
            cached.history = Some(Arc::new(history));
            cached.catalog = revision;
        } else {
            cached.partial = Some((history, revision.history));
        }
        progress.map(drop)
    }
}
