//! The skills in a folder, whichever command or person put them there.

use std::{collections::BTreeMap, fs, path::PathBuf};

use skills_agent_skills::frontmatter::is_skill_name;
use skills_core::{
    Digest,
    limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES},
    skill::ROOT_PATH,
};

use super::{
    SyncFolder,
    record::{RecordEntry, Writer},
};
use crate::{
    BundleError, IGNORED_FOLDERS,
    dir::{Dir, FileKind},
    lock::{HashedFile, folder_hash},
};

/// Deepest folder of a skill that is read.
const MAX_DEPTH: usize = 64;

impl SyncFolder {
    /// Returns the names of all folders with a root document, sorted.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn installed_skills(&self) -> Result<Vec<String>, BundleError> {
        let Some(root) = &self.root else { return Ok(vec![]) };
        let unreadable = |source| BundleError::Unreadable { path: self.path.clone(), source };
        let has_document = |name: &String| {
            let home = is_skill_name(name).then(|| root.folder(name).ok()).flatten();
            let document = home.and_then(|home| home.kind(ROOT_PATH).ok().flatten());
            matches!(document, Some(FileKind::File { .. }))
        };
        let mut names = root.names().map_err(unreadable)?;
        names.retain(has_document);
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the hash of the files in a skill's folder; `None` if there is no such folder. Links, `.git` and
    /// `node_modules` are left out.
    ///
    /// # Errors
    /// When the folder cannot be read, or is larger than a skill can be.
    pub fn installed_hash(&self, name: &str) -> Result<Option<String>, BundleError> {
        let hash = |files: FileList| {
            let files = files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()));
            folder_hash(&files.collect::<Vec<HashedFile<'_>>>())
        };
        Ok(self.installed_files(name)?.map(hash))
    }

    /// Returns the id in the registry of a skill that a sync wrote.
    #[must_use]
    pub fn synced_id(&self, name: &str) -> Option<&str> {
        let entry = self.record.skills.get(name).filter(|entry| entry.writer == Writer::Sync);
        entry.map(|entry| entry.id.as_str())
    }

    /// Records the files of a skill as written by this command, because their hash is the one of the lockfile. So an
    /// update can tell them from edited files, also if another program installed them.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn adopt(&mut self, name: &str) -> Result<(), BundleError> {
        let Some(files) = self.installed_files(name)?.filter(|_| !self.options.dry_run) else {
            return Ok(());
        };
        let digests = files.iter().map(|(path, bytes)| (path.clone(), Digest::of(bytes)));
        let entry = RecordEntry {
            id: name.to_owned(),
            // Of no version, so that the skill counts as one to be updated.
            digest: Digest::of(b""),
            files: digests.collect(),
            pending: BTreeMap::new(),
            writer: self.options.writer,
        };
        self.record.skills.insert(name.to_owned(), entry);
        self.is_saved = false;
        Ok(())
    }

    /// Returns whether a skill is a link to a folder of the same name in another folder of skills, as other installers
    /// write it.
    #[must_use]
    pub fn is_linked_to(&self, name: &str, others: &[PathBuf]) -> bool {
        let is_link = |root: &&Dir| matches!(root.kind(name), Ok(Some(FileKind::Link)));
        let target = self.root.as_ref().filter(is_link);
        let target = target.and_then(|_| fs::canonicalize(self.path.join(name)).ok());
        let is_target = |other: &PathBuf| {
            *other != self.path && fs::canonicalize(other.join(name)).ok() == target
        };
        target.is_some() && others.iter().any(is_target)
    }

    fn installed_files(&self, name: &str) -> Result<Option<FileList>, BundleError> {
        let Some(root) = &self.root else { return Ok(None) };
        let unreadable = |source| BundleError::Unreadable { path: self.path.join(name), source };
        if root.kind(name).map_err(unreadable)? != Some(FileKind::Folder) {
            return Ok(None);
        }
        let mut files = InstalledFiles { files: vec![], bytes: 0 };
        files.collect(&root.folder(name).map_err(unreadable)?, "", 0)?;
        Ok(Some(files.files))
    }
}

/// Files of a skill: paths and bytes.
type FileList = Vec<(String, Vec<u8>)>;

struct InstalledFiles {
    files: FileList,
    bytes: usize,
}

impl InstalledFiles {
    fn collect(&mut self, dir: &Dir, prefix: &str, depth: usize) -> Result<(), BundleError> {
        let unreadable = |source| BundleError::Unreadable { path: dir.path().to_owned(), source };
        let too_large = || BundleError::FolderTooLarge { path: dir.path().to_owned() };
        for name in dir.names().map_err(unreadable)? {
            match dir.kind(&name).map_err(unreadable)? {
                Some(FileKind::Folder) if IGNORED_FOLDERS.contains(&name.as_str()) => {}
                Some(FileKind::Folder) if depth >= MAX_DEPTH => return Err(too_large()),
                Some(FileKind::Folder) => {
                    let inner = dir.folder(&name).map_err(unreadable)?;
                    self.collect(&inner, &format!("{prefix}{name}/"), depth + 1)?;
                }
                Some(FileKind::File { .. }) => {
                    let left = (MAX_BUNDLE_BYTES - self.bytes) as u64;
                    let bytes = dir.read_file(&name, left + 1).map_err(unreadable)?;
                    self.bytes += bytes.len();
                    if self.bytes > MAX_BUNDLE_BYTES || self.files.len() >= MAX_BUNDLE_FILES {
                        return Err(too_large());
                    }
                    self.files.push((format!("{prefix}{name}"), bytes));
                }
                Some(FileKind::Link | FileKind::Special) | None => {}
            }
        }
        Ok(())
    }
}
