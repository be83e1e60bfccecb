//! History of a view as git commits, derived from the change log alone: the same log gives the same ids on every server.
//!
//! - `entry`: versions and labels of a skill while changes are replayed
//! - `replay`: changes of folders, whatever they have
//! - `extend`: the log, read from where a history ends
//! - `commits`: groups of changes as commits
//! - `snapshot`: generated files and trees of one commit
//!
//! Changes that were stored together are one commit: their times and revisions advance equally. Content that was purged
//! or collected is left out as if it had never been there, so ids differ from that change on.

mod commits;
mod entry;
mod extend;
mod replay;
mod snapshot;

use std::{collections::HashMap, sync::Arc};

use skills_core::Tier;
use skills_git::{CommitGraph, CommitNode, ObjectId, Reference};

use self::entry::Entry;
use crate::{
    formats::PluginInfo,
    plugin_version::PluginVersion,
    view::{Selection, View},
};

pub(crate) use entry::{Act, Held};
pub(crate) use extend::{Progress, ReplayContext, version_row};
pub(crate) use replay::{FolderEntry, FoldersOf, Next, Replay, Served};
pub(crate) use snapshot::{RepositoryHead, Slot, SlotIds, render, wrapper};

/// Branch that `HEAD` stands for.
pub(crate) const MAIN: &str = "refs/heads/main";

/// Skill in a folder of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FolderSkill {
    pub(crate) tier: Tier,
    pub(crate) id: Arc<str>,
    pub(crate) version: u64,
    /// Tree of the folder.
    pub(crate) tree: ObjectId,
    /// All objects below the tree, and the tree.
    pub(crate) objects: Box<[ObjectId]>,
    /// Objects of the plugin wrapper below `dist`, its tree last.
    pub(crate) wrapper: [ObjectId; 5],
    pub(crate) info: PluginInfo,
    /// Entry in the marketplace of Claude Code.
    pub(crate) entry: String,
}

impl FolderSkill {
    /// Returns the tree of the plugin wrapper.
    pub(crate) const fn wrapper_tree(&self) -> ObjectId {
        self.wrapper[self.wrapper.len() - 1]
    }
}

impl FolderEntry for FolderSkill {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn version(&self) -> u64 {
        self.version
    }
}

/// Folders of a commit.
pub(crate) type Folders = FoldersOf<FolderSkill>;

/// Folder that a commit changes: its name with a slash, and its skill unless it is removed.
pub(crate) type FolderChange = (String, Option<Arc<FolderSkill>>);

/// Commit of a history.
#[derive(Debug)]
pub(crate) struct CommitRecord {
    pub(crate) id: ObjectId,
    /// Number of the commit before.
    pub(crate) parent: Option<usize>,
    pub(crate) time: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) changes: Vec<FolderChange>,
    pub(crate) slots: SlotIds,
    /// Revision of the last change.
    pub(crate) revision: u64,
}

/// History of a view.
#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) view: View,
    pub(crate) head: RepositoryHead,
    /// Commits, parents before children.
    pub(crate) commits: Vec<Arc<CommitRecord>>,
    numbers: HashMap<ObjectId, usize>,
    /// Newest commit of the main branch.
    tip: Option<usize>,
    /// Folders after the last change.
    replay: Replay<FolderSkill>,
    group: Option<CommitGroup>,
    /// Revision of the last change that was read.
    revision: u64,
    /// Revision that the store had when the history was begun.
    started_at: u64,
}

/// Changes that become one commit.
#[derive(Debug, Clone)]
struct CommitGroup {
    /// Number of commits before the group.
    first_commit: usize,
    tip_before: Option<usize>,
    /// Versions that were registered, in a view of one skill: only those become tags.
    puts: Vec<(Tier, Arc<str>, u64)>,
}

