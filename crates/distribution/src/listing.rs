//! What a marketplace lists: names, descriptions and versions, from the catalog and the [timelines](crate::timeline) of
//! its layers. The commits of the git remotes have the same versions, but are not needed for them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::{RwLock, RwLockReadGuard};
use skills_core::{Caller, Digest, Layer, Owner, Tier, WorkAccount, WorkKind, work::Turn};
use skills_registry::{
    Catalog, SkillRegistry, SkillRow, available::to_agent_skill, catalog::StoredRevision,
};

use crate::{
    error::DistributionError,
    formats::{ListLines, PluginInfo},
    history::{FolderEntry, Held, Replay, RepositoryHead},
    state::DistributionState,
    timeline::{LayerTimeline, includes, replay_list},
    turn_cache::{TurnCache, turn_end},
    view::{Selection, View},
};

/// Most collections of a marketplace.
const MAX_COLLECTIONS: usize = 100;
/// Most bytes of cached listings.
const MAX_BYTES: usize = 16 << 20;

const LISTING: WorkKind = WorkKind::compute("plugins of a marketplace");
/// Memory of a turn besides the listing and the archives that it packs.
const LISTING_BYTES: usize = 1 << 20;

/// Plugins of a marketplace.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Skills in the order of their names.
    pub(crate) plugins: Vec<ListedPlugin>,
    /// Collections in the order of their names.
    pub(crate) collections: Vec<ListedCollection>,
}

/// Skill as a plugin.
#[derive(Debug, Clone)]
pub(crate) struct ListedPlugin {
    pub(crate) row: Arc<SkillRow>,
    pub(crate) info: PluginInfo,
    /// Digest of its archive, where the marketplace names archives.
    pub(crate) digest: Option<Digest>,
}

/// Collection as a plugin.
#[derive(Debug, Clone)]
pub(crate) struct ListedCollection {
    /// Name of the collection.
    pub(crate) name: Arc<str>,
    pub(crate) info: PluginInfo,
    /// Names of its skills.
    pub(crate) skills: Vec<String>,
}

impl Listing {
    /// Returns the approximate size of a file with all entries.
    pub(crate) fn rendered_size(&self, base: &str) -> usize {
        let entry =
            |info: &PluginInfo| info.description.len() + 3 * info.name.len() + base.len() + 300;
        let plugins = self.plugins.iter().map(|plugin| entry(&plugin.info)).sum::<usize>();
        let skills =
            |it: &ListedCollection| it.skills.iter().map(|name| name.len() + 12).sum::<usize>();
        let collections = self.collections.iter().map(|it| entry(&it.info) + skills(it));
        plugins + collections.sum::<usize>()
    }
}

impl FolderEntry for ListedPlugin {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn version(&self) -> u64 {
        number_of(&self.row)
    }
}

/// Rows of one catalog are equal if they are the same.
impl PartialEq for ListedPlugin {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.row, &other.row)
    }
}

/// Returns the number of a served version.
pub(crate) fn number_of(row: &SkillRow) -> u64 {
    row.heads.as_ref().map_or(0, |heads| heads.served)
}

/// Listings of views, by their owners.
#[derive(Debug)]
pub(crate) struct Listings(Arc<TurnCache<Option<Owner>, ListingState>>);

impl Default for Listings {
    fn default() -> Self {
        Self(Arc::new(TurnCache::new(MAX_BYTES)))
    }
}

/// Listing of one view as it is made.
#[derive(Debug, Default)]
struct ListingState {
    current: Option<(StoredRevision, Arc<Listing>)>,
    /// Plugins of a listing that lacks something, and the revision of their catalog.
    draft: Option<(StoredRevision, Vec<ListedPlugin>)>,
    /// Collections, each with the revisions of the [layers](Source::layers) up to which it has all changes.
    collections: HashMap<Selection, (Vec<u64>, Option<ListedCollection>)>,
    /// Number of the store's history that the collections are of.
    history: u64,
}

/// View that a marketplace is made of, at one revision.
struct Source {
    state: Arc<DistributionState>,
    /// Registry as the view's owner sees it.
    skills: Arc<dyn SkillRegistry>,
    catalog: Arc<Catalog>,
    owner: Option<Owner>,
    collections: Vec<Selection>,
    timelines: Vec<(Tier, Arc<RwLock<LayerTimeline>>)>,
    has_archives: bool,
}

