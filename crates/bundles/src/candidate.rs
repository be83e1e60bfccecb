//! Bundle that was found on disk, and reading it.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use bytes::Bytes;
use skills_core::{
    BundlePath, Provenance, RuleError, SourceKind,
    limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES, MAX_SKILL_BYTES},
    skill::ROOT_PATH,
};

use crate::{
    AssignedId, BundleContents, BundleError,
    dir::{Dir, OpenError, is_executable, open_named, read_at_most},
    layout::Group,
    root_document::{CacheBudget, RootDocument},
    source::{FileBytes, Source},
};

/// Size, modification time and permissions of a file.
pub type FileStamp = (u64, SystemTime, u32);

/// Tree of files that is searched for bundles: a folder, an archive or a repository.
pub(crate) struct SearchedTree<'a> {
    /// Path for messages.
    pub(crate) root: &'a Path,
    /// Handle of a folder, from which files are opened.
    pub(crate) base: Option<&'a Arc<Dir>>,
    /// Name of a bundle at the root without a name of its own.
    pub(crate) name: Option<&'a str>,
    /// Place that the tree comes from.
    pub(crate) origin: &'a Provenance,
    pub(crate) cache_budget: &'a CacheBudget,
}

impl SearchedTree<'_> {
    /// Returns the provenance of a bundle. A folder on disk is a place of its own; a folder in an archive or a
    /// repository is a path inside that place.
    fn provenance(&self, folder: &Path) -> Box<Provenance> {
        let mut provenance = self.origin.clone();
        if self.base.is_none() {
            provenance.path = to_slashes(folder);
        } else if !folder.as_os_str().is_empty() {
            let location = Path::new(&provenance.location).join(folder);
            provenance.location = location.to_string_lossy().into_owned();
        }
        Box::new(provenance)
    }
}

/// Returns the absolute path of a file for its provenance.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Bundle that was found and not read yet.
#[derive(Debug)]
pub struct BundleCandidate {
    /// Base of its relative paths.
    folder: PathBuf,
    /// Searched folder, and the path from there to the bundle. Files are opened from this handle, so that no file is
    /// read that became a link meanwhile. `None` for a document that the user named.
    base: Option<(Arc<Dir>, PathBuf)>,
    /// Path for messages: the folder, or the document that stands alone.
    place: PathBuf,
    /// Name of the folder or file, used if the frontmatter has none.
    name: Option<String>,
    document: OsString,
    files: Vec<(PathBuf, Source)>,
    /// Place that the content comes from.
    provenance: Option<Box<Provenance>>,
    /// Absolute path of the searched folder.
    tree: Option<PathBuf>,
    is_alone: bool,
    is_linked: bool,
    /// Cached root document, if the cache has room for it.
    root_document: OnceLock<RootDocument>,
    cache_budget: CacheBudget,
}

impl BundleCandidate {
    /// Creates a candidate from a group of files in a searched tree. The path of an archive or the URL of a repository
    /// stands in for a folder.
    pub(crate) fn from_group(group: Group, tree: &SearchedTree<'_>) -> Self {
        let SearchedTree { root, base, name, cache_budget, .. } = *tree;
        let inner = group.folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let is_root = group.folder.as_os_str().is_empty();
        let place = if is_root { root.to_owned() } else { root.join(&group.folder) };
        let provenance = tree.provenance(&group.folder);
        Self {
            folder: place.clone(),
            base: base.map(|base| (Arc::clone(base), group.folder)),
            place,
            name: inner.or_else(|| name.map(str::to_owned)),
            document: group.document,
            files: group.entries.into_iter().map(|entry| (entry.path, entry.source)).collect(),
            provenance: Some(provenance),
            tree: base.map(|_| PathBuf::from(&tree.origin.location)),
            is_alone: false,
            is_linked: group.is_linked,
            root_document: OnceLock::new(),
            cache_budget: cache_budget.clone(),
        }
    }

    /// Creates a candidate from a document that stands alone.
    pub(crate) fn from_file(path: &Path, name: Option<String>) -> Self {
        let document = path.file_name().unwrap_or_default().to_owned();
        let location = absolute(path).to_string_lossy().into_owned();
        Self {
            folder: path.parent().unwrap_or(Path::new("")).to_owned(),
            base: None,
            place: path.to_owned(),
            name,
            files: vec![(PathBuf::from(&document), Source::OnDisk)],
            document,
            provenance: Some(Box::new(Provenance::new(SourceKind::Path, location))),
            tree: None,
            is_alone: true,
            is_linked: false,
            root_document: OnceLock::new(),
            cache_budget: CacheBudget::default(),
        }
    }

