//! One synchronization of folders with the registry.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::{StreamExt as _, stream};
use skills_agent_skills::AgentDocument;
use skills_bundles::sync::{
    DesiredFile, DesiredSkill, FolderLocation, Options, SyncFolder, SyncOutcome,
};
use skills_core::Coded;
use skills_registry::{Catalog, RegistryError, SkillRegistry, SkillRow, bundles::read_row};
use skills_remote::is_unreachable;

use super::names::{self, NamedSkill, SkippedSkill};
use crate::{
    Failure,
    blocking::{blocking, par_map},
    commands::{export, versions::warn_if_yanked},
};

/// Skills read concurrently from the registry.
pub(super) const READ_CONCURRENCY: usize = 8;
/// Most skills and bytes of a batch, which is in memory at once and written before its record.
const BATCH_SKILLS: usize = 256;
const BATCH_BYTES: u64 = 32 << 20;

/// Folders, and the skills to write to them.
pub(super) struct SyncJob {
    pub(super) folders: Vec<FolderLocation>,
    /// Addresses of the skills to write; empty for all. Others in the folders are left as they are.
    pub(super) selected: Vec<String>,
    pub(super) options: Options,
}

impl SyncJob {
    /// Returns the rows of the skills to write. Skills of live clients disappear with them.
    async fn rows(
        &self,
        skills: &dyn SkillRegistry,
        catalog: &Catalog,
    ) -> Result<Vec<Arc<SkillRow>>, Failure> {
        if self.selected.is_empty() {
            return Ok(catalog.skills_after(None).filter(|row| !row.is_live()).cloned().collect());
        }
        let mut rows = Vec::with_capacity(self.selected.len());
        for address in &self.selected {
            let row = export::find(skills, address).await?;
            let yanked = row.pinned.as_deref().and_then(|version| version.yanked.as_deref());
            warn_if_yanked(address, yanked);
            rows.push(row);
        }
        Ok(rows)
    }
}

/// A skill in a folder and the result of writing it.
pub(in super::super) struct Row {
    pub(in super::super) folder: PathBuf,
    pub(in super::super) name: String,
    /// Id in the registry; `None` if it is no longer registered.
    pub(in super::super) id: Option<String>,
    pub(in super::super) outcome: Result<SyncOutcome, Failure>,
}

/// Result of a synchronization.
#[derive(Default)]
pub(in super::super) struct SyncReport {
    pub(in super::super) rows: Vec<Row>,
    pub(super) skipped: Vec<SkippedSkill>,
}

/// Synchronizes all folders with the registry.
pub(super) async fn sync_once(
    skills: &dyn SkillRegistry,
    job: &SyncJob,
) -> Result<SyncReport, Failure> {
    let catalog = skills.catalog().await?;
    let rows = job.rows(skills, &catalog).await?;
    let options = job.options;
    // An empty registry creates no folder.
    let is_needed = |it: &&FolderLocation| catalog.skill_count() > 0 || it.exists();
    let locations: Vec<FolderLocation> = job.folders.iter().filter(is_needed).cloned().collect();
    let open = move || locations.iter().map(|it| SyncFolder::open_at(it, options)).collect();
    let mut folders = blocking::<Result<Vec<SyncFolder>, _>>(open).await??;
    let (named, skipped) = names::assign_names(skills, rows, &folders).await?;
    let mut report = SyncReport { rows: vec![], skipped };
    let mut names: HashSet<String> = named.iter().map(|named| named.name.clone()).collect();
    if !job.selected.is_empty() {
        let written = folders.iter().flat_map(SyncFolder::written_skills);
        names.extend(written.map(|(_, _, name)| name.to_owned()));
    }
    for batch in batches(named) {
        folders = write_batch(skills, folders, batch, &mut report.rows).await?;
    }
    let finished = blocking(move || {
        let names: HashSet<&str> = names.iter().map(String::as_str).collect();
        let finish = |folder: SyncFolder| {
            let path = folder.path().to_owned();
            folder.finish(&names).map(|removed| (path, removed))
        };
        folders.into_iter().map(finish).collect::<Result<Vec<_>, _>>()
    });
    for (folder, removed) in finished.await?? {
        report.rows.extend(removed.into_iter().map(|(name, outcome)| {
            let outcome = outcome.map_err(Failure::from);
            Row { folder: folder.clone(), name, id: None, outcome }
        }));
    }
    report.rows.sort_by(|one, other| (&one.folder, &one.name).cmp(&(&other.folder, &other.name)));
    Ok(report)
}

