//! One-way sync of skills into a folder. Removes only what it wrote.
//!
//! - `record`: what was written, stored beside the skills
//! - `decide`: the action for one skill
//! - `location`: the path of the folder, and opening it
//! - `installed`: the skills in the folder, of all writers
//!
//! The origin of the skills and their folder names are not known here. Edited files and files that no sync wrote are left
//! alone. Files are written atomically, no link below the folder is followed, and the record always covers everything
//! that an interrupted sync may have written.

mod decide;
mod installed;
mod location;
mod record;

pub use installed::InstalledSkill;
pub use location::FolderLocation;
pub use record::Writer;

use std::{
    collections::{BTreeMap, HashSet},
    fmt, fs,
    fs::TryLockError,
    io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use skills_agent_skills::frontmatter::is_skill_name;
use skills_core::{
    BundlePath, Digest, RuleError,
    bundle_path::check_name,
    skill::ROOT_PATH,
    text::{MAX_QUOTED_CHARS, first_chars},
};

use self::{
    decide::{Change, Decision},
    record::{Record, RecordEntry},
};
use crate::{
    BundleError,
    dir::Dir,
    files::{NewFile, remove, write},
    lock::HashedFile,
};

/// Skill as it should be in the folder.
#[derive(Debug)]
pub struct DesiredSkill {
    /// Name of its folder, a valid Agent Skill name.
    pub name: String,
    /// Id in the registry.
    pub id: String,
    /// Digest of this version.
    pub version: Digest,
    /// Root document.
    pub root: Bytes,
    /// Other files.
    pub others: Vec<DesiredFile>,
}

/// File of a skill beside its root document.
#[derive(Debug)]
pub struct DesiredFile {
    /// Path inside the skill's folder.
    pub path: BundlePath,
    /// Content.
    pub bytes: Bytes,
    /// Executable bit.
    pub executable: bool,
}

impl DesiredSkill {
    /// Checks name and paths, which may come from an untrusted registry.
    fn check(&self, folder: &Path) -> Result<(), BundleError> {
        check_folder_name(&self.name)
            .map_err(|source| BundleError::Rule { path: folder.to_owned(), source })?;
        self.others.iter().try_for_each(|file| crate::check_path(folder, &file.path))
    }

    /// Returns all files, the root document last: an agent that finds it finds everything it refers to.
    fn files(&self) -> impl Iterator<Item = NewFile<'_>> {
        let others = self.others.iter().map(|DesiredFile { path, bytes, executable }| NewFile {
            path: path.as_str(),
            bytes,
            executable: *executable,
        });
        others.chain([NewFile { path: ROOT_PATH, bytes: &self.root, executable: false }])
    }

    /// Returns all files as the hashes of a lockfile cover them.
    pub fn hashed_files(&self) -> impl Iterator<Item = HashedFile<'_>> {
        self.files().map(|NewFile { path, bytes, executable }| HashedFile {
            path,
            bytes,
            executable,
        })
    }
}

/// Options of a sync.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Overwrites and removes files even if they were edited or not written by a sync.
    pub force: bool,
    /// Writes nothing.
    pub dry_run: bool,
    /// Command that writes. Skills of the other one count as not written by a sync.
    pub writer: Writer,
}

/// Result of syncing one skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SyncOutcome {
    /// New skill, with the number of files.
    Written(usize),
    /// Replaced another version, or completed a partial one.
    Updated,
    /// Up to date already.
    Unchanged,
    /// Removed, because the registry no longer has it.
    Removed,
    /// Left untouched, for this reason.
    Skipped(SkipReason),
}

/// Reason why a skill was left untouched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipReason {
    /// Not written by a sync.
    Foreign {
        /// Path of the obstacle.
        path: PathBuf,
    },
    /// Written by a sync and edited since.
    Edited {
        /// First edited file.
        path: PathBuf,
    },
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { path } => write!(f, "{} was not written by a sync", path.display()),
            Self::Edited { path } => {
                write!(f, "{} was edited since it was written", path.display())
            }
        }
    }
}

/// Checks that every system accepts a folder name for a skill.
///
/// # Errors
/// When it is not the name of an Agent Skill, or one that some system reserves.
pub fn check_folder_name(name: &str) -> Result<(), RuleError> {
    check_name(name)?;
    if is_skill_name(name) {
        return Ok(());
    }
    let path = first_chars(name, MAX_QUOTED_CHARS).to_owned();
    Err(RuleError::Path { path, reason: "is not the name of an Agent Skill" })
}

/// Folder of synced skills, locked against other syncs.
#[derive(Debug)]
pub struct SyncFolder {
    path: PathBuf,
    /// Handle of the folder; `None` if it is missing in a dry run.
    root: Option<Dir>,
    options: Options,
    record: Record,
    is_saved: bool,
    _lock: Option<fs::File>,
}

