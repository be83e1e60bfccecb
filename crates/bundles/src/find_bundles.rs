//! Finding the bundles at a path.

use std::{
    fs,
    io::{self, Read, Seek},
    path::Path,
    sync::Arc,
};

use ignore::{DirEntry, WalkBuilder};
use skills_core::{Provenance, RunningWork, SourceKind};

use crate::{
    BundleCandidate, BundleError,
    archive::{self, FileFormat, MAX_UNPACKED_BYTES},
    candidate::{SearchedTree, absolute},
    dir::{Dir, open_named_file},
    ignored::is_ignored_folder,
    layout::{self, FileEntry, is_document_name},
    root_document::CacheBudget,
    source::Source,
};

/// Bundles found at a path.
#[derive(Debug, Default)]
pub struct FoundBundles {
    /// Bundles in the order of their paths.
    pub candidates: Vec<BundleCandidate>,
    /// Errors about paths that belong to none of the bundles.
    pub faults: Vec<BundleError>,
}

impl FoundBundles {
    /// Returns the bundles, or an error if there are none.
    fn or_none(self, path: &Path) -> Result<Self, BundleError> {
        if self.candidates.is_empty() && self.faults.is_empty() {
            return Err(BundleError::NoBundle { path: path.to_owned() });
        }
        Ok(self)
    }
}

/// Folders of repositories that programs write, such as the plugins in the remotes of a server.
const GENERATED_FOLDERS: [&str; 2] = ["build", "dist"];

/// Finds the bundles at a path: a folder with a `SKILL.md`, a folder of such folders, an archive of either, or a text
/// file, which is a document that stands alone. The content of a file decides what it is.
///
/// # Errors
/// When the path does not exist or has no bundle.
pub fn find_bundles(path: &Path) -> Result<FoundBundles, BundleError> {
    let unreadable = |source| BundleError::Unreadable { path: path.to_owned(), source };
    if fs::metadata(path).map_err(unreadable)?.is_dir() {
        return in_folder(path).map_err(unreadable)?.or_none(path);
    }
    let mut file = open_named_file(path).map_err(unreadable)?;
    match FileFormat::detect(&mut file, path).map_err(unreadable)? {
        FileFormat::Archive(_) => {
            let location = absolute(path).to_string_lossy().into_owned();
            let origin = Provenance::new(SourceKind::Path, location);
            let mut work = RunningWork::of_process();
            find_in_archive(path, file, &origin, MAX_UNPACKED_BYTES, &mut work)
        }
        FileFormat::Text => {
            let candidates = vec![BundleCandidate::from_file(path, document_name(path))];
            Ok(FoundBundles { candidates, faults: vec![] })
        }
        FileFormat::Unknown => Err(BundleError::UnknownFormat { path: path.to_owned() }),
    }
}

/// Finds the bundles in an archive that unpacks to at most `max_bytes`. `path` is its path or URL, for messages and the
/// name of a bundle at its root. The memory of all files is reserved for the work before they are unpacked.
///
/// # Errors
/// When the file is not an archive, has no bundle, or unpacks to more than allowed.
pub fn find_in_archive(
    path: &Path,
    mut file: impl Read + Seek,
    origin: &Provenance,
    max_bytes: u64,
    work: &mut RunningWork,
) -> Result<FoundBundles, BundleError> {
    let unreadable = |source| BundleError::Unreadable { path: path.to_owned(), source };
    let FileFormat::Archive(format) = FileFormat::detect(&mut file, path).map_err(unreadable)?
    else {
        return Err(BundleError::UnknownFormat { path: path.to_owned() });
    };
    let entries = archive::unpack(file, format, max_bytes, work)
        .map_err(|source| BundleError::Archive { path: path.to_owned(), source })?;
    in_entries(path, archive::name(path), entries, origin)
}

/// Finds the bundles among the files of an archive or a repository.
pub(crate) fn in_entries(
    root: &Path,
    name: Option<&str>,
    entries: Vec<FileEntry>,
    origin: &Provenance,
) -> Result<FoundBundles, BundleError> {
    let (groups, _) = layout::groups(entries);
    let cache_budget = CacheBudget::default();
    let tree = SearchedTree { root, base: None, name, origin, cache_budget: &cache_budget };
    let candidate = |group| BundleCandidate::from_group(group, &tree);
    let mut candidates: Vec<BundleCandidate> = groups.into_iter().map(candidate).collect();
    // Of two copies of a skill the first counts, and one in a folder of generated files is the copy.
    candidates.sort_by_key(|candidate| {
        let path = candidate.provenance().map_or("", |provenance| provenance.path.as_str());
        path.split('/').any(|folder| GENERATED_FOLDERS.contains(&folder))
    });
    FoundBundles { candidates, faults: vec![] }.or_none(root)
}

