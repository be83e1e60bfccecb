//! A folder of skills that is kept in step with what is wanted there, and from which only that is taken back which
//! was put there.
//!
//! - `record`: what was written, beside the skills
//! - `decide`: what is to be done about one skill
//!
//! Where the skills come from, and what they are called, is for others. What was edited, and what somebody else put
//! there, is left alone. A file is complete or not there, no link below the folder is followed, and whenever this ends
//! half way, the record knows what may have been written until then.

mod decide;
mod record;

use std::{
    collections::{BTreeMap, HashSet},
    fmt, fs,
    fs::TryLockError,
    io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use skills_core::{BundlePath, Digest, skill::ROOT_PATH};

use self::{
    decide::{Change, Decision},
    record::{Entry, Record},
};
use crate::{
    BundleError,
    place::{folders_of, write},
};

/// A skill as it is to stand in a folder.
#[derive(Debug)]
pub struct Wanted {
    /// The name of its own folder: that of an Agent Skill.
    pub name: String,
    /// What it is registered as.
    pub id: String,
    /// Which version this is.
    pub version: Digest,
    /// The root document.
    pub root: Bytes,
    /// The other files.
    pub others: Vec<(BundlePath, Bytes)>,
}

impl Wanted {
    /// The root document comes last: an agent that finds it finds all that it leads to.
    fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let others = self.others.iter().map(|(path, bytes)| (path.as_str(), bytes.as_ref()));
        others.chain([(ROOT_PATH, self.root.as_ref())])
    }
}

/// How a folder is kept.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Also what was edited, or made by somebody else, is overwritten and taken back.
    pub force: bool,
    /// Nothing is written.
    pub dry_run: bool,
}

/// What became of a skill in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was not there, and is now, with so many files.
    Written(usize),
    /// It was there in another version, or not all of it.
    Updated,
    /// It was there already.
    Unchanged,
    /// It was not wanted any more.
    Removed,
    /// Somebody's work is in the way.
    Kept(Kept),
}

/// Why something was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// Somebody else made it.
    Foreign {
        /// What.
        path: PathBuf,
    },
    /// It was written by a sync, and edited since.
    Edited {
        /// The first file of it that was.
        path: PathBuf,
    },
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { path } => write!(f, "{} was not written by a sync", path.display()),
            Self::Edited { path } => {
                write!(f, "{} was edited since it was written", path.display())
            }
        }
    }
}

/// A folder of skills. Nobody else keeps it in step as long as this is there.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    options: Options,
    record: Record,
    is_saved: bool,
    _lock: Option<fs::File>,
}