impl SyncFolder {
    /// Opens a folder, and creates it unless this is a dry run.
    ///
    /// # Errors
    /// When it cannot be created or read, its record is damaged, or another sync holds the lock.
    pub fn open(path: &Path, options: Options) -> Result<Self, BundleError> {
        Self::open_at(&FolderLocation::named(path), options)
    }

    /// Opens the folder at a location, and creates it unless this is a dry run.
    ///
    /// # Errors
    /// When it cannot be created or read, a link is in the way, its record is damaged, or another sync holds the lock.
    pub fn open_at(location: &FolderLocation, options: Options) -> Result<Self, BundleError> {
        let root = if options.dry_run { location.open()? } else { Some(location.create()?) };
        let lock = match &root {
            Some(root) if !options.dry_run => lock(root)?,
            _ => None,
        };
        let record = root.as_ref().map_or_else(|| Ok(Record::default()), Record::load)?;
        let path = location.path().to_owned();
        Ok(Self { path, root, options, record, is_saved: true, _lock: lock })
    }

    /// Returns the path for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the skills that were written: id, version, and folder name.
    pub fn written_skills(&self) -> impl Iterator<Item = (&str, Digest, &str)> {
        let known = self.record.skills.iter().filter(|(_, entry)| self.is_own(entry));
        known.map(|(name, entry)| (entry.id.as_str(), entry.digest, name.as_str()))
    }

    fn is_own(&self, entry: &RecordEntry) -> bool {
        entry.writer == self.options.writer
    }

    /// Returns the record of a skill that the same command wrote.
    fn own_entry(&self, name: &str) -> Option<&RecordEntry> {
        self.record.skills.get(name).filter(|entry| self.is_own(entry))
    }

    /// Returns whether a version of a skill is on disk exactly as it was written.
    #[must_use]
    pub fn is_up_to_date(&self, name: &str, version: Digest) -> bool {
        let entry = self.own_entry(name).filter(|entry| entry.digest == version);
        let root = self.root.as_ref();
        entry.zip(root).is_some_and(|(entry, root)| decide::is_unedited(root, name, entry))
    }

    /// Writes some skills. The record is saved once for all of them, before any file is written.
    ///
    /// # Errors
    /// When the record cannot be written. Errors of single skills are in the list.
    pub fn put(
        &mut self,
        skills: &[&DesiredSkill],
    ) -> Result<Vec<Result<SyncOutcome, BundleError>>, BundleError> {
        let mut decisions = Vec::with_capacity(skills.len());
        for &desired in skills {
            let entry = self.own_entry(&desired.name);
            let decision = desired.check(&self.path).and_then(|()| match &self.root {
                Some(root) => decide::decide_desired(root, desired, entry, self.options.force),
                None => Ok(Decision::Change(Change::write_all(desired))),
            });
            if let Ok(Decision::Change(change)) = &decision
                && !self.options.dry_run
            {
                self.record_pending(desired, change);
            }
            decisions.push((
                desired,
                entry_is_new(self.record.skills.get(&desired.name)),
                decision,
            ));
        }
        self.save()?;
        let apply = |(desired, is_new, decision)| self.apply(desired, is_new, decision);
        Ok(decisions.into_iter().map(apply).collect())
    }

    /// Records files before they are written, so that an interrupted sync still recognises them.
    fn record_pending(&mut self, desired: &DesiredSkill, change: &Change<'_>) {
        let pending = change.write.iter();
        let pending = pending.map(|file| (file.path.to_owned(), Digest::of(file.bytes)));
        let writer = self.options.writer;
        let entry = self.record.skills.entry(desired.name.clone()).or_insert_with(|| RecordEntry {
            id: desired.id.clone(),
            digest: desired.version,
            files: BTreeMap::new(),
            pending: BTreeMap::new(),
            writer,
        });
        entry.pending.extend(pending);
        self.is_saved = false;
    }

    fn apply(
        &mut self,
        desired: &DesiredSkill,
        is_new: bool,
        decision: Result<Decision<'_>, BundleError>,
    ) -> Result<SyncOutcome, BundleError> {
        let outcome = match decision? {
            Decision::Skip(kept) => return Ok(SyncOutcome::Skipped(kept)),
            Decision::Unchanged => SyncOutcome::Unchanged,
            Decision::Change(change) => {
                if let Some(root) = self.root.as_ref().filter(|_| !self.options.dry_run) {
                    remove_files(root, &desired.name, &change.remove)?;
                    write_files(root, &desired.name, &change.write)?;
                }
                if is_new { SyncOutcome::Written(change.write.len()) } else { SyncOutcome::Updated }
            }
        };
        self.record_written(desired, &outcome);
        Ok(outcome)
    }

