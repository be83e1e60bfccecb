//! Groups of changes as commits.

use std::sync::Arc;

use skills_core::{Tier, WorkAccount};
use skills_git::{Commit, ObjectId, ObjectKind};

use super::{
    CommitGroup, CommitRecord, FolderChange, FolderSkill, Folders, History, ReplayContext, SlotIds,
    extend::{folder_skill, version_row},
    snapshot,
};
use crate::{error::DistributionError, view::Selection};

/// Author of all commits: the log has the actors, and not everyone who reads a repository may see them.
const AUTHOR: &str = "skills <skills@localhost>";
/// Most changes that a message lists.
const MAX_LISTED: usize = 100;

/// Time and revision of a commit.
#[derive(Debug, Clone, Copy)]
struct Stamp {
    time: u64,
    revision: u64,
}

impl History {
    /// Makes the commit of the open group. The group stays open: changes that were stored with it replace the commit.
    pub(super) async fn close_group(
        &mut self,
        context: &ReplayContext<'_>,
    ) -> Result<(), DistributionError> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let closed = self.close(context, &group).await;
        self.group = Some(group);
        closed
    }

    async fn close(
        &mut self,
        context: &ReplayContext<'_>,
        group: &CommitGroup,
    ) -> Result<(), DistributionError> {
        for commit in self.commits.drain(group.first_commit..) {
            self.numbers.remove(&commit.id);
        }
        self.tip = group.tip_before;
        let Some((revision, at, before)) = self.replay.group() else { return Ok(()) };
        let stamp = Stamp { time: at.as_secs(), revision };
        let folders = Arc::clone(&self.replay.folders);
        let changes: Vec<FolderChange> = before
            .iter()
            .filter(|(name, before)| folders.get(*name) != before.as_ref())
            .map(|(name, _)| (name.clone(), folders.get(name).cloned()))
            .collect();
        if !changes.is_empty() {
            let is_relisted = changes.iter().any(|(name, skill)| {
                let before = before.get(name).and_then(Option::as_ref);
                before.map(|skill| skill.info.listed())
                    != skill.as_ref().map(|skill| skill.info.listed())
            });
            let (parent, account) = (group.tip_before, context.account);
            self.tip = Some(self.commit(account, parent, &folders, changes, stamp, is_relisted));
        }
        if matches!(self.view.selection, Selection::Skill(_)) {
            self.tag(context, &group.puts, group.tip_before, stamp).await?;
        }
        Ok(())
    }

    /// Remembers the commits of versions. A version that was not served gets a commit beside the main branch.
    async fn tag(
        &mut self,
        context: &ReplayContext<'_>,
        puts: &[(Tier, Arc<str>, u64)],
        parent: Option<usize>,
        stamp: Stamp,
    ) -> Result<(), DistributionError> {
        for (tier, id, number) in puts {
            let is_served = |skill: &Arc<FolderSkill>| {
                skill.tier == *tier && skill.id == *id && skill.version == *number
            };
            let commit = match self.tip {
                Some(tip) if self.replay.folders.values().any(is_served) => Some(tip),
                _ => self.side_commit(context, (*tier, id, *number), parent, stamp).await?,
            };
            if let (Some(commit), Some(entry)) = (commit, self.replay.entries.get_mut(id)) {
                entry.tier(*tier).set_commit(*number, commit);
            }
        }
        Ok(())
    }

    /// Makes a commit of one version of a skill; `None` if its content is gone or not valid.
    async fn side_commit(
        &mut self,
        context: &ReplayContext<'_>,
        (tier, id, number): (Tier, &Arc<str>, u64),
        parent: Option<usize>,
        stamp: Stamp,
    ) -> Result<Option<usize>, DistributionError> {
        let row = version_row(context.skills, tier, id, number).await?;
        let Some(row) = row else { return Ok(None) };
        let version = self.plugin_version(tier, id, number);
        let Some(skill) = folder_skill(context, &row, version).await? else { return Ok(None) };
        let name = format!("{}/", skill.info.name);
        let before = parent.map(|parent| self.folders_at(parent)).unwrap_or_default();
        let removed = before.keys().filter(|other| **other != name);
        let mut changes: Vec<FolderChange> = removed.map(|other| (other.clone(), None)).collect();
        changes.push((name.clone(), Some(Arc::clone(&skill))));
        changes.sort_by(|left, right| left.0.cmp(&right.0));
        let folders = Folders::from([(name, skill)]);
        Ok(Some(self.commit(context.account, parent, &folders, changes, stamp, true)))
    }

    /// Adds a commit. `is_relisted` is false if names and descriptions are those of the parent.
    fn commit(
        &mut self,
        account: &WorkAccount,
        parent: Option<usize>,
        folders: &Folders,
        changes: Vec<FolderChange>,
        stamp: Stamp,
        is_relisted: bool,
    ) -> usize {
        let before: Option<SlotIds> = parent.map(|number| self.commits[number].slots);
        let reused = before.filter(|_| !is_relisted);
        let slots = snapshot::slots(account, &self.head, folders, stamp.revision, reused);
        let message = message(&changes);
        let bytes = Commit {
            tree: slots.root(),
            parent: parent.map(|number| self.commits[number].id),
            author: AUTHOR,
            time: stamp.time,
            message: &message,
        }
        .to_bytes();
        let id = ObjectId::of(ObjectKind::Commit, &bytes);
        // Versions with equal content, registered together, have one commit.
        if let Some(number) = self.number(&id) {
            return number;
        }
        let Stamp { time, revision } = stamp;
        let number = self.commits.len();
        let record = CommitRecord { id, parent, time, bytes, changes, slots, revision };
        self.commits.push(Arc::new(record));
        self.numbers.insert(id, number);
        number
    }
}

fn message(changes: &[FolderChange]) -> String {
    let line = |(name, skill): &FolderChange| match skill {
        Some(skill) if *skill.id == *skill.info.name => {
            format!("{}: version {} ({})", skill.id, skill.version, skill.info.version)
        }
        Some(skill) => format!(
            "{}: {} version {} ({})",
            skill.info.name, skill.id, skill.version, skill.info.version
        ),
        None => format!("{}: removed", name.trim_end_matches('/')),
    };
    if let [only] = changes {
        return line(only);
    }
    let mut message = format!("{} skills changed\n", changes.len());
    for change in changes.iter().take(MAX_LISTED) {
        message.push('\n');
        message.push_str(&line(change));
    }
    if changes.len() > MAX_LISTED {
        message.push_str("\n...");
    }
    message
}
