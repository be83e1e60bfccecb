//! Objects of a pack, decided before the first of them is sent, because a pack begins with their number.

use std::{collections::HashSet, sync::Arc};

use foldhash::{HashSet as IdSet, HashSetExt as _};
use skills_core::work::{StopFlag, Stopped};
use skills_git::ObjectId;

use crate::history::{self, FolderSkill, Folders, History, Slot};

/// Memory of an id in a set.
const KNOWN_ID: usize = 64;

/// Objects of a pack, in the order in which they are sent.
#[derive(Debug)]
pub(crate) struct PackPlan {
    pub(crate) items: Vec<Item>,
    pub(crate) objects: usize,
    pub(crate) commits: usize,
    pub(crate) is_thin: bool,
}

#[derive(Debug)]
pub(crate) enum Item {
    /// Commit, given its number. The items up to the next commit belong to it.
    Commit {
        number: usize,
        parent: Parent,
    },
    /// Objects of a skill that the client lacks.
    Skill(Arc<FolderSkill>, Lacking),
    /// Objects of a plugin wrapper that the client lacks.
    Wrapper(Arc<FolderSkill>, Lacking),
    Slot(Slot),
}

/// Objects of a list that the client lacks.
#[derive(Debug)]
pub(crate) enum Lacking {
    All,
    /// Some, in the order of their ids.
    Some(Box<[ObjectId]>),
}

impl Lacking {
    /// Returns the objects that are new in a set, and their number.
    fn new(ids: &[ObjectId], known: &mut IdSet<ObjectId>) -> (Self, usize) {
        // Most objects are new, so the first known one decides whether a list is needed.
        let known_at = ids.iter().position(|id| !known.insert(*id));
        let Some(at) = known_at else { return (Self::All, ids.len()) };
        let rest = ids[at..].iter().filter(|id| known.insert(**id));
        let mut lacking: Box<[ObjectId]> = ids[..at].iter().chain(rest).copied().collect();
        lacking.sort_unstable();
        let count = lacking.len();
        (Self::Some(lacking), count)
    }

    pub(crate) fn has(&self, id: &ObjectId) -> bool {
        match self {
            Self::All => true,
            Self::Some(ids) => ids.binary_search(id).is_ok(),
        }
    }
}

/// Commit before the one that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parent {
    /// The client lacks it, or there is none.
    Unavailable,
    /// The client has it.
    Had(usize),
    /// It is in the same pack.
    Sent(usize),
}

impl PackPlan {
    /// Decides which objects a client lacks.
    ///
    /// # Errors
    /// When the flag is raised.
    pub(crate) fn new(
        history: &History,
        commits: &[ObjectId],
        had: &HashSet<ObjectId>,
        is_thin: bool,
        stop: &StopFlag,
    ) -> Result<Self, Stopped> {
        let mut plan = Self { items: Vec::new(), objects: 0, commits: 0, is_thin };
        let mut known = IdSet::new();
        // No commit has an object for the slots that it does not use.
        known.insert(ObjectId::ZERO);
        let mut sent = IdSet::new();
        let mut cursor = Cursor::default();
        // Parents have lower numbers. In this order as few commits as possible come before their parents' neighbours, from
        // which their folders follow by a few changes.
        let mut numbers: Vec<usize> = commits.iter().filter_map(|id| history.number(id)).collect();
        numbers.sort_unstable();
        for number in numbers {
            stop.check()?;
            let commit = &history.commits[number];
            let parent = match commit.parent {
                Some(parent) if sent.contains(&parent) => Parent::Sent(parent),
                Some(parent) if had.contains(&history.commits[parent].id) => Parent::Had(parent),
                _ => Parent::Unavailable,
            };
            plan.push(Item::Commit { number, parent }, 1);
            plan.commits += 1;
            let mut changed = Vec::new();
            if let Parent::Had(before) | Parent::Sent(before) = parent {
                let slots = &history.commits[before].slots;
                known.extend(Slot::ALL.map(|slot| slots.get(slot)));
                cursor.move_to(history, before);
                for (name, skill) in &commit.changes {
                    if let Some(before) = cursor.folders.get(name) {
                        known.extend(before.objects.iter());
                    }
                    changed.extend(skill.clone());
                }
            } else {
                cursor.move_to(history, number);
                changed.extend(cursor.folders.values().cloned());
            }
            for skill in changed {
                plan.push_skill(&skill, &mut known);
            }
            for slot in Slot::ALL {
                if known.insert(commit.slots.get(slot)) {
                    plan.push(Item::Slot(slot), 1);
                }
            }
            sent.insert(number);
        }
        Ok(plan)
    }

    fn push(&mut self, item: Item, objects: usize) {
        self.items.push(item);
        self.objects += objects;
    }

    fn push_skill(&mut self, skill: &Arc<FolderSkill>, known: &mut IdSet<ObjectId>) {
        let (lacking, count) = Lacking::new(&skill.objects, known);
        if count > 0 {
            self.push(Item::Skill(Arc::clone(skill), lacking), count);
        }
        if known.contains(&skill.wrapper_tree()) {
            return;
        }
        let (lacking, count) = Lacking::new(&skill.wrapper, known);
        self.push(Item::Wrapper(Arc::clone(skill), lacking), count);
    }

    /// Returns the memory for making the plan of a pack with some commits, in bytes.
    pub(crate) fn scratch_memory(history: &History, commits: &[ObjectId]) -> usize {
        let objects = |skill: &FolderSkill| skill.objects.len() + skill.wrapper.len();
        let changed: usize = commits
            .iter()
            .filter_map(|id| history.number(id))
            .flat_map(|number| &history.commits[number].changes)
            .map(|(_, skill)| skill.as_deref().map_or(0, objects))
            .sum();
        // One of the commits may have all folders.
        let first: usize = history.skills().map(|skill| objects(skill)).sum();
        (changed + first + commits.len() * Slot::ALL.len()) * KNOWN_ID
    }

    /// Returns the memory of the plan, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let lacking = |item: &Item| match item {
            Item::Skill(_, Lacking::Some(ids)) | Item::Wrapper(_, Lacking::Some(ids)) => ids.len(),
            _ => 0,
        };
        let lacking: usize = self.items.iter().map(lacking).sum();
        lacking * size_of::<ObjectId>() + self.items.len() * size_of::<Item>()
    }
}

/// Folders of one commit, moved from commit to commit.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    number: Option<usize>,
    pub(crate) folders: Arc<Folders>,
}

impl Cursor {
    /// Moves to a commit: by the changes since the cursor's own, if that is one before it.
    pub(crate) fn move_to(&mut self, history: &History, number: usize) {
        if self.number == Some(number) {
            return;
        }
        let mut line = Vec::new();
        let mut next = Some(number);
        // Commits have higher numbers than those before them.
        while next != self.number
            && next > self.number
            && let Some(commit) = next.and_then(|number| history.commits.get(number))
        {
            line.push(commit);
            next = commit.parent;
        }
        if next == self.number && next.is_some() {
            let folders = Arc::make_mut(&mut self.folders);
            line.iter().rev().for_each(|commit| history::apply_changes(folders, &commit.changes));
        } else {
            self.folders = history.folders_at(number);
        }
        self.number = Some(number);
    }
}