    /// Records the files that are on disk now. Equal files that no sync wrote stay unrecorded.
    fn record_written(&mut self, desired: &DesiredSkill, outcome: &SyncOutcome) {
        let DesiredSkill { name, id, version, .. } = desired;
        let known = self.own_entry(name);
        let is_known = known.is_some_and(|entry| {
            entry.id == *id && entry.digest == *version && entry.pending.is_empty()
        });
        let is_equal = *outcome == SyncOutcome::Unchanged;
        let is_foreign = known.is_none() && is_equal && !self.options.force;
        if self.options.dry_run || is_foreign || (is_known && is_equal) {
            return;
        }
        let files = desired.files().map(|file| (file.path.to_owned(), Digest::of(file.bytes)));
        let (id, digest, files) = (id.clone(), *version, files.collect());
        let writer = self.options.writer;
        let entry = RecordEntry { id, digest, files, pending: BTreeMap::new(), writer };
        self.record.skills.insert(name.clone(), entry);
        self.is_saved = false;
    }

    /// Removes recorded skills that are not among these names, and closes the folder.
    ///
    /// # Errors
    /// When the record cannot be written. Errors of single skills are in the list.
    #[expect(clippy::type_complexity, reason = "a name for it would not say more")]
    pub fn finish(
        mut self,
        names: &HashSet<&str>,
    ) -> Result<Vec<(String, Result<SyncOutcome, BundleError>)>, BundleError> {
        let own = self.record.skills.iter().filter(|(_, entry)| self.is_own(entry));
        let gone = own.map(|(name, _)| name).filter(|name| !names.contains(name.as_str()));
        let gone: Vec<String> = gone.cloned().collect();
        let mut outcomes = Vec::new();
        for name in gone {
            match self.remove(&name) {
                // Removed by hand.
                Ok(SyncOutcome::Unchanged) => {}
                outcome => outcomes.push((name, outcome)),
            }
        }
        self.save()?;
        Ok(outcomes)
    }

    fn remove(&mut self, name: &str) -> Result<SyncOutcome, BundleError> {
        let entry = self.own_entry(name);
        let Some((entry, root)) = entry.zip(self.root.as_ref()) else {
            return Ok(SyncOutcome::Unchanged);
        };
        let outcome = match decide::decide_removed(root, name, entry, self.options.force)? {
            Decision::Skip(kept) => return Ok(SyncOutcome::Skipped(kept)),
            Decision::Unchanged => SyncOutcome::Unchanged,
            Decision::Change(change) => {
                if !self.options.dry_run {
                    remove_files(root, name, &change.remove)?;
                    // Fails if the folder has other files, which stay.
                    let _ = root.remove_folder(name);
                }
                SyncOutcome::Removed
            }
        };
        if !self.options.dry_run {
            self.record.skills.remove(name);
            self.is_saved = false;
        }
        Ok(outcome)
    }

    fn save(&mut self) -> Result<(), BundleError> {
        if let Some(root) = self.root.as_ref().filter(|_| !self.is_saved) {
            self.record.save(root)?;
            self.is_saved = true;
        }
        Ok(())
    }
}

/// Returns whether no file of a skill has been recorded yet.
fn entry_is_new(entry: Option<&RecordEntry>) -> bool {
    entry.is_none_or(|entry| entry.files.is_empty())
}

/// Removes files of a skill, and the folders inside its own that become empty.
fn remove_files(root: &Dir, name: &str, paths: &[String]) -> Result<(), BundleError> {
    if paths.is_empty() {
        return Ok(());
    }
    let home = match root.folder(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        home => home.map_err(|source| unwritable(root, name, source))?,
    };
    paths.iter().try_for_each(|path| remove(&home, path))
}

/// Writes files of a skill. Anything else with the name of its folder, such as a link, is replaced.
fn write_files(root: &Dir, name: &str, files: &[NewFile<'_>]) -> Result<(), BundleError> {
    let home = root.create_folder(name).map_err(|source| unwritable(root, name, source))?;
    for &file in files {
        write(&home, file).map_err(|source| unwritable(&home, file.path, source))?;
    }
    Ok(())
}

fn unwritable(dir: &Dir, path: &str, source: io::Error) -> BundleError {
    BundleError::Unwritable { path: dir.path().join(path), source }
}

/// Locks the folder against other syncs. Without effect on file systems that have no locks.
fn lock(root: &Dir) -> Result<Option<fs::File>, BundleError> {
    let path = || root.path().to_owned();
    let folder =
        root.to_file().map_err(|source| BundleError::Unreadable { path: path(), source })?;
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder)),
        Err(TryLockError::WouldBlock) => Err(BundleError::Busy { path: path() }),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}