    /// Creates a candidate from a document that was read elsewhere, such as from standard input.
    #[must_use]
    pub fn from_bytes(place: &Path, bytes: Bytes) -> Self {
        Self {
            folder: PathBuf::new(),
            base: None,
            place: place.to_owned(),
            name: None,
            document: place.as_os_str().to_owned(),
            files: vec![(place.to_owned(), Source::InMemory { bytes, executable: None })],
            provenance: Some(Box::new(Provenance::new(SourceKind::Command, "stdin"))),
            tree: None,
            is_alone: true,
            is_linked: false,
            root_document: OnceLock::new(),
            cache_budget: CacheBudget::default(),
        }
    }

    /// Creates a candidate from files that were downloaded one by one: their paths inside the bundle, and their bytes.
    #[must_use]
    pub fn from_files(
        place: &Path,
        name: &str,
        files: Vec<(PathBuf, Bytes)>,
        provenance: Provenance,
    ) -> Self {
        let source = |bytes| Source::InMemory { bytes, executable: None };
        Self {
            folder: place.to_owned(),
            base: None,
            place: place.to_owned(),
            name: Some(name.to_owned()),
            document: OsString::from(ROOT_PATH),
            files: files.into_iter().map(|(path, bytes)| (path, source(bytes))).collect(),
            provenance: Some(Box::new(provenance)),
            tree: None,
            is_alone: false,
            is_linked: false,
            root_document: OnceLock::new(),
            cache_budget: CacheBudget::default(),
        }
    }

    /// Replaces the place that the content comes from.
    pub fn set_provenance(&mut self, provenance: Provenance) {
        self.provenance = Some(Box::new(provenance));
    }

