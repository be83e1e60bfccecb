//! Replay of the change log: which folder has which skill after each change.

use std::{collections::BTreeMap, sync::Arc};

use skills_core::{Tier, Timestamp, VersionSelector};
use skills_registry::{
    Action, RegistryError, ServedSkill, SkillChange, SkillLogPage, SkillLogRequest, SkillRegistry,
    SkillRow, available::to_agent_skill,
};

use super::{
    FolderSkill, History,
    entry::{Entry, Held},
    snapshot,
};
use crate::{
    formats::{ListLines, PluginInfo, claude},
    plugin_version::PluginVersion,
    skill_tree::BlobIds,
};

/// Changes that become one commit.
#[derive(Debug, Clone)]
pub(super) struct OpenGroup {
    /// Folders that changed, as they were before.
    pub(super) before: BTreeMap<String, Option<Arc<FolderSkill>>>,
    /// Number of commits before the group.
    pub(super) first_commit: usize,
    pub(super) tip_before: Option<usize>,
    /// Versions that were registered, in a view of one skill: only those become tags.
    pub(super) puts: Vec<(Tier, Arc<str>, u64)>,
    pub(super) revision: u64,
    pub(super) at: Timestamp,
}

impl OpenGroup {
    /// Returns whether a change was stored together with this group: the store then advances time and revision equally.
    fn includes(&self, change: &SkillChange) -> bool {
        let revisions = change.revision.saturating_sub(self.revision);
        let micros = change.at.as_micros().saturating_sub(self.at.as_micros());
        i64::try_from(revisions) == Ok(micros)
    }
}

/// Result of reading new changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The history has all changes.
    Complete,
    /// Content was removed from the past: the history has to be built again.
    Rewritten,
}

impl History {
    /// Returns the request for the changes that the history lacks.
    pub(crate) fn next_request(&self) -> SkillLogRequest {
        SkillLogRequest {
            id: self.view.selection.skill().map(str::to_owned),
            tier: self.view.selection.tier(),
            after: self.revision,
        }
    }

    /// Adds changes of the log, from a first page on.
    pub(crate) async fn extend(
        &mut self,
        skills: &dyn SkillRegistry,
        blobs: &BlobIds,
        mut page: SkillLogPage,
    ) -> Result<Progress, RegistryError> {
        let is_new = self.revision == 0;
        loop {
            let removes = |change: &SkillChange| {
                matches!(change.action, Action::Purge { .. } | Action::Collect { .. })
            };
            if !is_new && page.changes.iter().any(removes) {
                return Ok(Progress::Rewritten);
            }
            for change in &page.changes {
                self.apply(skills, blobs, change).await?;
            }
            if !page.has_more {
                break;
            }
            page = skills.skill_log(&self.next_request()).await?;
        }
        self.close_group(skills, blobs).await?;
        Ok(Progress::Complete)
    }

    async fn apply(
        &mut self,
        skills: &dyn SkillRegistry,
        blobs: &BlobIds,
        change: &SkillChange,
    ) -> Result<(), RegistryError> {
        self.revision = change.revision;
        if !self.view.selection.has(&change.id) {
            return Ok(());
        }
        if !self.group.as_ref().is_some_and(|group| group.includes(change)) {
            self.close_group(skills, blobs).await?;
            self.group = Some(OpenGroup {
                before: BTreeMap::new(),
                first_commit: self.commits.len(),
                tip_before: self.tip,
                puts: Vec::new(),
                revision: change.revision,
                at: change.at,
            });
        }
        if let Some(group) = &mut self.group {
            (group.revision, group.at) = (change.revision, change.at);
            if let Action::Put { version: Some(number), is_new: true, .. } = change.action
                && self.view.selection.skill().is_some()
            {
                group.puts.push((change.tier, Arc::clone(&change.id), number));
            }
        }
        let author = author_version(skills, change).await;
        let selector = self.view.selection.version(&change.id).cloned();
        let entry = self.entries.entry(Arc::clone(&change.id)).or_default().tier(change.tier);
        entry.record(&change.action, author.as_deref());
        let selected = selector.map(|selector| entry.select(&selector));
        let held = match (selected, &change.served) {
            (Some(None), _) | (None, ServedSkill::None) => Some(Held::Nothing),
            (Some(Some(number)), _) => {
                let number = VersionSelector::Number(number);
                let row = skills.skill_version(Some(change.tier), &change.id, &number).await;
                match row {
                    Ok(row) => self.held(skills, blobs, change, &row).await?,
                    Err(_) => None,
                }
            }
            (None, ServedSkill::Version(_, row)) => self.held(skills, blobs, change, row).await?,
            (None, ServedSkill::Corrupt(_)) => Some(Held::Unusable),
            // As if this version had never been there.
            (None, ServedSkill::Gone(_)) => None,
        };
        if let Some(held) = held {
            self.set_held(change.tier, &change.id, held);
        }
        Ok(())
    }