/// Returns what the marketplace of a caller lists, with the digests of archives if it `has_archives`.
pub(crate) async fn listing(
    state: &Arc<DistributionState>,
    caller: &Caller,
    has_archives: bool,
) -> Result<(StoredRevision, Arc<Listing>), DistributionError> {
    let owner = caller.owner().cloned();
    let skills = state.registry_of(owner.as_ref(), caller)?;
    let catalog = skills.catalog().await?;
    let (revision, _) = catalog.stored_version();
    let find = move |listing: &ListingState| {
        let current = listing.current.as_ref();
        current.filter(|(current, _)| includes(*current, revision)).cloned()
    };
    let turns = state.listings.0.get(&owner);
    if let Some(found) = turns.peek(find) {
        return Ok(found);
    }
    let infos = state.view(caller)?.catalog().await?.collection_infos();
    let infos = infos.into_iter().take(MAX_COLLECTIONS);
    let collections = infos.map(|info| state.collection_selection(info)).collect();
    let private = owner.clone().map(Layer::Private);
    let mut timelines = Vec::new();
    for layer in private.into_iter().chain([Layer::Official, Layer::Market]) {
        timelines.push((layer.tier(), state.timelines.get(&skills, &layer, revision).await?));
    }
    let state = Arc::clone(state);
    let source = Source { state, skills, catalog, owner, collections, timelines, has_archives };
    let (account, source) = (WorkAccount::current(), Arc::new(source));
    let own = account.clone();
    let turn = move |listing: &mut ListingState, turn: &Turn<'_>| {
        let made = own.block_on(listing.go_on(&source, (&own, turn)));
        source.state.listings.0.set_weight(&source.owner, listing.weight());
        turn_end(made)
    };
    turns.take(&account, (LISTING, LISTING_BYTES), find, turn).await
}

impl ListingState {
    /// Makes a part of a listing, for a turn.
    async fn go_on(
        &mut self,
        source: &Source,
        (account, turn): (&WorkAccount, &Turn<'_>),
    ) -> Result<(), DistributionError> {
        let (revision, _) = source.catalog.stored_version();
        if !self.replay_collections(source, turn) {
            return Ok(());
        }
        // Another client may have begun a listing of a later revision.
        self.draft.take_if(|(drafted, _)| !includes(*drafted, revision));
        let _reservation = account.memory().try_reserve(source.plugin_memory())?;
        let (_, plugins) = self.draft.get_or_insert_with(|| (revision, source.plugins()));
        if source.has_archives {
            let mut at = 0;
            while let Some(plugin) = plugins.get_mut(at) {
                if plugin.digest.is_some() {
                    at += 1;
                    continue;
                }
                match source.digest(&plugin.row, (account, turn)).await {
                    Ok(digest) => plugin.digest = Some(digest),
                    Err(error) if error.is_unavailable() => return Err(error),
                    // One damaged skill must not hide all others.
                    Err(error) => {
                        tracing::warn!(id = %plugin.row.id, %error, "skill left out of the marketplace");
                        plugins.remove(at);
                    }
                }
                if turn.is_over() {
                    return Ok(());
                }
            }
        }
        let plugins = self.draft.take().map(|(_, plugins)| plugins).unwrap_or_default();
        let collections = source.collections.iter();
        let collections =
            collections.filter_map(|selection| self.collections.get(selection)?.1.clone());
        // Two plugins of one name make a marketplace invalid.
        let mut names: HashSet<String> = plugins.iter().map(|it| it.info.name.clone()).collect();
        let collections = collections.filter(|it| names.insert(it.info.name.clone())).collect();
        // The plugins may be of a later revision, the collections need not be.
        self.current = Some((revision, Arc::new(Listing { plugins, collections })));
        Ok(())
    }

    /// Brings collections up to date. Returns whether all are.
    fn replay_collections(&mut self, source: &Source, turn: &Turn<'_>) -> bool {
        let (revision, _) = source.catalog.stored_version();
        let wanted: HashSet<&Selection> = source.collections.iter().collect();
        let is_same_history =
            std::mem::replace(&mut self.history, revision.history) == revision.history;
        self.collections.retain(|selection, _| is_same_history && wanted.contains(selection));
        let layers = source.layers();
        for selection in &source.collections {
            if let Some((through, _)) = self.collections.get(selection)
                && !changed_after(&layers, selection, through)
            {
                continue;
            }
            let through = layers.iter().map(|(_, layer)| layer.revision()).collect();
            let replayed = source.collection(&layers, selection);
            self.collections.insert(selection.clone(), (through, replayed));
            if turn.is_over() {
                return false;
            }
        }
        true
    }

    /// Returns the approximate memory in bytes.
    fn weight(&self) -> usize {
        let info = |info: &PluginInfo| info.name.len() + info.description.len() + 400;
        let plugins = |plugins: &[ListedPlugin]| {
            plugins.iter().map(|plugin| info(&plugin.info)).sum::<usize>()
        };
        let collections: usize = self
            .collections
            .iter()
            .map(|(selection, (_, listed))| {
                let members = selection.members().map(|(id, _)| id.len() + 64).sum::<usize>();
                let names = listed.as_ref().map_or(0, |it| {
                    info(&it.info) + it.skills.iter().map(|name| name.len() + 32).sum::<usize>()
                });
                members + 2 * names
            })
            .sum();
        let current = self.current.as_ref().map_or(0, |(_, listing)| plugins(&listing.plugins));
        let draft = self.draft.as_ref().map_or(0, |(_, draft)| plugins(draft));
        current + draft + collections
    }
}

type Layers<'a> = [(Tier, RwLockReadGuard<'a, LayerTimeline>)];

