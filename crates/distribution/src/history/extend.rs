//! Extension of a history by the changes of the log that it lacks.

use std::sync::Arc;

use skills_core::{Coded as _, Tier, VersionSelector, WorkAccount, work::Turn};
use skills_http::is_unavailable;
use skills_registry::{
    Action, RegistryError, ServedSkill, SkillChange, SkillLogPage, SkillLogRequest, SkillRegistry,
    SkillRow, available::to_agent_skill,
};

use super::{
    CommitGroup, FolderSkill, History,
    entry::{Act, Held},
    replay::{Next, Served},
    snapshot,
};
use crate::{
    error::DistributionError,
    formats::{ListLines, PluginInfo, claude},
    plugin_version::PluginVersion,
    row_memory::scan_memory,
    skill_tree::BlobIds,
};

/// What a history is extended with, and until when.
pub(crate) struct ReplayContext<'a> {
    /// Registry as the view's owner sees it.
    pub(crate) skills: &'a dyn SkillRegistry,
    pub(crate) blobs: &'a BlobIds,
    /// Account of the client that waits for the history.
    pub(crate) account: &'a WorkAccount,
    pub(crate) turn: &'a Turn<'a>,
}

/// Result of reading new changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The history has all changes.
    Complete,
    /// The time is over. The history goes on from where it is.
    Partial,
    /// Content was removed from the past: the history has to be built again. The log was read up to this revision.
    Rewritten(u64),
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

    /// Adds changes of the log, from a first page on. After an error the same changes can be added again.
    pub(crate) async fn extend(
        &mut self,
        context: &ReplayContext<'_>,
        mut page: SkillLogPage,
    ) -> Result<Progress, DistributionError> {
        loop {
            let removes = |change: &SkillChange| {
                matches!(change.action, Action::Purge { .. } | Action::Collect { .. })
            };
            // Content that was removed before the history was begun is not in it.
            let is_rewritten =
                |change: &SkillChange| change.revision > self.started_at && removes(change);
            if let Some(last) = page.changes.last()
                && page.changes.iter().any(is_rewritten)
            {
                return Ok(Progress::Rewritten(last.revision));
            }
            for change in &page.changes {
                self.apply(context, change).await?;
                if context.turn.is_over() {
                    return Ok(Progress::Partial);
                }
            }
            if !page.has_more {
                break;
            }
            page = context.skills.skill_log(&self.next_request()).await?;
        }
        self.close_group(context).await?;
        Ok(Progress::Complete)
    }

    async fn apply(
        &mut self,
        context: &ReplayContext<'_>,
        change: &SkillChange,
    ) -> Result<(), DistributionError> {
        if self.view.selection.has(&change.id) {
            self.apply_selected(context, change).await?;
        }
        self.revision = change.revision;
        Ok(())
    }

    async fn apply_selected(
        &mut self,
        context: &ReplayContext<'_>,
        change: &SkillChange,
    ) -> Result<(), DistributionError> {
        if !self.replay.continues_group(change.revision, change.at) {
            self.close_group(context).await?;
            self.group = Some(CommitGroup {
                first_commit: self.commits.len(),
                tip_before: self.tip,
                puts: Vec::new(),
            });
        }
        self.replay.enter_group(change.revision, change.at);
        let act = Act::from(&change.action);
        if let (Act::New(number), Some(group), Some(_)) =
            (&act, &mut self.group, self.view.selection.skill())
        {
            let put = (change.tier, Arc::clone(&change.id), *number);
            // The change is not new if it failed before.
            if group.puts.last() != Some(&put) {
                group.puts.push(put);
            }
        }
        let author = author_version(context, change).await?;
        let served = match change.served {
            ServedSkill::None => Served::Nothing,
            ServedSkill::Version(number, _) => Served::Version(number),
            ServedSkill::Gone(_) => Served::Gone,
            ServedSkill::Corrupt(_) => Served::Corrupt,
        };
        let selector = self.view.selection.version(&change.id).cloned();
        let (skill, act) = ((change.tier, &change.id), (&act, author.as_deref()));
        let next = self.replay.record(skill, act, served, selector.as_ref());
        let row = match (next, &change.served) {
            (Next::Nothing, _) => {
                self.replay.set_held(change.tier, &change.id, Held::Nothing);
                return Ok(());
            }
            (Next::Unusable, _) => {
                self.replay.set_held(change.tier, &change.id, Held::Unusable);
                return Ok(());
            }
            (Next::Served(_), ServedSkill::Version(_, row)) => Some(Arc::clone(row)),
            (Next::Selected(number) | Next::Served(number), _) => {
                version_row(context.skills, change.tier, &change.id, number).await?
            }
            (Next::Same, _) => None,
        };
        let Some(row) = row else { return Ok(()) };
        let version = self.plugin_version(change.tier, &change.id, version_number(&row));
        let held = match folder_skill(context, &row, version).await? {
            Some(skill) => Held::Skill(skill),
            None => Held::Unusable,
        };
        self.replay.set_held(change.tier, &change.id, held);
        Ok(())
    }
}

/// Returns a version of a skill; `None` if there is no such version, or its content is gone.
pub(crate) async fn version_row(
    skills: &dyn SkillRegistry,
    tier: Tier,
    id: &str,
    number: u64,
) -> Result<Option<Arc<SkillRow>>, DistributionError> {
    match skills.skill_version(Some(tier), id, &VersionSelector::Number(number)).await {
        Ok(row) => Ok(Some(row)),
        Err(error) if is_unavailable(error.code()) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

/// Returns the number of the version that a row is of.
fn version_number(row: &SkillRow) -> u64 {
    let served = row.heads.as_ref().map(|heads| heads.served);
    row.pinned.as_ref().map(|pinned| pinned.version).or(served).unwrap_or(0)
}

/// Returns the author's version of a version that a change created.
async fn author_version(
    context: &ReplayContext<'_>,
    change: &SkillChange,
) -> Result<Option<String>, DistributionError> {
    let Act::New(number) = Act::from(&change.action) else { return Ok(None) };
    let author = |row: &SkillRow| row.meta.author_version().map(str::to_owned);
    Ok(match &change.served {
        ServedSkill::Version(served, row) if *served == number => author(row),
        _ => {
            let row = version_row(context.skills, change.tier, &change.id, number).await?;
            row.and_then(|row| author(&row))
        }
    })
}

/// Builds the skill of a folder; `None` if it is no valid Agent Skill.
pub(super) async fn folder_skill(
    context: &ReplayContext<'_>,
    row: &SkillRow,
    version: PluginVersion,
) -> Result<Option<Arc<FolderSkill>>, DistributionError> {
    let Ok(agent) = to_agent_skill(row) else { return Ok(None) };
    let _reservation = context.account.memory().try_reserve(scan_memory(row))?;
    let objects = match context.blobs.scanned_objects(context.skills, row, true).await {
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
        Err(error) => return Err(error.into()),
    };
    let info = PluginInfo {
        name: agent.name,
        description: agent.description,
        version,
        license: agent.license,
        lines: ListLines::default(),
    };
    context.blobs.compress(&objects);
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