    /// Returns the content of a version; `None` if it is held already.
    async fn held(
        &mut self,
        skills: &dyn SkillRegistry,
        blobs: &BlobIds,
        change: &SkillChange,
        row: &SkillRow,
    ) -> Result<Option<Held>, RegistryError> {
        let number = version_number(row);
        let entry = self.entries.entry(Arc::clone(&change.id)).or_default().tier(change.tier);
        if matches!(&entry.held, Held::Skill(skill) if skill.version == number) {
            return Ok(None);
        }
        let shown = entry.shown.get(number);
        Ok(Some(folder_skill(skills, blobs, row, shown).await?.map_or(Held::Unusable, Held::Skill)))
    }

    /// Sets the content of a skill in a tier, and updates the folders of all names that it may concern.
    fn set_held(&mut self, tier: Tier, id: &Arc<str>, held: Held) {
        let entry = self.entries.entry(Arc::clone(id)).or_default();
        let name = |entry: &Entry| entry.visible_skill().map(|skill| skill.info.name.clone());
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
            Some(owner) => owner.visible_skill().filter(|skill| skill.info.name == name),
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

/// Returns the number of the version that a row is of.
fn version_number(row: &SkillRow) -> u64 {
    let served = row.heads.as_ref().map(|heads| heads.served);
    row.pinned.as_ref().map(|pinned| pinned.version).or(served).unwrap_or(0)
}

/// Returns the author's version of a version that a change created.
async fn author_version(skills: &dyn SkillRegistry, change: &SkillChange) -> Option<String> {
    let Action::Put { version: Some(number), is_new: true, .. } = change.action else {
        return None;
    };
    let author = |row: &SkillRow| row.meta.author_version().map(str::to_owned);
    match &change.served {
        ServedSkill::Version(served, row) if *served == number => author(row),
        _ => {
            let number = VersionSelector::Number(number);
            let row = skills.skill_version(Some(change.tier), &change.id, &number).await;
            row.ok().and_then(|row| author(&row))
        }
    }
}

/// Builds the skill of a folder; `None` if it is no valid Agent Skill.
pub(super) async fn folder_skill(
    skills: &dyn SkillRegistry,
    blobs: &BlobIds,
    row: &SkillRow,
    version: PluginVersion,
) -> Result<Option<Arc<FolderSkill>>, RegistryError> {
    let Ok(agent) = to_agent_skill(row) else { return Ok(None) };
    let objects = match blobs.scanned_objects(skills, row, true).await {
        Ok(objects) => objects,
        // One damaged skill must not hide all others.
        Err(
            error @ (RegistryError::NotFound { .. }
            | RegistryError::CorruptEntry { .. }
            | RegistryError::Version(_)),
        ) => {
            tracing::warn!(id = %row.id, %error, "skill left out of the history");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let info = PluginInfo {
        name: agent.name,
        description: agent.description,
        version,
        license: agent.license,
        lines: ListLines::default(),
    };
    blobs.compress(&objects);
    let (tree, entry) = (objects.id(), claude::local_entry(&info));
    let wrapper = snapshot::wrapper(&info, tree).map(|object| object.id);
    Ok(Some(Arc::new(FolderSkill {
        tier: row.tier,
        id: Arc::clone(&row.id),
        version: version_number(row),
        tree,
        objects: objects.ids(),
        wrapper,
        info,
        entry,
    })))
}
