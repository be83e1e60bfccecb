//! The catalog: all metadata, no bodies, as an immutable snapshot, seen with somebody's eyes.
//!
//! - `everything`: all layers, as they are stored
//! - `shelf`: one layer, and walking several of them in order
//! - `live`: what live clients have, below all layers
//! - `rows`: what a listing shows of an entry
//! - `page`: how much of a listing is told at once
//! - `count`: how many there are; `tools`: which of them are tools
//! - `explain`: why a name leads to what it leads to
//!
//! Snapshots and views share structure, so that a commit costs O(log n), a view next to nothing, and a reader
//! keeps the one it took for as long as it likes. [`Catalog::skill`] and [`Catalog::prompt`] are how every surface
//! resolves a name; the rule itself is [`skills_core::resolve`].

mod count;
mod everything;
mod explain;
mod live;
mod page;
mod rows;
mod shelf;
#[cfg(test)]
pub(crate) mod tests;
mod tools;

use std::{
    ops::Bound,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use lru::LruCache;
use skills_core::{
    Caller, Kind, Layer, Owner, Tier, Timestamp,
    id::INDEX_ID,
    resolve::{self, Candidates, Prefix},
    skill::LEAVES,
};
use skills_store::{Change, Entry};

pub(crate) use self::everything::Everything;
use self::shelf::{Merged, Shelf, Table, after};
pub use self::{
    explain::{Explanation, Place},
    page::{PAGE_BYTES, page},
    rows::{PromptRow, SkillRow},
};
use crate::{
    RegistryError,
    live::{LiveChange, LiveUpdate},
};

/// Views of a snapshot that are kept, so that what has been made of one is not made again.
const VIEWS: usize = 64;

/// A snapshot of everything that is registered, as somebody sees it.
#[derive(Debug)]
pub struct Catalog {
    all: Everything,
    owner: Option<Owner>,
    /// Those that are looked in, in order of priority.
    layers: Vec<Arc<Shelf>>,
    index: OnceLock<Arc<str>>,
    skill_count: OnceLock<usize>,
    views: OnceLock<Mutex<LruCache<Owner, Arc<Self>>>>,
}

impl Default for Catalog {
    fn default() -> Self {
        Everything::default().into()
    }
}

impl From<Everything> for Catalog {
    /// What a caller without a credential sees.
    fn from(all: Everything) -> Self {
        Self::of(all, None)
    }
}

impl Catalog {
    fn of(all: Everything, owner: Option<Owner>) -> Self {
        let private = owner.clone().map(Layer::Private);
        let layers = private.into_iter().chain([Layer::Official, Layer::Market]);
        let layers = layers.filter_map(|layer| all.shelves.get(&layer).cloned()).collect();
        Self {
            all,
            owner,
            layers,
            index: OnceLock::new(),
            skill_count: OnceLock::new(),
            views: OnceLock::new(),
        }
    }

    /// The catalog of what a store holds after a revision. No entry need have that revision: the
    /// change may have been a removal.
    #[must_use]
    pub fn of_entries(entries: Vec<Entry>, revision: u64, prefix: Prefix) -> Self {
        Everything::of_entries(entries, revision, prefix).into()
    }

    /// The next snapshot.
    #[must_use]
    pub fn with<'a>(&self, changes: impl IntoIterator<Item = &'a Change>) -> Self {
        let mut all = self.all.clone();
        changes.into_iter().for_each(|change| all.apply(change));
        all.public_count = Arc::default();
        Self::of(all, self.owner.clone())
    }

    /// The next snapshot when something became of live clients, and what is to be told of it. It costs what
    /// they have, however much others do.
    #[must_use]
    pub fn with_live(&self, updates: &[LiveUpdate], at: Timestamp) -> (Self, Vec<LiveChange>) {
        let mut all = self.all.clone();
        let told = updates.iter().flat_map(|update| all.live.apply(update, at)).collect();
        (Self::of(all, self.owner.clone()), told)
    }

    /// All of it, to be changed.
    pub(crate) fn everything(&self) -> Everything {
        Everything { public_count: Arc::default(), ..self.all.clone() }
    }

    /// The same snapshot as a caller sees it. Who has nothing private sees the one that everyone sees.
    #[must_use]
    pub fn seen_by(self: &Arc<Self>, caller: &Caller) -> Arc<Self> {
        self.of_owner(caller.owner())
    }

    fn of_owner(self: &Arc<Self>, owner: Option<&Owner>) -> Arc<Self> {
        let owner = owner.filter(|owner| {
            // Asked of the shelves, not of a view: this may be the view of somebody else.
            self.all.shelves.contains_key(&Layer::Private((*owner).clone()))
        });
        if owner == self.owner.as_ref() {
            return Arc::clone(self);
        }
        let Some(owner) = owner else { return Arc::new(Self::of(self.all.clone(), None)) };
        let views = self.views.get_or_init(|| Mutex::new(LruCache::unbounded()));
        let mut views = views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = views.get(owner) {
            return Arc::clone(view);
        }
        let view = Arc::new(Self::of(self.all.clone(), Some(owner.clone())));
        views.put(owner.clone(), Arc::clone(&view));
        if views.len() > VIEWS {
            views.pop_lru();
        }
        view
    }

    /// The change this snapshot includes last.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.all.revision
    }

    /// What tells this snapshot from others of the same registry: it changes with every change, also of what
    /// is not stored.
    #[must_use]
    pub const fn version(&self) -> (u64, u64) {
        (self.all.revision, self.all.live.revision)
    }

    /// What tells what is stored here, as it is seen, from what was stored in another snapshot of a registry in
    /// this process: the last change, and whose view it is.
    #[must_use]
    pub const fn stored_version(&self) -> (u64, Option<&Owner>) {
        (self.all.revision, self.owner.as_ref())
    }

    /// Whether a live client of that id is there.
    #[must_use]
    pub fn has_client(&self, id: &str) -> bool {
        self.all.live.has(id)
    }

    /// What a client's root skill is called, or else a list of its skills in Markdown.
    ///
    /// # Errors
    /// The list.
    pub fn client_root(&self, client: &str) -> Result<&'static str, String> {
        let is_root = |leaf: &&str| self.all.live.skills.get(&format!("{client}/{leaf}")).is_some();
        LEAVES.into_iter().find(is_root).ok_or_else(|| {
            let mut text = format!("# {client}\n\n");
            let lines = text.len();
            text.extend(self.all.live.of(client).map(|row| row.index_line()));
            if text.len() == lines {
                text.push_str("This client has no skills that can be listed.\n");
            }
            text
        })
    }

    /// Whether a change that this snapshot includes was one of a tool. Of changes that follow each other closely
    /// all may count as such.
    pub(crate) fn is_of_tool(&self, change: &Change) -> bool {
        match self.all.shelves.get(&change.key.layer) {
            Some(shelf) => shelf.tools_at >= change.revision,
            // Nothing is left there, and it is not known what was.
            None => change.key.kind == Kind::Skill,
        }
    }

    /// What may stand before names that are looked for.
    #[must_use]
    pub const fn prefix(&self) -> &Prefix {
        &self.all.prefix
    }

    /// The first row of that name, in the order of the layers.
    fn find<'a, T>(
        &'a self,
        name: &str,
        look: impl Fn(&'a Arc<Shelf>, &str) -> Option<&'a Arc<T>> + Copy,
    ) -> Option<&'a Arc<T>> {
        let names = Candidates::new(name, &self.all.prefix);
        resolve::hits(&self.layers, &names, look).next().map(|(_, row)| row)
    }

    /// The skill that answers to a name. It may be corrupt: see [`SkillRow::readable`].
    #[must_use]
    pub fn skill(&self, name: &str) -> Option<&Arc<SkillRow>> {
        let stored = self.find(name, |shelf, id| shelf.skill(id));
        stored.or_else(|| self.all.live.skills.get(name))
    }

    /// The skill that answers to a name, if it is stored: what live clients have is not.
    #[must_use]
    pub fn stored(&self, name: &str) -> Option<&Arc<SkillRow>> {
        self.skill(name).filter(|row| !row.is_live())
    }

    /// The prompt that answers to a name. It may be corrupt: see [`PromptRow::readable`].
    #[must_use]
    pub fn prompt(&self, name: &str) -> Option<&Arc<PromptRow>> {
        let stored = self.find(name, |shelf, id| shelf.prompts.get(id));
        stored.or_else(|| self.all.live.prompts.get(name))
    }

    /// The skill that answers to a name in one of the tiers that are seen.
    #[must_use]
    pub fn skill_in(&self, tier: Tier, name: &str) -> Option<&Arc<SkillRow>> {
        let names = Candidates::new(name, &self.all.prefix);
        let is_there = |row: &&Arc<SkillRow>| row.tier == tier;
        let hit = resolve::hits(&self.layers, &names, |shelf, id| shelf.skill(id).filter(is_there))
            .next();
        hit.map(|(_, row)| row)
    }

    /// The skill that a tier holds under just this id, for those who are about to replace it.
    #[must_use]
    pub fn held_skill(&self, tier: Tier, id: &str) -> Option<&Arc<SkillRow>> {
        self.skill_in(tier, id).filter(|row| *row.id == *id)
    }

    /// The stored skill that answers to a name, in a tier if one is named.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn readable_skill(
        &self,
        tier: Option<Tier>,
        name: &str,
    ) -> Result<&Arc<SkillRow>, RegistryError> {
        let row = match tier {
            Some(tier) => self.skill_in(tier, name),
            None => self.stored(name),
        };
        let missing = || RegistryError::NotFound { kind: Kind::Skill, id: name.to_owned() };
        let row = row.ok_or_else(missing)?;
        row.readable()?;
        Ok(row)
    }

    /// What is stored under an id in a layer, whoever may see it: for those who administer it.
    #[must_use]
    pub fn stored_skill(&self, layer: &Layer, id: &str) -> Option<&Arc<SkillRow>> {
        self.all.shelves.get(layer)?.skills.get(id)
    }

    /// Every skill of every layer of every owner: for those who administer or export it.
    pub fn stored_skills(&self) -> impl Iterator<Item = (&Layer, &Arc<SkillRow>)> {
        let shelves = self.all.shelves.iter();
        shelves.flat_map(|(layer, shelf)| shelf.skills.rows().map(move |row| (layer, row)))
    }

    /// All skills that answer to their ids, sorted by id.
    #[must_use]
    pub fn skills(&self) -> Vec<&Arc<SkillRow>> {
        self.skills_after(None).collect()
    }

    /// The skills that answer to their ids, after one, sorted. To begin costs O(log n), and so does a step.
    ///
    /// What another entry shadows is not among them, also if that has the prefix before the same id: whoever
    /// takes an id from a list gets what the list said of it.
    pub fn skills_after(&self, id: Option<&str>) -> impl Iterator<Item = &Arc<SkillRow>> {
        let layers = self.skill_tables().map(move |table| table.from(after(id)));
        let first = Merged::new(layers).first_of_each();
        first
            .filter(|(layer, row)| !self.is_passed(*layer, &row.id, |shelf| &shelf.skills))
            .map(row)
    }

    /// Every skill of every layer that is seen, ordered by id and then by tier, after one of them.
    pub fn layered_after(
        &self,
        last: Option<(&str, Tier)>,
    ) -> impl Iterator<Item = &Arc<SkillRow>> {
        let from = last.map_or(Bound::Unbounded, |(id, _)| Bound::Included(id));
        let rows = Merged::new(self.skill_tables().map(move |table| table.from(from)));
        let is_next = move |row: &&Arc<SkillRow>| {
            last.is_none_or(|(id, tier)| &*row.id != id || row.tier > tier)
        };
        rows.map(row).filter(is_next)
    }

    /// Every skill of one of the tiers that are seen, after one of those that [`layered_after`](Self::layered_after)
    /// gives. The other tiers cost nothing.
    pub fn tier_after(
        &self,
        tier: Tier,
        last: Option<(&str, Tier)>,
    ) -> impl Iterator<Item = &Arc<SkillRow>> {
        let from = match last {
            Some((id, before)) if before < tier => Bound::Included(id),
            last => after(last.map(|(id, _)| id)),
        };
        let shelves = self.layers.iter().filter(move |shelf| shelf.layer.tier() == tier);
        shelves.flat_map(move |shelf| shelf.skills.from(from)).map(|(_, row)| row)
    }

    /// Whether a skill is what its id leads to.
    #[must_use]
    pub fn answers(&self, row: &Arc<SkillRow>) -> bool {
        self.skill(&row.id).is_some_and(|found| Arc::ptr_eq(found, row))
    }

    /// How many skills answer to their ids. It is counted once, and for all views together what they share.
    pub fn skill_count(&self) -> usize {
        let prefix = &self.all.prefix;
        let everyones = |layers: &[Arc<Shelf>]| {
            *self.all.public_count.get_or_init(|| count::effective(layers, prefix))
        };
        *self.skill_count.get_or_init(|| {
            let stored = match self.layers.as_slice() {
                [private, public @ ..] if self.owner.is_some() => {
                    count::over(private, public, everyones(public), prefix)
                }
                public => everyones(public),
            };
            // No stored one has the id of a live one.
            stored + self.all.live.skills.len()
        })
    }

    /// The skills of all that is looked in, in order of priority.
    fn skill_tables(&self) -> impl Iterator<Item = &Table<SkillRow>> {
        self.layers.iter().map(|shelf| &shelf.skills).chain([&self.all.live.skills])
    }

    /// All prompts that answer to their names, sorted by name.
    #[must_use]
    pub fn prompts(&self) -> Vec<&Arc<PromptRow>> {
        self.prompts_after(None).collect()
    }

    /// The prompts that answer to their names, after one, sorted.
    pub fn prompts_after(&self, name: Option<&str>) -> impl Iterator<Item = &Arc<PromptRow>> {
        let tables = self.layers.iter().map(|shelf| &shelf.prompts).chain([&self.all.live.prompts]);
        let layers = tables.map(move |table| table.from(after(name)));
        let first = Merged::new(layers).first_of_each();
        first
            .filter(|(layer, row)| !self.is_passed(*layer, &row.name, |shelf| &shelf.prompts))
            .map(row)
    }

    /// Whether an id leads to an entry of a layer before, which has the prefix before that id.
    fn is_passed<T>(&self, layer: usize, id: &str, table: impl Fn(&Shelf) -> &Table<T>) -> bool {
        let before = &self.layers[..layer];
        if before.is_empty() {
            return false;
        }
        let names = Candidates::new(id, &self.all.prefix);
        names.iter().skip(1).any(|name| before.iter().any(|shelf| table(shelf).get(name).is_some()))
    }

    /// The Markdown index that `iii://skills` serves. It is rendered once for each view.
    pub fn index(&self) -> Arc<str> {
        Arc::clone(self.index.get_or_init(|| render_index(&self.skills()).into()))
    }
}

fn row<T>((_, row): (usize, &Arc<T>)) -> &Arc<T> {
    row
}

fn render_index(skills: &[&Arc<SkillRow>]) -> String {
    let mut text = String::from("# Skills\n\n");
    if skills.is_empty() {
        text.push_str("No skills are registered yet.\n");
    }
    text.extend(skills.iter().filter(|skill| !skill.is_live()).map(|skill| skill.index_line()));
    // Their ids begin with that of the client, so those of a client follow each other.
    let mut last = None;
    for skill in skills {
        let Some((client, _)) = skill.origin() else { continue };
        if last.replace(client) != Some(client) {
            let gap = if text.ends_with("\n\n") { "" } else { "\n" };
            text.push_str(&format!("{gap}## {client} (live)\n\n"));
        }
        text.push_str(skill.index_line());
    }
    text
}

/// Title and description of the index itself, for listings that include it.
pub const INDEX_TITLE: &str = "Skills index";
/// See [`INDEX_TITLE`].
pub const INDEX_DESCRIPTION: &str = "Every registered skill, one line each, with a link to it.";

/// The name of the index in listings.
pub const INDEX_NAME: &str = INDEX_ID;