/// Splits skills into batches that fit in memory.
fn batches(named: Vec<NamedSkill>) -> Vec<Vec<NamedSkill>> {
    let mut batches: Vec<Vec<NamedSkill>> = Vec::new();
    let mut bytes = 0;
    for named in named {
        let size: u64 = named.row.meta.files.iter().map(|file| file.size).sum();
        bytes += size;
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH_SKILLS && bytes <= BATCH_BYTES => batch.push(named),
            _ => {
                batches.push(vec![named]);
                bytes = size;
            }
        }
    }
    batches
}

/// Writes a batch to all folders. Reads from the registry only what a folder does not have in this version.
async fn write_batch(
    skills: &dyn SkillRegistry,
    folders: Vec<SyncFolder>,
    batch: Vec<NamedSkill>,
    rows: &mut Vec<Row>,
) -> Result<Vec<SyncFolder>, Failure> {
    let (folders, batch, in_step) = blocking(move || {
        let is_in_step = |named: &NamedSkill| -> Vec<bool> {
            folders.iter().map(|folder| folder.is_up_to_date(&named.name, named.version)).collect()
        };
        let in_step = par_map(&batch, is_in_step);
        (folders, batch, in_step)
    })
    .await?;
    let mut stale: Vec<(NamedSkill, Vec<bool>)> = Vec::new();
    for (named, in_step) in batch.into_iter().zip(in_step?) {
        let current = folders.iter().zip(&in_step).filter(|(_, in_step)| **in_step);
        rows.extend(
            current.map(|(folder, _)| row(folder.path(), &named, Ok(SyncOutcome::Unchanged))),
        );
        if in_step.contains(&false) {
            stale.push((named, in_step));
        }
    }
    let read = stream::iter(stale).map(async |(named, in_step)| {
        let wanted = load(skills, &named).await;
        (named, in_step, wanted)
    });
    let mut ready = Vec::new();
    let mut read = std::pin::pin!(read.buffered(READ_CONCURRENCY));
    while let Some((named, in_step, wanted)) = read.next().await {
        match wanted {
            Ok(wanted) => ready.push((wanted, in_step)),
            Err(error) if is_unreachable(error.code()) => return Err(error.into()),
            Err(error) => {
                let outdated = folders.iter().zip(&in_step).filter(|(_, in_step)| !**in_step);
                rows.extend(outdated.map(|(folder, _)| {
                    row(
                        folder.path(),
                        &named,
                        Err(Failure { hint: None, ..Failure::from_coded(&error) }),
                    )
                }));
            }
        }
    }
    write_folders(folders, ready, rows).await
}

async fn write_folders(
    mut folders: Vec<SyncFolder>,
    ready: Vec<(DesiredSkill, Vec<bool>)>,
    rows: &mut Vec<Row>,
) -> Result<Vec<SyncFolder>, Failure> {
    let ready = Arc::new(ready);
    for at in 0..folders.len() {
        let ready = Arc::clone(&ready);
        let (returned, written) = blocking(move || {
            let mut rows = Vec::new();
            let Some(folder) = folders.get_mut(at) else { return (folders, Ok(rows)) };
            let missing = ready.iter().filter(|(_, in_step)| in_step.get(at) == Some(&false));
            let missing: Vec<&DesiredSkill> = missing.map(|(wanted, _)| wanted).collect();
            let outcomes = match folder.put(&missing) {
                Ok(outcomes) => outcomes,
                Err(error) => return (folders, Err(error)),
            };
            for (wanted, outcome) in missing.into_iter().zip(outcomes) {
                rows.push(Row {
                    folder: folder.path().to_owned(),
                    name: wanted.name.clone(),
                    id: Some(wanted.id.clone()),
                    outcome: outcome.map_err(Failure::from),
                });
            }
            (folders, Ok(rows))
        })
        .await?;
        folders = returned;
        rows.extend(written?);
    }
    Ok(folders)
}

fn row(folder: &Path, named: &NamedSkill, outcome: Result<SyncOutcome, Failure>) -> Row {
    let (name, id) = (named.name.clone(), Some(named.row.id.to_string()));
    Row { folder: folder.to_owned(), name, id, outcome }
}

/// Reads a skill in the form that agents load: frontmatter is generated if the document has none.
async fn load(
    skills: &dyn SkillRegistry,
    named: &NamedSkill,
) -> Result<DesiredSkill, RegistryError> {
    let NamedSkill { row, version, name } = named;
    let (meta, root, others) = read_row(skills, row).await?.into_parts();
    let files = meta.files.iter().skip(1).zip(others);
    let others = files.map(|(meta, (path, bytes))| {
        let executable = meta.is_executable(&bytes);
        DesiredFile { path, bytes, executable }
    });
    let others = others.collect();
    let header = AgentDocument::new(&row.id, &row.meta, &root).header;
    let root = format!("{header}{root}").into();
    Ok(DesiredSkill { name: name.clone(), id: row.id.to_string(), version: *version, root, others })
}