fn in_folder(root: &Path) -> io::Result<FoundBundles> {
    let base = Arc::new(Dir::open(root)?);
    let (entries, mut faults) = walk(root);
    let (groups, rest) = layout::groups(entries);
    faults.extend(rest.into_iter().filter_map(|entry| entry_error(root, entry)));
    let (name, cache_budget) = (folder_name(root), CacheBudget::default());
    let origin = Provenance::new(SourceKind::Path, absolute(root).to_string_lossy());
    let tree = SearchedTree {
        root,
        base: Some(&base),
        name: name.as_deref(),
        origin: &origin,
        cache_budget: &cache_budget,
    };
    let candidate = |group| BundleCandidate::from_group(group, &tree);
    Ok(FoundBundles { candidates: groups.into_iter().map(candidate).collect(), faults })
}

/// Lists all files below a folder that may be part of a bundle, and errors without a path below it.
pub(crate) fn walk(root: &Path) -> (Vec<FileEntry>, Vec<BundleError>) {
    let mut entries = Vec::new();
    let mut faults = Vec::new();
    // In a repository, ignore files above the folder count as they do for git; elsewhere they do not.
    let is_in_repository = is_in_repository(root);
    let walk = WalkBuilder::new(root)
        .standard_filters(false)
        .git_ignore(true)
        .require_git(is_in_repository)
        .parents(is_in_repository)
        .filter_entry(|entry| entry.depth() == 0 || !is_ignored_folder(entry.file_name()))
        .build();
    for entry in walk {
        match entry {
            Ok(entry) => entries.extend(to_file_entry(root, &entry)),
            Err(error) => match error_path(&error).and_then(|path| path.strip_prefix(root).ok()) {
                Some(path) => {
                    let path = path.to_owned();
                    let source = Source::Unreadable(Arc::new(into_io_error(error)));
                    entries.push(FileEntry { path, source });
                }
                None => faults.push(unreadable(root, into_io_error(error))),
            },
        }
    }
    (entries, faults)
}

/// Returns the error of an entry that could not be read.
pub(crate) fn entry_error(root: &Path, entry: FileEntry) -> Option<BundleError> {
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

/// Converts a directory entry; `None` for folders.
fn to_file_entry(root: &Path, entry: &DirEntry) -> Option<FileEntry> {
    let kind = entry.file_type()?;
    if kind.is_dir() {
        return None;
    }
    let source = if kind.is_symlink() {
        let is_document = entry.path().file_name().is_some_and(is_document_name);
        Source::Link(is_document.then(|| fs::read_link(entry.path()).ok()).flatten())
    } else if kind.is_file() {
        Source::OnDisk
    } else {
        Source::Special
    };
    // Skips the root itself, which is listed when it is a link.
    let path = entry.path().strip_prefix(root).ok().filter(|path| !path.as_os_str().is_empty())?;
    Some(FileEntry { path: path.to_owned(), source })
}

fn is_in_repository(folder: &Path) -> bool {
    let Ok(folder) = fs::canonicalize(folder) else { return false };
    folder.ancestors().any(|above| above.join(".git").exists())
}

/// Returns the path that an error is about.
fn error_path(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            error_path(err)
        }
        _ => None,
    }
}

fn into_io_error(error: ignore::Error) -> io::Error {
    match error {
        ignore::Error::WithPath { err, .. } | ignore::Error::WithDepth { err, .. } => {
            into_io_error(*err)
        }
        ignore::Error::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// Returns the name of a folder, also if it is written as `.` or `..`.
pub(crate) fn folder_name(folder: &Path) -> Option<String> {
    let own = folder.file_name().map(ToOwned::to_owned);
    let name = own.or_else(|| fs::canonicalize(folder).ok()?.file_name().map(ToOwned::to_owned));
    name.map(|name| name.to_string_lossy().into_owned())
}

/// Returns the name of a document without its extension, or the name of the folder for a `SKILL.md`.
fn document_name(path: &Path) -> Option<String> {
    if path.file_name().is_some_and(is_document_name) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        return folder_name(folder.unwrap_or(Path::new(".")));
    }
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned())
}