impl History {
    /// Creates a history without changes. The store has a revision already.
    pub(crate) fn new(view: View, started_at: u64) -> Self {
        let head = RepositoryHead::new(&view);
        Self {
            view,
            head,
            commits: Vec::new(),
            numbers: HashMap::new(),
            tip: None,
            replay: Replay::default(),
            group: None,
            revision: 0,
            started_at,
        }
    }

    /// Returns the number of a commit.
    pub(crate) fn number(&self, id: &ObjectId) -> Option<usize> {
        self.numbers.get(id).copied()
    }

    /// Iterates over the skills of the newest commit, in the order of their names.
    pub(crate) fn skills(&self) -> impl Iterator<Item = &Arc<FolderSkill>> {
        self.replay.folders.values()
    }

    /// Returns a version of a skill as clients see it.
    fn plugin_version(&mut self, tier: Tier, id: &Arc<str>, number: u64) -> PluginVersion {
        self.replay.entries.entry(Arc::clone(id)).or_default().tier(tier).shown.get(number)
    }

    /// Returns the most refs that the history may have.
    pub(crate) fn max_references(&self) -> usize {
        let entry = self.view.selection.skill().and_then(|id| self.replay.entries.get(id));
        1 + entry.and_then(Entry::current).map_or(0, |entry| entry.len())
    }

    /// Returns whether no skill of the view was ever changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.revision == 0
    }

    /// Returns the approximate memory in bytes.
    pub(crate) fn weight(&self) -> usize {
        let change = |(name, skill): &FolderChange| {
            let skill = skill.as_ref().map_or(0, |skill| {
                skill.entry.len()
                    + 3 * skill.info.description.len()
                    + 20 * skill.objects.len()
                    + 800
            });
            name.len() + skill + 64
        };
        let commit = |commit: &Arc<CommitRecord>| {
            commit.bytes.len() + commit.changes.iter().map(change).sum::<usize>() + 500
        };
        self.commits.iter().map(commit).sum::<usize>() + self.replay.entries.len() * 400 + 1024
    }

    /// Returns the folders of a commit.
    pub(crate) fn folders_at(&self, number: usize) -> Arc<Folders> {
        if self.tip == Some(number) {
            return Arc::clone(&self.replay.folders);
        }
        let mut line = vec![];
        let mut next = Some(number);
        while let Some(commit) = next.and_then(|number| self.commits.get(number)) {
            line.push(commit);
            next = commit.parent;
        }
        let mut folders = Folders::new();
        line.iter().rev().for_each(|commit| apply_changes(&mut folders, &commit.changes));
        Arc::new(folders)
    }
}

/// Applies the changes of a commit to the folders of its parent.
pub(crate) fn apply_changes(folders: &mut Folders, changes: &[FolderChange]) {
    for (name, skill) in changes {
        match skill {
            Some(skill) => folders.insert(name.clone(), Arc::clone(skill)),
            None => folders.remove(name),
        };
    }
}

impl CommitGraph for History {
    fn commit(&self, id: &ObjectId) -> Option<CommitNode> {
        let commit = &self.commits[self.number(id)?];
        let parent = commit.parent.map(|number| self.commits[number].id);
        Some(CommitNode { parent, time: commit.time })
    }

    fn references(&self) -> Vec<Reference> {
        let reference =
            |name: String, number: usize| Reference { name, id: self.commits[number].id };
        let mut references: Vec<Reference> = Vec::new();
        references.extend(self.tip.map(|tip| reference(MAIN.to_owned(), tip)));
        if let Selection::Skill(id) = &self.view.selection
            && let Some(entry) = self.replay.entries.get(id).and_then(Entry::current)
        {
            for (number, commit) in entry.tagged() {
                references.push(reference(format!("refs/tags/v{number}"), commit));
            }
            for (label, commit) in entry.labelled() {
                let name = format!("refs/heads/{label}");
                // The branch of the served version comes first.
                if name != MAIN {
                    references.push(reference(name, commit));
                }
            }
        }
        references.sort_by(|left, right| left.name.cmp(&right.name));
        references
    }

    fn head(&self) -> &str {
        MAIN
    }
}
