//! Decision about one skill: a comparison of the desired files, the record, and the disk.
//!
//! Changes nothing on disk.

use std::path::Path;

use skills_core::{Digest, limits::MAX_BUNDLE_BYTES};

use super::{DesiredSkill, SkipReason, record::RecordEntry};
use crate::{
    BundleError,
    dir::{Dir, FileKind},
    files::{FileComparison, NewFile, Parent, compare, parent},
};

/// Action for one skill.
pub(super) enum Decision<'a> {
    Unchanged,
    Skip(SkipReason),
    Change(Change<'a>),
}

pub(super) struct Change<'a> {
    pub(super) write: Vec<NewFile<'a>>,
    /// Files to remove before anything is written.
    pub(super) remove: Vec<String>,
}

impl<'a> Change<'a> {
    /// Plans to write all files of a skill.
    pub(super) fn write_all(desired: &'a DesiredSkill) -> Self {
        Self { write: desired.files().collect(), remove: vec![] }
    }
}

/// State of a skill's folder.
enum FolderState {
    Missing,
    Empty,
    Folder(Dir),
    /// A link or a file.
    Other,
}

/// State of a file on disk.
enum FileState {
    Missing,
    File(Digest),
    Folder,
    /// A link, or a file that no sync can have written.
    Other,
    /// A parent of the path is not a folder any more.
    ParentBlocked,
}

/// Decides about a skill that belongs into the folder.
pub(super) fn decide_desired<'a>(
    root: &Dir,
    desired: &'a DesiredSkill,
    entry: Option<&RecordEntry>,
    force: bool,
) -> Result<Decision<'a>, BundleError> {
    let home = match folder_state(root, &desired.name)? {
        FolderState::Other if !force => {
            let path = root.path().join(&desired.name);
            return Ok(Decision::Skip(SkipReason::Foreign { path }));
        }
        FolderState::Other | FolderState::Missing | FolderState::Empty => {
            return Ok(Decision::Change(Change::write_all(desired)));
        }
        FolderState::Folder(home) => home,
    };
    let home = &home;
    let mut change = Change { write: vec![], remove: vec![] };
    for file in desired.files() {
        match compare(home, file)? {
            FileComparison::Same => continue,
            FileComparison::Missing | FileComparison::OtherMode => {}
            FileComparison::Other(_) if force => {}
            FileComparison::Other(full) => {
                let inside = full.strip_prefix(home.path()).ok().and_then(Path::to_str);
                match entry.zip(inside) {
                    None => return Ok(Decision::Skip(SkipReason::Foreign { path: full })),
                    Some((entry, inside)) if is_written_by_sync(home, inside, entry)? => {}
                    Some(_) => return Ok(Decision::Skip(SkipReason::Edited { path: full })),
                }
            }
        }
        change.write.push(file);
    }
    if let Some(entry) = entry {
        let is_desired = |path: &str| desired.files().any(|known| known.path == path);
        let superfluous = entry.paths().filter(|path| !is_desired(path));
        match removable_files(home, superfluous, entry, force)? {
            Ok(remove) => change.remove = remove,
            Err(kept) => return Ok(Decision::Skip(kept)),
        }
    } else if !change.write.is_empty() && !force {
        // Skills that no sync wrote are not mixed with synced files.
        return Ok(Decision::Skip(SkipReason::Foreign { path: home.path().to_owned() }));
    }
    let is_nothing = change.write.is_empty() && change.remove.is_empty();
    Ok(if is_nothing { Decision::Unchanged } else { Decision::Change(change) })
}

