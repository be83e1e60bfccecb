//! Keeping folders in step with the registry, once.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::{StreamExt as _, stream};
use skills_bundles::sync::{Folder, Options, Outcome, Wanted};
use skills_core::agent_skill::AgentDocument;
use skills_registry::{RegistryError, Skills, bundles::read_row, remote::is_lost};

use super::names::{self, LeftOut, Named};
use crate::{
    Failure,
    work::{blocking, on_all_cores},
};

/// How many skills are read at a time.
pub(super) const READ_AHEAD: usize = 8;
/// How many are written before the record is, and how many bytes: as much is in memory at a time.
const BATCH: usize = 256;
const BATCH_BYTES: u64 = 32 << 20;

/// A skill in a folder, and what became of it.
pub(super) struct Row {
    pub(super) folder: PathBuf,
    pub(super) name: String,
    /// What it is registered as; nothing when it is not any more.
    pub(super) id: Option<String>,
    pub(super) outcome: Result<Outcome, Failure>,
}

/// What was done.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) rows: Vec<Row>,
    pub(super) left_out: Vec<LeftOut>,
}

/// Keeps all folders in step with what the registry has now.
pub(super) async fn once(
    skills: &dyn Skills,
    places: &[PathBuf],
    options: Options,
) -> Result<Kept, Failure> {
    let catalog = skills.catalog().await?;
    // A folder is not made for nothing.
    let is_of_use = |place: &&PathBuf| catalog.skill_count() > 0 || place.exists();
    let places: Vec<PathBuf> = places.iter().filter(is_of_use).cloned().collect();
    let open = move || places.iter().map(|place| Folder::open(place, options)).collect();
    let mut folders = blocking::<Result<Vec<Folder>, _>>(open).await??;
    let (named, left_out) = names::of(skills, &catalog, &folders).await?;
    let mut kept = Kept { rows: vec![], left_out };
    let names: HashSet<String> = named.iter().map(|named| named.name.clone()).collect();
    for batch in batches(named) {
        folders = put(skills, folders, batch, &mut kept.rows).await?;
    }
    let finished = blocking(move || {
        let names: HashSet<&str> = names.iter().map(String::as_str).collect();
        let finish = |folder: Folder| {
            let path = folder.path().to_owned();
            folder.finish(&names).map(|removed| (path, removed))
        };
        folders.into_iter().map(finish).collect::<Result<Vec<_>, _>>()
    });
    for (folder, removed) in finished.await?? {
        kept.rows.extend(removed.into_iter().map(|(name, outcome)| {
            let outcome = outcome.map_err(Failure::from);
            Row { folder: folder.clone(), name, id: None, outcome }
        }));
    }
    kept.rows.sort_by(|one, other| (&one.folder, &one.name).cmp(&(&other.folder, &other.name)));
    Ok(kept)
}

/// Parts that can be held in memory.
fn batches(named: Vec<Named>) -> Vec<Vec<Named>> {
    let mut batches: Vec<Vec<Named>> = Vec::new();
    let mut bytes = 0;
    for named in named {
        let size: u64 = named.row.meta.files.iter().map(|file| file.size).sum();
        bytes += size;
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && bytes <= BATCH_BYTES => batch.push(named),
            _ => {
                batches.push(vec![named]);
                bytes = size;
            }
        }
    }
    batches
}

/// Puts some skills into all folders. Only what is not there as it was written is read from the registry.
async fn put(
    skills: &dyn Skills,
    folders: Vec<Folder>,
    batch: Vec<Named>,
    rows: &mut Vec<Row>,
) -> Result<Vec<Folder>, Failure> {
    let (folders, batch, in_step) = blocking(move || {
        let is_in_step = |named: &Named| -> Vec<bool> {
            folders.iter().map(|folder| folder.is_in_step(&named.name, named.version)).collect()
        };
        let in_step = on_all_cores(&batch, is_in_step);
        (folders, batch, in_step)
    })
    .await?;
    let mut stale: Vec<(Named, Vec<bool>)> = Vec::new();
    for (named, in_step) in batch.into_iter().zip(in_step?) {
        let there = folders.iter().zip(&in_step).filter(|(_, in_step)| **in_step);
        rows.extend(there.map(|(folder, _)| row(folder.path(), &named, Ok(Outcome::Unchanged))));
        if in_step.contains(&false) {
            stale.push((named, in_step));
        }
    }
    let read = stream::iter(stale).map(async |(named, in_step)| {
        let wanted = wanted(skills, &named).await;
        (named, in_step, wanted)
    });
    let mut ready = Vec::new();
    let mut read = std::pin::pin!(read.buffered(READ_AHEAD));
    while let Some((named, in_step, wanted)) = read.next().await {
        match wanted {
            Ok(wanted) => ready.push((wanted, in_step)),
            Err(error) if is_lost(error.code()) => return Err(error.into()),
            Err(error) => {
                let elsewhere = folders.iter().zip(&in_step).filter(|(_, in_step)| !**in_step);
                rows.extend(
                    elsewhere
                        .map(|(folder, _)| row(folder.path(), &named, Err(failure_of(&error)))),
                );
            }
        }
    }
    write(folders, ready, rows).await
}

async fn write(
    mut folders: Vec<Folder>,
    ready: Vec<(Wanted, Vec<bool>)>,
    rows: &mut Vec<Row>,
) -> Result<Vec<Folder>, Failure> {
    let ready = Arc::new(ready);
    for at in 0..folders.len() {
        let ready = Arc::clone(&ready);
        let (back, written) = blocking(move || {
            let mut rows = Vec::new();
            let Some(folder) = folders.get_mut(at) else { return (folders, Ok(rows)) };
            let missing = ready.iter().filter(|(_, in_step)| in_step.get(at) == Some(&false));
            let missing: Vec<&Wanted> = missing.map(|(wanted, _)| wanted).collect();
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
        folders = back;
        rows.extend(written?);
    }
    Ok(folders)
}

fn row(folder: &Path, named: &Named, outcome: Result<Outcome, Failure>) -> Row {
    let (name, id) = (named.name.clone(), Some(named.row.id.to_string()));
    Row { folder: folder.to_owned(), name, id, outcome }
}

fn failure_of(error: &RegistryError) -> Failure {
    Failure::new(error.code(), error.to_string())
}

/// A skill as agents load it: with frontmatter, which is made of what is known where it has none.
async fn wanted(skills: &dyn Skills, named: &Named) -> Result<Wanted, RegistryError> {
    let Named { row, version, name } = named;
    let (_, root, others) = read_row(skills, row).await?.into_parts();
    let header = AgentDocument::of(&row.id, &row.meta, &root).header;
    let root = format!("{header}{root}").into();
    Ok(Wanted { name: name.clone(), id: row.id.to_string(), version: *version, root, others })
}
