//! Which bundles a path stands for.

use std::{ffi::OsStr, fs, io, path::Path, sync::Arc};

use ignore::{DirEntry, WalkBuilder};
use skills_core::skill::ROOT_PATH;

use crate::{
    BundleError, Candidate, SKIPPED,
    archive::{self, Format},
    candidate::Source,
    head::Room,
    layout::{self, Entry},
};

/// What is at a path.
#[derive(Debug, Default)]
pub struct Found {
    /// The bundles, in the order of their places.
    pub candidates: Vec<Candidate>,
    /// What could not be looked into and belongs to none of them.
    pub faults: Vec<BundleError>,
}

/// Finds the bundles that a path stands for: a folder with a `SKILL.md`, a folder of such folders, an archive of
/// either, or any other file, which is a document by itself.
///
/// # Errors
/// When nothing is there, or no bundle in it.
pub fn find(path: &Path) -> Result<Found, BundleError> {
    let unreadable = |source| BundleError::Unreadable { path: path.to_owned(), source };
    let found = if fs::metadata(path).map_err(unreadable)?.is_dir() {
        in_folder(path)
    } else if let Some((format, name)) = Format::of(path) {
        let entries = archive::unpack(path, format)
            .map_err(|source| BundleError::Archive { path: path.to_owned(), source })?;
        let (groups, _) = layout::groups(entries);
        let room = Room::default();
        let candidate = |group| Candidate::of_group(group, path, Some(name.to_owned()), &room);
        Found { candidates: groups.into_iter().map(candidate).collect(), faults: vec![] }
    } else {
        let candidates = vec![Candidate::of_file(path, name_of_file(path))];
        Found { candidates, faults: vec![] }
    };
    if found.candidates.is_empty() && found.faults.is_empty() {
        return Err(BundleError::NoBundle { path: path.to_owned() });
    }
    Ok(found)
}

fn in_folder(root: &Path) -> Found {
    let (entries, mut faults) = walk(root);
    let (groups, rest) = layout::groups(entries);
    faults.extend(rest.into_iter().filter_map(|entry| fault(root, entry)));
    let name = name_of_folder(root);
    let room = Room::default();
    let candidate = |group| Candidate::of_group(group, root, name.clone(), &room);
    Found { candidates: groups.into_iter().map(candidate).collect(), faults }
}

/// Everything below a folder that may be part of a bundle, and what could not be looked at.
pub(crate) fn walk(root: &Path) -> (Vec<Entry>, Vec<BundleError>) {
    let mut entries = Vec::new();
    let mut faults = Vec::new();
    // In a repository it is as git has it; elsewhere what stands above has nothing to say.
    let is_in_repository = is_in_repository(root);
    let walk = WalkBuilder::new(root)
        .standard_filters(false)
        .git_ignore(true)
        .require_git(is_in_repository)
        .parents(is_in_repository)
        .filter_entry(|entry| entry.depth() == 0 || !is_skipped(entry.file_name()))
        .build();
    for entry in walk {
        match entry {
            Ok(entry) => entries.extend(listed(root, &entry)),
            Err(error) => match path_of(&error).and_then(|path| path.strip_prefix(root).ok()) {
                Some(path) => {
                    let path = path.to_owned();
                    let source = Source::Unreadable(Arc::new(into_io(error)));
                    entries.push(Entry { path, source });
                }
                None => faults.push(unreadable(root, into_io(error))),
            },
        }
    }
    (entries, faults)
}

/// What stands in place of a folder or a file that could not be looked at.
pub(crate) fn fault(root: &Path, entry: Entry) -> Option<BundleError> {
    match entry.source {
        Source::Unreadable(error) => {
            let error = io::Error::new(error.kind(), error);
            Some(unreadable(&root.join(entry.path), error))
        }
        _ => None,
    }
}

fn unreadable(path: &Path, source: io::Error) -> BundleError {
    BundleError::Unreadable { path: path.to_owned(), source }
}

/// A file, or what stands in place of one; folders are known by what is in them.
fn listed(root: &Path, entry: &DirEntry) -> Option<Entry> {
    let kind = entry.file_type()?;
    let source = match () {
        () if kind.is_dir() => return None,
        () if kind.is_symlink() => Source::Link,
        () if kind.is_file() => Source::OnDisk,
        () => Source::Special,
    };
    // The root itself, when it is named through a link.
    let path = entry.path().strip_prefix(root).ok().filter(|path| !path.as_os_str().is_empty())?;
    Some(Entry { path: path.to_owned(), source })
}

pub(crate) fn is_skipped(name: &OsStr) -> bool {
    SKIPPED.iter().any(|skipped| name == *skipped)
}

fn is_in_repository(folder: &Path) -> bool {
    let Ok(folder) = fs::canonicalize(folder) else { return false };
    folder.ancestors().any(|above| above.join(".git").exists())
}

/// The place an error is about, however it is wrapped.
fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            path_of(err)
        }
        _ => None,
    }
}

fn into_io(error: ignore::Error) -> io::Error {
    match error {
        ignore::Error::WithPath { err, .. } | ignore::Error::WithDepth { err, .. } => into_io(*err),
        ignore::Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// The name of a folder, also of one that is written as `.` or `..`.
pub(crate) fn name_of_folder(folder: &Path) -> Option<String> {
    let own = folder.file_name().map(ToOwned::to_owned);
    let name = own.or_else(|| fs::canonicalize(folder).ok()?.file_name().map(ToOwned::to_owned));
    name.map(|name| name.to_string_lossy().into_owned())
}

/// The name of a document without its ending. `SKILL.md` says nothing; the folder it is in does.
fn name_of_file(path: &Path) -> Option<String> {
    if path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(ROOT_PATH)) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        return name_of_folder(folder.unwrap_or(Path::new(".")));
    }
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned())
}