/// Decides about a skill that no longer belongs into the folder.
pub(super) fn decide_removed(
    root: &Dir,
    name: &str,
    entry: &RecordEntry,
    force: bool,
) -> Result<Decision<'static>, BundleError> {
    match folder_state(root, name)? {
        FolderState::Missing | FolderState::Empty => Ok(Decision::Unchanged),
        FolderState::Other => {
            Ok(Decision::Skip(SkipReason::Edited { path: root.path().join(name) }))
        }
        FolderState::Folder(home) => {
            Ok(match removable_files(&home, entry.paths(), entry, force)? {
                Ok(remove) => Decision::Change(Change { write: vec![], remove }),
                Err(kept) => Decision::Skip(kept),
            })
        }
    }
}

/// Returns whether a skill on disk is exactly as the sync wrote it.
pub(super) fn is_unedited(root: &Dir, name: &str, entry: &RecordEntry) -> bool {
    let Ok(FolderState::Folder(home)) = folder_state(root, name) else { return false };
    entry.pending.is_empty()
        && entry.files.iter().all(|(path, digest)| {
            matches!(file_state(&home, path), Ok(FileState::File(found)) if found == *digest)
        })
}

/// Returns the files that exist and can be removed, or the first one that was edited.
fn removable_files<'a>(
    home: &Dir,
    paths: impl Iterator<Item = &'a str>,
    entry: &RecordEntry,
    force: bool,
) -> Result<Result<Vec<String>, SkipReason>, BundleError> {
    let mut remove = Vec::new();
    for path in paths {
        match file_state(home, path)? {
            FileState::Missing => {}
            FileState::File(digest) if entry.contains(path, digest) => remove.push(path.to_owned()),
            FileState::File(_) | FileState::Other if force => remove.push(path.to_owned()),
            FileState::Folder | FileState::ParentBlocked if force => {}
            _ => return Ok(Err(SkipReason::Edited { path: home.path().join(path) })),
        }
    }
    Ok(Ok(remove))
}

/// Returns whether the obstacle in the path of a file was written by a sync: another version of it, a file in place
/// of a folder, or a folder in place of a file.
fn is_written_by_sync(home: &Dir, path: &str, entry: &RecordEntry) -> Result<bool, BundleError> {
    Ok(match file_state(home, path)? {
        FileState::Missing => true,
        FileState::File(digest) => entry.contains(path, digest),
        FileState::Folder => {
            let is_below =
                |known: &str| known.strip_prefix(path).is_some_and(|below| below.starts_with('/'));
            entry.paths().any(is_below)
        }
        FileState::Other | FileState::ParentBlocked => false,
    })
}

fn folder_state(root: &Dir, name: &str) -> Result<FolderState, BundleError> {
    let unreadable = |source| BundleError::Unreadable { path: root.path().join(name), source };
    match root.kind(name).map_err(unreadable)? {
        Some(FileKind::Folder) => {
            let home = root.folder(name).map_err(unreadable)?;
            let is_empty = home.is_empty().map_err(unreadable)?;
            Ok(if is_empty { FolderState::Empty } else { FolderState::Folder(home) })
        }
        Some(_) => Ok(FolderState::Other),
        None => Ok(FolderState::Missing),
    }
}

fn file_state(home: &Dir, path: &str) -> Result<FileState, BundleError> {
    let (folder, name) = match parent(home, path)? {
        Parent::Folder(folder, name) => (folder, name),
        Parent::Missing => return Ok(FileState::Missing),
        Parent::Blocked(_) => return Ok(FileState::ParentBlocked),
    };
    let folder = folder.as_ref().unwrap_or(home);
    let unreadable = |source| BundleError::Unreadable { path: folder.path().join(name), source };
    match folder.kind(name).map_err(unreadable)? {
        None => Ok(FileState::Missing),
        Some(FileKind::Folder) => Ok(FileState::Folder),
        // No sync writes larger files.
        Some(FileKind::File { size, .. }) if size <= MAX_BUNDLE_BYTES as u64 => {
            let bytes = folder.read_file(name, MAX_BUNDLE_BYTES as u64 + 1).map_err(unreadable)?;
            Ok(FileState::File(Digest::of(&bytes)))
        }
        Some(_) => Ok(FileState::Other),
    }
}
