//! The catalog: all metadata, no bodies, as an immutable snapshot that one caller sees.
//!
//! - `catalog_data`: all layers, as they are stored; `builder`: those of a remote registry
//! - `layer_index`: one layer, and merging several of them in order; `row_map`: its rows by id
//! - `live_index`: entries of live clients, below all layers
//! - `collection_row`: rows of collections
//! - `rows`: rows of listings; `page`: pages of them; `count`: their number; `tools`: the tools among them
//! - `markdown_index`: the document `iii://skills`
//! - `resolution`: the entry that a name means; `explain`: its steps; `differences`: what is new in a later snapshot
//! - `replacement`: a snapshot that was read again after the store lost commits
//!
//! Snapshots and views share structure: a commit costs O(log n) on average, a view next to nothing, and a reader may
//! keep its snapshot. [`Catalog::skill`] and [`Catalog::prompt`] resolve names for every surface; the rule itself is
//! [`skills_core::resolve`].

mod builder;
mod catalog_data;
mod collection_row;
mod count;
mod differences;
mod explain;
mod layer_index;
mod live_index;
mod markdown_index;
mod page;
mod replacement;
mod resolution;
mod row_map;
mod rows;
#[cfg(test)]
pub(crate) mod tests;
mod tools;

use std::{
    ops::Bound,
    sync::{Arc, OnceLock},
};

use lru::LruCache;
use parking_lot::Mutex;
use skills_core::{
    Caller, EntryKey, EntryKind, Layer, Owner, Tier, Timestamp,
    resolve::{Candidates, Prefix},
};
use skills_store::{Fingerprint, StoredEntry};

pub use self::{
    builder::CatalogBuilder,
    collection_row::CollectionRow,
    differences::{CatalogDifference, ChangedRow},
    explain::{ExplainedLayer, Explanation},
    markdown_index::{INDEX_DESCRIPTION, INDEX_NAME, INDEX_TITLE},
    page::{PAGE_BYTES, page},
    rows::{PromptRow, SkillRow},
    tools::ToolList,
};
use self::{
    catalog_data::CatalogData,
    layer_index::{LayerIndex, MergedRows, Table, after},
};
use crate::{
    Change,
    live::{LiveChange, LiveUpdate},
    lost_commits::HistoryPosition,
    search::RowSearch,
};

/// Most views of a snapshot that are cached.
const MAX_CACHED_VIEWS: usize = 64;

/// Revision of the stored entries of a catalog, by which their caches in this process are named. A store that lost commits
/// gives their revisions out again, in another history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StoredRevision {
    /// Number of the history; 0 unless the store lost commits while this process ran.
    pub history: u64,
    /// Revision of the last change.
    pub revision: u64,
}

impl StoredRevision {
    /// Returns the next revision of the history.
    pub(crate) const fn next(self) -> Self {
        Self { revision: self.revision + 1, ..self }
    }
}

/// A snapshot of all entries, as one caller sees it.
#[derive(Debug)]
pub struct Catalog {
    data: CatalogData,
    owner: Option<Owner>,
    /// Visible layers in the order of resolution.
    layers: Vec<Arc<LayerIndex>>,
    index: OnceLock<Arc<str>>,
    skill_count: OnceLock<usize>,
    /// Search index of the rows alone, where there is no better one.
    row_search: OnceLock<Arc<RowSearch>>,
    views: OnceLock<Mutex<LruCache<Owner, Arc<Self>>>>,
}

impl Default for Catalog {
    fn default() -> Self {
        CatalogData::default().into()
    }
}

impl From<CatalogData> for Catalog {
    /// Creates the view of an anonymous caller.
    fn from(data: CatalogData) -> Self {
        Self::new(data, None)
    }
}

impl Catalog {
    fn new(data: CatalogData, owner: Option<Owner>) -> Self {
        let private = owner.clone().map(Layer::Private);
        let layers = private.into_iter().chain([Layer::Official, Layer::Market]);
        let layers = layers.filter_map(|layer| data.layers.get(&layer).cloned()).collect();
        Self {
            data,
            owner,
            layers,
            index: OnceLock::new(),
            skill_count: OnceLock::new(),
            row_search: OnceLock::new(),
            views: OnceLock::new(),
        }
    }

    /// Builds the catalog of a store at a revision. No entry need have that revision: the last change may have been
    /// a removal.
    #[must_use]
    pub fn from_entries(entries: Vec<StoredEntry>, revision: u64, prefix: Prefix) -> Self {
        let position = HistoryPosition::new(revision, Fingerprint::default());
        Self::from_store(entries, position, prefix)
    }

    /// Builds the catalog of a store at a position of its history.
    pub(crate) fn from_store(
        entries: Vec<StoredEntry>,
        position: HistoryPosition,
        prefix: Prefix,
    ) -> Self {
        CatalogData::from_entries(entries, position, prefix).into()
    }