    /// Returns the path for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.place
    }

    /// Returns the place that the content comes from.
    #[must_use]
    pub fn provenance(&self) -> Option<&Provenance> {
        self.provenance.as_deref()
    }

    /// Returns whether a version of the bundle came from the same place. All folders of the searched one are one place,
    /// so that a bundle may be moved in it.
    #[must_use]
    pub fn is_from(&self, other: &Provenance) -> bool {
        let is_same = |own: &Provenance| own.is_same_source(other);
        let is_path = other.kind == SourceKind::Path;
        let is_moved = |tree: &PathBuf| is_path && Path::new(&other.location).starts_with(tree);
        self.provenance().is_some_and(is_same) || self.tree.as_ref().is_some_and(is_moved)
    }

    /// Returns whether the root document is a link to a file elsewhere in the searched tree.
    #[must_use]
    pub const fn is_linked(&self) -> bool {
        self.is_linked
    }

    /// Returns the requested id: a prefix and the name in the frontmatter if that is a valid id, otherwise the name of
    /// the folder or file. A name that is only too long is shortened.
    ///
    /// # Errors
    /// When its document cannot be read, or neither is a skill id.
    pub fn id(&self, prefix: &str) -> Result<AssignedId, BundleError> {
        let root_document = self.root_document()?;
        let names = [root_document.name.as_deref(), self.name.as_deref()];
        let id = AssignedId::from_names(prefix, names.into_iter().flatten());
        if self.cache_budget.try_reserve(&root_document) {
            self.root_document.get_or_init(|| root_document);
        }
        id.ok_or_else(|| BundleError::NoId { path: self.place.clone() })
    }

    /// Reads and parses the root document.
    fn root_document(&self) -> Result<RootDocument, BundleError> {
        let document = self.files.iter().find(|(path, _)| self.is_document(path));
        let bytes = match document {
            Some((path, source)) => self.bytes(path, source, MAX_SKILL_BYTES)?.bytes,
            None => Bytes::new(),
        };
        if self.is_alone && !self.document.eq_ignore_ascii_case(ROOT_PATH) {
            return Ok(RootDocument::from_document(bytes));
        }
        let files: Vec<String> = self.files.iter().map(|(path, _)| to_slashes(path)).collect();
        // The files beside a document that stands alone are unknown.
        let files = (!self.is_alone).then_some(files.as_slice());
        Ok(RootDocument::from_bundle(bytes, self.name.as_deref(), files))
    }

    fn is_document(&self, path: &Path) -> bool {
        path == Path::new(&self.document)
    }

    /// Returns the stamp of every file, for change detection without reading.
    #[must_use]
    pub fn stamps(&self) -> Vec<(PathBuf, Option<FileStamp>)> {
        let stamp = |path: &Path| {
            let metadata = fs::symlink_metadata(self.folder.join(path)).ok()?;
            Some((metadata.len(), metadata.modified().ok()?, metadata.mode()))
        };
        let mut stamps: Vec<_> =
            self.files.iter().map(|(path, _)| (path.clone(), stamp(path))).collect();
        stamps.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        stamps
    }

    /// Reads every file.
    ///
    /// # Errors
    /// When a file cannot be part of a bundle, or all together are too large.
    pub fn read(&self) -> Result<BundleContents, BundleError> {
        if self.files.len() > MAX_BUNDLE_FILES {
            let files = self.files.len();
            return Err(self.rule(RuleError::TooManyFiles { files, max: MAX_BUNDLE_FILES }));
        }
        let mut others = Vec::with_capacity(self.files.len());
        let mut executable = HashMap::new();
        let mut left = MAX_BUNDLE_BYTES;
        let root_document = match self.root_document.get() {
            Some(root_document) => root_document.clone(),
            None => self.root_document()?,
        };
        left = left.saturating_sub(root_document.bytes.len());
        for (path, source) in self.files.iter().filter(|(path, _)| !self.is_document(path)) {
            // The name is checked before the content is read.
            let inside = self.inside(path)?;
            let file = self.bytes(path, source, left)?;
            left = left.checked_sub(file.bytes.len()).ok_or_else(|| self.too_large(path))?;
            executable.extend(file.executable.map(|bit| (inside.to_string(), bit)));
            others.push((inside, file.bytes));
        }
        Ok(BundleContents {
            folder: self.folder.clone(),
            place: self.place.clone(),
            spelled: self.document.to_string_lossy().into_owned(),
            root_document,
            others,
            executable,
            provenance: self.provenance.clone(),
            is_alone: self.is_alone,
        })
    }

    fn rule(&self, source: RuleError) -> BundleError {
        BundleError::Rule { path: self.place.clone(), source }
    }

    /// Returns the error for the file that exceeds the bundle limit.
    fn too_large(&self, path: &Path) -> BundleError {
        let (bytes, max) = (MAX_BUNDLE_BYTES + 1, MAX_BUNDLE_BYTES);
        let source = RuleError::BundleTooLarge { bytes, max };
        BundleError::Rule { path: self.folder.join(path), source }
    }

    fn inside(&self, path: &Path) -> Result<BundlePath, BundleError> {
        let mut inside = String::new();
        for part in path {
            let part =
                part.to_str().ok_or_else(|| BundleError::Name { path: self.folder.join(path) })?;
            if !inside.is_empty() {
                inside.push('/');
            }
            inside.push_str(part);
        }
        inside.parse().map_err(|source| self.rule(source))
    }

    /// Reads a file, up to one byte more than allowed, which is enough to detect an oversized file.
    fn bytes(&self, path: &Path, source: &Source, max: usize) -> Result<FileBytes, BundleError> {
        let full = || self.folder.join(path);
        let unreadable = |source| BundleError::Unreadable { path: full(), source };
        match source {
            Source::OnDisk | Source::OnDiskAt(_) => {
                let file = match (&self.base, source) {
                    (Some((base, _)), Source::OnDiskAt(target)) => base.open_file(target),
                    (Some((base, inner)), _) => base.open_file(&inner.join(path)),
                    (None, _) => open_named(&full()),
                };
                let file = match file {
                    Ok(file) => file,
                    Err(OpenError::Link) => return Err(BundleError::Link { path: full() }),
                    Err(OpenError::Special) => return Err(BundleError::Special { path: full() }),
                    Err(OpenError::Io(error)) => return Err(unreadable(error)),
                };
                let executable = is_executable(file.metadata().map_err(unreadable)?.mode());
                let bytes = read_at_most(file, max as u64 + 1).map_err(unreadable)?.into();
                Ok(FileBytes { bytes, executable: Some(executable) })
            }
            Source::InMemory { bytes, executable } => {
                Ok(FileBytes { bytes: bytes.clone(), executable: *executable })
            }
            Source::Object { objects, id, executable } => {
                let bytes = objects.read(id, max + 1).map_err(unreadable)?;
                Ok(FileBytes { bytes, executable: Some(*executable) })
            }
            Source::TooLarge => Err(self.too_large(path)),
            Source::Link(_) => Err(BundleError::Link { path: full() }),
            Source::Special => Err(BundleError::Special { path: full() }),
            Source::Unreadable(error) => Err(BundleError::Unreadable {
                path: full(),
                source: io::Error::new(error.kind(), Arc::clone(error)),
            }),
        }
    }
}

/// Converts a path to forward slashes. Names that are not UTF-8 are replaced.
pub(crate) fn to_slashes(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}