impl Folder {
    /// Opens a folder, and makes it unless nothing is to be written.
    ///
    /// # Errors
    /// When it cannot be made or read, its record is damaged, or another sync is at work in it.
    pub fn open(path: &Path, options: Options) -> Result<Self, BundleError> {
        let lock = match options.dry_run {
            true => None,
            false => {
                let made = fs::create_dir_all(path);
                made.map_err(|source| BundleError::Unwritable { path: path.to_owned(), source })?;
                lock(path)?
            }
        };
        let record = Record::load(path)?;
        Ok(Self { path: path.to_owned(), options, record, is_saved: true, _lock: lock })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was written: the id of each skill, its version, and the name it was written under.
    pub fn known(&self) -> impl Iterator<Item = (&str, Digest, &str)> {
        let known = self.record.skills.iter();
        known.map(|(name, entry)| (entry.id.as_str(), entry.digest, name.as_str()))
    }

    /// Whether a version of a skill is there just as it was written.
    #[must_use]
    pub fn is_in_step(&self, name: &str, version: Digest) -> bool {
        let entry = self.record.skills.get(name).filter(|entry| entry.digest == version);
        entry.is_some_and(|entry| decide::is_untouched(&self.path.join(name), entry))
    }

    /// Puts some skills there. The record is written once for all of them, before anything else is.
    ///
    /// # Errors
    /// When the record cannot be written. What is wrong with one skill is in its place.
    pub fn put(
        &mut self,
        skills: &[&Wanted],
    ) -> Result<Vec<Result<Outcome, BundleError>>, BundleError> {
        let mut decisions = Vec::with_capacity(skills.len());
        for &wanted in skills {
            let home = self.path.join(&wanted.name);
            let entry = self.record.skills.get(&wanted.name);
            let decision = decide::wanted(&home, wanted, entry, self.options.force);
            if let Ok(Decision::Change(change)) = &decision
                && !self.options.dry_run
            {
                self.announce(wanted, change);
            }
            decisions.push((wanted, entry_is_new(self.record.skills.get(&wanted.name)), decision));
        }
        self.save()?;
        let carry_out = |(wanted, is_new, decision)| self.carry_out(wanted, is_new, decision);
        Ok(decisions.into_iter().map(carry_out).collect())
    }

    /// Remembers what is about to be written, so that it is known as ours whatever happens meanwhile.
    fn announce(&mut self, wanted: &Wanted, change: &Change<'_>) {
        let pending = change.write.iter();
        let pending = pending.map(|(path, bytes)| ((*path).to_owned(), Digest::of(bytes)));
        let entry = self.record.skills.entry(wanted.name.clone()).or_insert_with(|| Entry {
            id: wanted.id.clone(),
            digest: wanted.version,
            files: BTreeMap::new(),
            pending: BTreeMap::new(),
        });
        entry.pending.extend(pending);
        self.is_saved = false;
    }

    fn carry_out(
        &mut self,
        wanted: &Wanted,
        is_new: bool,
        decision: Result<Decision<'_>, BundleError>,
    ) -> Result<Outcome, BundleError> {
        let outcome = match decision? {
            Decision::Kept(kept) => return Ok(Outcome::Kept(kept)),
            Decision::Unchanged => Outcome::Unchanged,
            Decision::Change(change) => {
                if !self.options.dry_run {
                    let home = self.path.join(&wanted.name);
                    take_back(&home, &change.remove)?;
                    put_in_place(&home, &change.write)?;
                }
                match is_new {
                    true => Outcome::Written(change.write.len()),
                    false => Outcome::Updated,
                }
            }
        };
        self.note(wanted, &outcome);
        Ok(outcome)
    }

    /// Remembers what is there now. What somebody else put there is not ours for being equal.
    fn note(&mut self, wanted: &Wanted, outcome: &Outcome) {
        let Wanted { name, id, version, .. } = wanted;
        let known = self.record.skills.get(name);
        let is_known = known.is_some_and(|entry| {
            entry.id == *id && entry.digest == *version && entry.pending.is_empty()
        });
        let is_equal = *outcome == Outcome::Unchanged;
        let is_foreign = known.is_none() && is_equal && !self.options.force;
        if self.options.dry_run || is_foreign || (is_known && is_equal) {
            return;
        }
        let files = wanted.files().map(|(path, bytes)| (path.to_owned(), Digest::of(bytes)));
        let (id, digest, files) = (id.clone(), *version, files.collect());
        let entry = Entry { id, digest, files, pending: BTreeMap::new() };
        self.record.skills.insert(name.clone(), entry);
        self.is_saved = false;
    }

    /// Takes back what was written and is not among these names, and closes the folder.
    ///
    /// # Errors
    /// When the record cannot be written. What is wrong with one skill is in its place.
    #[expect(clippy::type_complexity, reason = "a name for it would not say more")]
    pub fn finish(
        mut self,
        names: &HashSet<&str>,
    ) -> Result<Vec<(String, Result<Outcome, BundleError>)>, BundleError> {
        let is_gone = |name: &&String| !names.contains(name.as_str());
        let gone: Vec<String> = self.record.skills.keys().filter(is_gone).cloned().collect();
        let mut outcomes = Vec::new();
        for name in gone {
            match self.remove(&name) {
                // It is gone already.
                Ok(Outcome::Unchanged) => {}
                outcome => outcomes.push((name, outcome)),
            }
        }
        self.save()?;
        Ok(outcomes)
    }

    fn remove(&mut self, name: &str) -> Result<Outcome, BundleError> {
        let home = self.path.join(name);
        let Some(entry) = self.record.skills.get(name) else { return Ok(Outcome::Unchanged) };
        let outcome = match decide::unwanted(&home, entry, self.options.force)? {
            Decision::Kept(kept) => return Ok(Outcome::Kept(kept)),
            Decision::Unchanged => Outcome::Unchanged,
            Decision::Change(change) => {
                if !self.options.dry_run {
                    take_back(&home, &change.remove)?;
                    // What else is in it stays where it is.
                    let _ = fs::remove_dir(&home);
                }
                Outcome::Removed
            }
        };
        if !self.options.dry_run {
            self.record.skills.remove(name);
            self.is_saved = false;
        }
        Ok(outcome)
    }

    fn save(&mut self) -> Result<(), BundleError> {
        if !self.is_saved {
            self.record.save(&self.path)?;
            self.is_saved = true;
        }
        Ok(())
    }
}

/// Whether nothing of a skill has been written yet, as far as is known.
fn entry_is_new(entry: Option<&Entry>) -> bool {
    entry.is_none_or(|entry| entry.files.is_empty())
}

/// Removes files, and the folders that are empty then.
fn take_back(home: &Path, paths: &[String]) -> Result<(), BundleError> {
    for path in paths {
        let full = home.join(path);
        match fs::remove_file(&full) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(BundleError::Unwritable { path: full, source });
            }
            _ => {}
        }
        for above in folders_of(path).rev() {
            // It is in use.
            if fs::remove_dir(home.join(above)).is_err() {
                break;
            }
        }
    }
    Ok(())
}

fn put_in_place(home: &Path, files: &[(&str, &[u8])]) -> Result<(), BundleError> {
    let unwritable =
        |path: &Path, source| BundleError::Unwritable { path: path.to_owned(), source };
    if fs::symlink_metadata(home).is_ok_and(|metadata| !metadata.is_dir()) {
        fs::remove_file(home).map_err(|source| unwritable(home, source))?;
    }
    for (path, bytes) in files {
        write(home, path, bytes).map_err(|source| unwritable(&home.join(path), source))?;
    }
    Ok(())
}

/// Keeps others out. Where the file system has no locks, nothing does.
fn lock(path: &Path) -> Result<Option<fs::File>, BundleError> {
    let unreadable = |source| BundleError::Unreadable { path: path.to_owned(), source };
    let folder = fs::File::open(path).map_err(unreadable)?;
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder)),
        Err(TryLockError::WouldBlock) => Err(BundleError::Busy { path: path.to_owned() }),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}
