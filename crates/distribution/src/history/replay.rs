//! Replay of changes: which folder has which skill after each of them. It knows neither where the changes come from nor
//! what a skill is made of.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use skills_core::{Tier, Timestamp, VersionSelector};

use super::entry::{Act, Entry, Held};

/// Skill in a folder.
pub(crate) trait FolderEntry: PartialEq {
    /// Returns the name of the skill, which is that of its folder.
    fn name(&self) -> &str;
    /// Returns the number of the version.
    fn version(&self) -> u64;
}

/// Folders by name. A slash ends each name, which is the order of a tree.
pub(crate) type FoldersOf<S> = BTreeMap<String, Arc<S>>;

/// State of a replay after some changes.
#[derive(Debug, Clone)]
pub(crate) struct Replay<S> {
    pub(super) folders: Arc<FoldersOf<S>>,
    pub(super) entries: HashMap<Arc<str>, Entry<S>>,
    /// Ids of the skills that have a name, in order.
    claims: HashMap<String, Vec<Arc<str>>>,
    group: Option<Group<S>>,
}

/// Changes that were stored together.
#[derive(Debug, Clone)]
struct Group<S> {
    /// Folders that changed, as they were before.
    before: FoldersBefore<S>,
    revision: u64,
    at: Timestamp,
}

/// Folders as they were before a group; `None` for those that it added.
pub(super) type FoldersBefore<S> = BTreeMap<String, Option<Arc<S>>>;

/// Version that the plain id reads after a change, in the tier of the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Served {
    /// None: the skill was removed, or all its versions were yanked.
    Nothing,
    /// A version.
    Version(u64),
    /// A version whose content was purged or collected since.
    Gone,
    /// A version whose metadata cannot be read.
    Corrupt,
}

/// Content that a tier has after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The content that it had before.
    Same,
    /// None.
    Nothing,
    /// Content that is no valid Agent Skill.
    Unusable,
    /// The served version.
    Served(u64),
    /// A version that the view selects. If it is gone, the tier keeps what it had.
    Selected(u64),
}

impl<S> Default for Replay<S> {
    fn default() -> Self {
        Self {
            folders: Arc::default(),
            entries: HashMap::new(),
            claims: HashMap::new(),
            group: None,
        }
    }
}

impl<S: FolderEntry> Replay<S> {
    /// Returns the folders, at the end of a replay.
    pub(crate) fn into_folders(self) -> Arc<FoldersOf<S>> {
        self.folders
    }

    /// Returns whether a change was stored together with those before: the store then advances time and revision equally.
    pub(crate) fn continues_group(&self, revision: u64, at: Timestamp) -> bool {
        self.group.as_ref().is_some_and(|group| {
            let revisions = revision.saturating_sub(group.revision);
            let micros = at.as_micros().saturating_sub(group.at.as_micros());
            i64::try_from(revisions) == Ok(micros)
        })
    }

    /// Adds a change to the open group, or begins another one with it.
    pub(crate) fn enter_group(&mut self, revision: u64, at: Timestamp) {
        if self.continues_group(revision, at)
            && let Some(group) = &mut self.group
        {
            (group.revision, group.at) = (revision, at);
        } else {
            self.group = Some(Group { before: BTreeMap::new(), revision, at });
        }
    }

    /// Returns revision and time of the last change of the open group, and the folders that differ from those before it.
    pub(super) fn group(&self) -> Option<(u64, Timestamp, &FoldersBefore<S>)> {
        self.group.as_ref().map(|group| (group.revision, group.at, &group.before))
    }

    /// Returns the revision of the open group if a folder is not as it was before.
    pub(crate) fn changed_at(&self) -> Option<u64> {
        let (revision, _, before) = self.group()?;
        let is_changed =
            |(name, before): (&String, &Option<Arc<S>>)| self.folders.get(name) != before.as_ref();
        before.iter().any(is_changed).then_some(revision)
    }

    /// Records an act, and decides what the tier has after it. `author` is the author's version of a new version, and
    /// `selector` the version that the view has of this skill.
    pub(crate) fn record<L: AsRef<str>>(
        &mut self,
        (tier, id): (Tier, &Arc<str>),
        (act, author): (&Act<L>, Option<&str>),
        served: Served,
        selector: Option<&VersionSelector>,
    ) -> Next {
        let entry = self.entries.entry(Arc::clone(id)).or_default().tier(tier);
        entry.record(act, author);
        let next = match (selector.map(|selector| entry.select(selector)), served) {
            (Some(None), _) | (None, Served::Nothing) => Next::Nothing,
            (Some(Some(number)), _) => Next::Selected(number),
            (None, Served::Version(number)) => Next::Served(number),
            (None, Served::Corrupt) => Next::Unusable,
            // As if this version had never been there.
            (None, Served::Gone) => Next::Same,
        };
        match (next, &entry.held) {
            (Next::Served(number) | Next::Selected(number), Held::Skill(skill))
                if skill.version() == number =>
            {
                Next::Same
            }
            _ => next,
        }
    }

    /// Sets the content of a skill in a tier, and updates the folders of all names that it may concern.
    pub(crate) fn set_held(&mut self, tier: Tier, id: &Arc<str>, held: Held<S>) {
        let entry = self.entries.entry(Arc::clone(id)).or_default();
        let name = |entry: &Entry<S>| entry.visible_skill().map(|skill| skill.name().to_owned());
        let old = name(entry);
        entry.tier(tier).held = held;
        let new = name(entry);
        if old != new {
            if let Some(ids) = old.as_ref().and_then(|old| self.claims.get_mut(old)) {
                ids.retain(|other| other != id);
            }
            if let Some(new) = &new {
                let ids = self.claims.entry(new.clone()).or_default();
                if let Err(at) = ids.binary_search(id) {
                    ids.insert(at, Arc::clone(id));
                }
            }
        }
        let mut names: Vec<String> = old.into_iter().chain(new).chain([id.to_string()]).collect();
        names.sort_unstable();
        names.dedup();
        names.iter().for_each(|name| self.refresh_folder(name));
    }

    /// Decides which skill has a folder: the one with that id, or else the first that has the name.
    fn refresh_folder(&mut self, name: &str) {
        let owner = self.entries.get(name).filter(|entry| entry.visible().is_some());
        let skill = match owner {
            Some(owner) => owner.visible_skill().filter(|skill| skill.name() == name),
            None => self
                .claims
                .get(name)
                .and_then(|ids| ids.iter().find_map(|id| self.entries.get(id)?.visible_skill())),
        };
        let (key, skill) = (format!("{name}/"), skill.cloned());
        let current = self.folders.get(&key);
        if current == skill.as_ref() {
            return;
        }
        if let Some(group) = &mut self.group {
            group.before.entry(key.clone()).or_insert_with(|| current.cloned());
        }
        let folders = Arc::make_mut(&mut self.folders);
        match skill {
            Some(skill) => folders.insert(key, skill),
            None => folders.remove(&key),
        };
    }
}