/// Returns whether a skill of a list was changed in a layer after the layer's revision in `through`. Each layer has its own,
/// since they are read one after another.
fn changed_after(layers: &Layers<'_>, selection: &Selection, through: &[u64]) -> bool {
    selection.members().any(|(id, _)| {
        let mut layers = layers.iter().zip(through);
        layers.any(|((_, layer), through)| layer.last_change(id).is_some_and(|it| it > *through))
    })
}

impl Source {
    fn layers(&self) -> Vec<(Tier, RwLockReadGuard<'_, LayerTimeline>)> {
        self.timelines.iter().map(|(tier, timeline)| (*tier, timeline.read())).collect()
    }

    /// Returns the approximate memory of all plugins.
    fn plugin_memory(&self) -> usize {
        let rows = |tier: &Tier| self.catalog.tier_after(*tier, None).count();
        self.timelines.iter().map(|(tier, _)| rows(tier) * size_of::<ListedPlugin>()).sum()
    }

    /// Returns the skills that have folders in the repository of the view, in the order of their names.
    fn plugins(&self) -> Vec<ListedPlugin> {
        let mut replay = Replay::default();
        for (tier, timeline) in self.layers() {
            for row in self.catalog.tier_after(tier, None) {
                let held = match to_agent_skill(row) {
                    Ok(agent) => {
                        let info = PluginInfo {
                            name: agent.name,
                            description: agent.description,
                            version: timeline.plugin_version(&row.id, number_of(row)),
                            license: agent.license,
                            lines: ListLines::default(),
                        };
                        let row = Arc::clone(row);
                        Held::Skill(Arc::new(ListedPlugin { row, info, digest: None }))
                    }
                    Err(_) => Held::Unusable,
                };
                replay.set_held(tier, &row.id, held);
            }
        }
        let folders = Arc::unwrap_or_clone(replay.into_folders());
        folders.into_values().map(Arc::unwrap_or_clone).collect()
    }

    /// Returns a collection as its own repository has it; `None` without skills.
    fn collection(&self, layers: &Layers<'_>, selection: &Selection) -> Option<ListedCollection> {
        let Selection::List { name, .. } = selection else { return None };
        let view = View { owner: self.owner.clone(), selection: selection.clone() };
        let layers: Vec<_> = layers.iter().map(|(tier, layer)| (*tier, &**layer)).collect();
        let (folders, changed_at) = replay_list(&layers, selection.members());
        let info = RepositoryHead::new(&view).collection_plugin(&folders, changed_at?)?;
        let skills = folders.values().map(|skill| skill.name().to_owned()).collect();
        Some(ListedCollection { name: Arc::clone(name), info, skills })
    }

    /// Returns the digest of a skill's archive.
    async fn digest(
        &self,
        row: &SkillRow,
        (account, turn): (&WorkAccount, &Turn<'_>),
    ) -> Result<Digest, DistributionError> {
        if let Some(known) = self.state.digests.get(row) {
            return Ok(known);
        }
        let blobs = &self.state.repositories.blobs;
        self.state.digests.compute(&*self.skills, blobs, row, (account, turn.stop())).await
    }
}
