//! Writing a bundle into a folder.

use std::{collections::BTreeSet, io, path::Path};

use bytes::Bytes;
use skills_agent_skills::Bundle;
use skills_core::{
    RuleError,
    bundle_path::{REPOSITORY_HEAD, repository_heads},
    skill::ROOT_PATH,
};

use crate::{
    BundleError,
    dir::{Dir, FileKind},
    files::{FileComparison, NewFile, compare, write},
};

/// Number of files by result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportSummary {
    /// Files that were written.
    pub written: usize,
    /// Files that existed with the same bytes.
    pub unchanged: usize,
}

/// Writes a bundle into a folder, which becomes the bundle's folder. Other files in it stay. Files are written
/// atomically, and no link is followed below the folder.
///
/// # Errors
/// Before anything is written when something else is in the way and `force` is not set, when a path of the bundle
/// cannot be written on every system, or when the bundle and what is there would be a git repository together.
pub fn export(
    bundle: Bundle<Bytes>,
    folder: &Path,
    force: bool,
) -> Result<ExportSummary, BundleError> {
    let (meta, root, others) = bundle.into_parts();
    for (path, _) in &others {
        crate::check_path(folder, path)?;
    }
    let others = meta.files.iter().skip(1).zip(&others).map(|(meta, (path, bytes))| NewFile {
        path: path.as_str(),
        bytes,
        executable: meta.is_executable(bytes),
    });
    let root = NewFile { path: ROOT_PATH, bytes: root.as_bytes(), executable: false };
    let files: Vec<NewFile<'_>> = others.chain([root]).collect();
    let base = match Dir::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        base => Some(
            base.map_err(|source| BundleError::Unreadable { path: folder.to_owned(), source })?,
        ),
    };
    if let Some(base) = &base {
        check_repository(base, &files)?;
    }
    let mut missing = Vec::new();
    for &file in &files {
        let found = base.as_ref().map_or(Ok(FileComparison::Missing), |base| compare(base, file));
        match found? {
            FileComparison::Same => {}
            FileComparison::Missing | FileComparison::OtherMode => missing.push(file),
            FileComparison::Other(_) if force => missing.push(file),
            FileComparison::Other(path) => return Err(BundleError::Exists { path }),
        }
    }
    let base = base.map_or_else(|| Dir::create(folder), Ok);
    let base =
        base.map_err(|source| BundleError::Unwritable { path: folder.to_owned(), source })?;
    for &file in &missing {
        write(&base, file)
            .map_err(|source| BundleError::Unwritable { path: folder.join(file.path), source })?;
    }
    Ok(ExportSummary { written: missing.len(), unchanged: files.len() - missing.len() })
}

/// Refuses paths that make a folder a git repository together with existing files, such as an earlier export.
fn check_repository(base: &Dir, files: &[NewFile<'_>]) -> Result<(), BundleError> {
    let paths = files.iter().map(|file| file.path);
    let folders: BTreeSet<&str> = paths.clone().flat_map(folders_of).collect();
    let mut present = Vec::new();
    for folder in folders {
        let unreadable =
            |source| BundleError::Unreadable { path: base.path().join(folder), source };
        present.extend(entries(base, folder).map_err(unreadable)?);
    }
    let present = present.iter().map(String::as_str);
    if let [head, ..] = repository_heads(paths.chain(present))[..] {
        let source = RuleError::Path { path: head.to_owned(), reason: REPOSITORY_HEAD };
        return Err(BundleError::Rule { path: base.path().to_owned(), source });
    }
    Ok(())
}

/// Returns the folders above a path, the topmost one as an empty path.
fn folders_of(path: &str) -> impl Iterator<Item = &str> {
    [""].into_iter().chain(path.match_indices('/').map(|(at, _)| &path[..at]))
}

/// Returns the paths in a folder. A folder is represented by a path into it, a link by both.
fn entries(base: &Dir, folder: &str) -> io::Result<Vec<String>> {
    let mut dir = base.try_clone()?;
    for name in folder.split('/').filter(|name| !name.is_empty()) {
        if dir.kind(name)? != Some(FileKind::Folder) {
            return Ok(vec![]);
        }
        dir = dir.folder(name)?;
    }
    let mut paths = Vec::new();
    for name in dir.names()? {
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = dir.kind(&name)?;
        if matches!(kind, Some(FileKind::Folder | FileKind::Link)) {
            paths.push(format!("{path}/x"));
        }
        if !matches!(kind, Some(FileKind::Folder)) {
            paths.push(path);
        }
    }
    Ok(paths)
}
