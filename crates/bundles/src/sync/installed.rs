//! The skills in a folder, whichever command or person put them there.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::PathBuf,
};

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
    BundleError,
    dir::{Dir, FileKind},
    ignored::is_ignored_folder,
    lock::{FolderHashes, HashedFile},
};

/// Deepest folder of a skill that is read.
const MAX_DEPTH: usize = 64;

/// Skill in a folder, as it is there now.
#[derive(Debug, Default)]
pub struct InstalledSkill {
    files: Vec<InstalledFile>,
    /// Paths of entries that no command installs.
    others: Vec<String>,
    bytes: usize,
}

#[derive(Debug)]
struct InstalledFile {
    path: String,
    bytes: Vec<u8>,
    executable: bool,
}

impl InstalledSkill {
    /// Returns the hashes of all files that can be part of a skill.
    #[must_use]
    pub fn hashes(&self) -> FolderHashes {
        FolderHashes::of(&self.files.iter().map(InstalledFile::to_hashed).collect::<Vec<_>>())
    }

    /// Returns the hashes of the files without some of them.
    #[must_use]
    pub fn hashes_without(&self, paths: &[String]) -> FolderHashes {
        let paths: HashSet<&str> = paths.iter().map(String::as_str).collect();
        let rest = self.files.iter().filter(|file| !paths.contains(file.path.as_str()));
        FolderHashes::of(&rest.map(InstalledFile::to_hashed).collect::<Vec<_>>())
    }

    /// Returns the paths of entries that no command installs: folders that no bundle has, with a slash at the end, links,
    /// special files and names that are not UTF-8.
    #[must_use]
    pub fn other_entries(&self) -> &[String] {
        &self.others
    }
}

impl InstalledFile {
    fn to_hashed(&self) -> HashedFile<'_> {
        HashedFile { path: &self.path, bytes: &self.bytes, executable: self.executable }
    }
}

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

    /// Reads a skill's folder; `None` if there is no such folder.
    ///
    /// # Errors
    /// When the folder cannot be read, or is larger than a skill can be.
    pub fn installed(&self, name: &str) -> Result<Option<InstalledSkill>, BundleError> {
        let Some(root) = &self.root else { return Ok(None) };
        let unreadable = |source| BundleError::Unreadable { path: self.path.join(name), source };
        if root.kind(name).map_err(unreadable)? != Some(FileKind::Folder) {
            return Ok(None);
        }
        let mut installed = InstalledSkill::default();
        installed.collect(&root.folder(name).map_err(unreadable)?, "", 0)?;
        Ok(Some(installed))
    }

    /// Returns the hashes of a skill's folder; `None` if there is no such folder, or it cannot be read. Such a folder, for
    /// example one that is too large, was not written by a command.
    #[must_use]
    pub fn installed_hashes(&self, name: &str) -> Option<FolderHashes> {
        Some(self.installed(name).ok().flatten()?.hashes())
    }

    /// Returns the files of a skill that no command recorded. Without a record of the skill, such as where another program
    /// installed it, they are not known.
    #[must_use]
    pub fn unrecorded_files(&self, name: &str, installed: &InstalledSkill) -> Vec<String> {
        let Some(entry) = self.record.skills.get(name) else { return vec![] };
        let paths = installed.files.iter().map(|file| &file.path);
        paths.filter(|path| !entry.has_path(path)).cloned().collect()
    }

    /// Returns whether a file or a link has the name of a skill.
    #[must_use]
    pub fn is_obstructed(&self, name: &str) -> bool {
        let kind = self.root.as_ref().and_then(|root| root.kind(name).ok().flatten());
        kind.is_some_and(|kind| kind != FileKind::Folder)
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
        let Some(installed) = self.installed(name)?.filter(|_| !self.options.dry_run) else {
            return Ok(());
        };
        let digests = installed.files.iter().map(|it| (it.path.clone(), Digest::of(&it.bytes)));
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
}

impl InstalledSkill {
    fn collect(&mut self, dir: &Dir, prefix: &str, depth: usize) -> Result<(), BundleError> {
        let unreadable = |source| BundleError::Unreadable { path: dir.path().to_owned(), source };
        let too_large = || BundleError::FolderTooLarge { path: dir.path().to_owned() };
        for name in dir.all_names().map_err(unreadable)? {
            let path = format!("{prefix}{}", name.to_string_lossy());
            let Ok(name) = name.into_string() else {
                self.others.push(path);
                continue;
            };
            match dir.kind(&name).map_err(unreadable)? {
                Some(FileKind::Folder) if is_ignored_folder(name.as_ref()) => {
                    self.others.push(format!("{path}/"));
                }
                Some(FileKind::Folder) if depth >= MAX_DEPTH => return Err(too_large()),
                Some(FileKind::Folder) => {
                    let inner = dir.folder(&name).map_err(unreadable)?;
                    self.collect(&inner, &format!("{path}/"), depth + 1)?;
                }
                Some(FileKind::File { executable, .. }) => {
                    let left = (MAX_BUNDLE_BYTES - self.bytes) as u64;
                    let bytes = dir.read_file(&name, left + 1).map_err(unreadable)?;
                    self.bytes += bytes.len();
                    if self.bytes > MAX_BUNDLE_BYTES || self.files.len() >= MAX_BUNDLE_FILES {
                        return Err(too_large());
                    }
                    self.files.push(InstalledFile { path, bytes, executable });
                }
                Some(FileKind::Link | FileKind::Special) => self.others.push(path),
                None => {}
            }
        }
        Ok(())
    }
}