    /// Returns the next snapshot.
    #[must_use]
    pub fn with<'a>(&self, changes: impl IntoIterator<Item = &'a Change>) -> Self {
        let mut data = self.data.clone();
        changes.into_iter().for_each(|change| data.apply(change));
        data.public_count = Arc::default();
        Self::new(data, self.owner.clone())
    }

    /// Returns the next snapshot after updates of live clients, and the changes to notify of. The cost depends on the
    /// entries of these clients alone.
    #[must_use]
    pub fn with_live(&self, updates: &[LiveUpdate], at: Timestamp) -> (Self, Vec<LiveChange>) {
        let mut data = self.data.clone();
        let changes = updates.iter().flat_map(|update| data.live.apply(update, at)).collect();
        (Self::new(data, self.owner.clone()), changes)
    }

    /// Returns the snapshot as a caller sees it. Callers without private entries share one view.
    #[must_use]
    pub fn view_for(self: &Arc<Self>, caller: &Caller) -> Arc<Self> {
        self.view_for_owner(caller.owner())
    }

    fn view_for_owner(self: &Arc<Self>, owner: Option<&Owner>) -> Arc<Self> {
        // Looked up in all layers, since this may be the view of another owner.
        let has_layer =
            |owner: &&Owner| self.data.layers.contains_key(&Layer::Private((*owner).clone()));
        let owner = owner.filter(has_layer);
        if owner == self.owner.as_ref() {
            return Arc::clone(self);
        }
        let Some(owner) = owner else { return Arc::new(Self::new(self.data.clone(), None)) };
        let views = self.views.get_or_init(|| Mutex::new(LruCache::unbounded()));
        let mut views = views.lock();
        if let Some(view) = views.get(owner) {
            return Arc::clone(view);
        }
        let view = Arc::new(Self::new(self.data.clone(), Some(owner.clone())));
        views.put(owner.clone(), Arc::clone(&view));
        if views.len() > MAX_CACHED_VIEWS {
            views.pop_lru();
        }
        view
    }

    /// Returns the collections that their names resolve to, sorted by name.
    pub fn collections(&self) -> impl Iterator<Item = &Arc<CollectionRow>> {
        let layers = self.layers.iter().map(|layer| layer.collections.range_from(after(None)));
        MergedRows::new(layers).first_of_each().map(|(_, row)| row)
    }

    /// Returns the collection that a name resolves to.
    #[must_use]
    pub fn collection(&self, name: &str) -> Option<&Arc<CollectionRow>> {
        self.layers.iter().find_map(|layer| layer.collections.get(name))
    }

    /// Returns the collection of a name in a tier.
    #[must_use]
    pub fn collection_in(&self, tier: Tier, name: &str) -> Option<&Arc<CollectionRow>> {
        let mut layers = self.layers.iter().filter(|layer| layer.layer.tier() == tier);
        layers.find_map(|layer| layer.collections.get(name))
    }

    /// Returns the revision of the last change in this snapshot.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.data.position.revision
    }

    /// Returns the position of this snapshot in the history of the store.
    pub(crate) const fn position(&self) -> HistoryPosition {
        self.data.position
    }

    /// Returns the version of this snapshot: revisions of the stored and of the live entries.
    #[must_use]
    pub const fn version(&self) -> (StoredRevision, u64) {
        (self.data.position.stored_revision(), self.data.live.revision)
    }

    /// Returns the version of the stored entries that this view shows, for caches in this process.
    #[must_use]
    pub const fn stored_version(&self) -> (StoredRevision, Option<&Owner>) {
        (self.data.position.stored_revision(), self.owner.as_ref())
    }

    /// Returns whether a live client of that id is connected.
    #[must_use]
    pub fn has_client(&self, id: &str) -> bool {
        self.data.live.has_client(id)
    }

    /// Returns whether a change that this snapshot includes affects the tools. Among changes close to each other
    /// there may be false positives.
    pub(crate) fn change_affects_tools(&self, change: &Change) -> bool {
        match self.data.layers.get(&change.key.layer) {
            Some(layer) => layer.tools_revision >= change.revision,
            // The layer is empty now, and its former entries are unknown.
            None => change.key.kind == EntryKind::Skill,
        }
    }

    /// Returns the optional name prefix of resolution.
    #[must_use]
    pub const fn prefix(&self) -> &Prefix {
        &self.data.prefix
    }

    /// Adds entries that exist and serve nothing, because their versions are all yanked.
    #[must_use]
    pub fn with_withdrawn(&self, keys: &[EntryKey]) -> Self {
        let mut data = self.data.clone();
        keys.iter().for_each(|key| data.withdraw(key));
        data.public_count = Arc::default();
        Self::new(data, self.owner.clone())
    }

    /// Returns the skill of any layer, visible or not, for administrators.
    #[must_use]
    pub fn stored_skill(&self, layer: &Layer, id: &str) -> Option<&Arc<SkillRow>> {
        self.data.layers.get(layer)?.skills.get(id)
    }

    /// Iterates over the skills of all layers of all owners, for administration and export.
    pub fn stored_skills(&self) -> impl Iterator<Item = (&Layer, &Arc<SkillRow>)> {
        let layers = self.data.layers.iter();
        layers.flat_map(|(layer, index)| index.skills.rows().map(move |row| (layer, row)))
    }

    /// Returns the skills that their ids resolve to, sorted by id.
    #[must_use]
    pub fn skills(&self) -> Vec<&Arc<SkillRow>> {
        self.skills_after(None).collect()
    }

    /// Iterates over the skills that their ids resolve to, after an id, sorted. The first step costs O(log n), and so
    /// does each following one.
    ///
    /// Shadowed skills are left out, also those that a prefixed id shadows: an id from the list reads as listed.
    pub fn skills_after(&self, id: Option<&str>) -> impl Iterator<Item = &Arc<SkillRow>> {
        let layers = self.skill_tables().map(move |table| table.range_from(after(id)));
        let first = MergedRows::new(layers).first_of_each();
        first
            .filter(|(layer, row)| !self.is_shadowed(*layer, &row.id, |layer| &layer.skills))
            .map(|(_, row)| row)
    }

    /// Iterates over the skills of all visible layers, sorted by id and then by tier, after one of them.
    pub fn layered_after(
        &self,
        last: Option<(&str, Tier)>,
    ) -> impl Iterator<Item = &Arc<SkillRow>> {
        let from = last.map_or(Bound::Unbounded, |(id, _)| Bound::Included(id));
        let rows = MergedRows::new(self.skill_tables().map(move |table| table.range_from(from)));
        let is_next = move |row: &&Arc<SkillRow>| {
            last.is_none_or(|(id, tier)| &*row.id != id || row.tier > tier)
        };
        rows.map(|(_, row)| row).filter(is_next)
    }

    /// Iterates over the skills of one visible tier, after one that [`layered_after`](Self::layered_after) yields.
    /// Other tiers cost nothing.
    pub fn tier_after(
        &self,
        tier: Tier,
        last: Option<(&str, Tier)>,
    ) -> impl Iterator<Item = &Arc<SkillRow>> {
        let from = match last {
            Some((id, before)) if before < tier => Bound::Included(id),
            last => after(last.map(|(id, _)| id)),
        };
        let layers = self.layers.iter().filter(move |layer| layer.layer.tier() == tier);
        layers.flat_map(move |layer| layer.skills.range_from(from)).map(|(_, row)| row)
    }

    /// Returns whether the id of a skill resolves to that skill.
    #[must_use]
    pub fn is_effective(&self, row: &Arc<SkillRow>) -> bool {
        self.skill(&row.id).is_some_and(|found| Arc::ptr_eq(found, row))
    }

    /// Returns the number of skills that their ids resolve to. It is computed once; views share the count of the
    /// public layers.
    pub fn skill_count(&self) -> usize {
        let prefix = &self.data.prefix;
        let public_count = |layers: &[Arc<LayerIndex>]| {
            *self.data.public_count.get_or_init(|| count::effective(layers, prefix))
        };
        *self.skill_count.get_or_init(|| {
            let stored = match self.layers.as_slice() {
                [private, public @ ..] if self.owner.is_some() => {
                    count::with_private(private, public, public_count(public), prefix)
                }
                public => public_count(public),
            };
            // No stored skill has the id of a live one.
            stored + self.data.live.skills.len()
        })
    }

    /// Iterates over the tables of skills, stored and live, in the order of resolution.
    fn skill_tables(&self) -> impl Iterator<Item = &Table<SkillRow>> {
        self.layers.iter().map(|layer| &layer.skills).chain([&self.data.live.skills])
    }

    /// Returns the prompts that their names resolve to, sorted by name.
    #[must_use]
    pub fn prompts(&self) -> Vec<&Arc<PromptRow>> {
        self.prompts_after(None).collect()
    }

    /// Iterates over the prompts that their names resolve to, after a name, sorted.
    pub fn prompts_after(&self, name: Option<&str>) -> impl Iterator<Item = &Arc<PromptRow>> {
        let stored = self.layers.iter().map(|layer| &layer.prompts);
        let tables = stored.chain([&self.data.live.prompts]);
        let layers = tables.map(move |table| table.range_from(after(name)));
        let first = MergedRows::new(layers).first_of_each();
        first
            .filter(|(layer, row)| !self.is_shadowed(*layer, &row.name, |layer| &layer.prompts))
            .map(|(_, row)| row)
    }

    /// Returns whether an id resolves to an entry of an earlier layer whose id has the prefix, or that is withdrawn. Other
    /// entries of earlier layers are listed themselves.
    fn is_shadowed<T>(
        &self,
        layer: usize,
        id: &str,
        table: impl Fn(&LayerIndex) -> &Table<T>,
    ) -> bool {
        let earlier = &self.layers[..layer];
        if earlier.is_empty() {
            return false;
        }
        let names = Candidates::new(id, &self.data.prefix);
        let is_there = |name: &str| earlier.iter().any(|layer| table(layer).slot(name).is_some());
        let has_withdrawn = earlier.iter().any(|layer| table(layer).has_withdrawn());
        // The exact name of a listed entry was merged away already.
        names.iter().skip(if has_withdrawn { 0 } else { 1 }).any(is_there)
    }
}
