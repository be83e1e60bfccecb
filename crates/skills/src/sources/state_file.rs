//! State of a source in a file of the data directory, which a server and commands share.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use skills_core::Code;

use super::state::{SourceState, busy};
use crate::{Failure, private_file::options};

/// Folder of the data directory.
const FOLDER: &str = "sources";
/// Longest file that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// State file of a source, locked against other imports of it.
pub(super) struct StateFile {
    path: PathBuf,
    _lock: File,
}

impl StateFile {
    /// Locks and reads the state of a source.
    ///
    /// # Errors
    /// When another process imports it, or the folder cannot be written.
    pub(super) fn open(data_dir: &Path, name: &str) -> Result<(Self, SourceState), Failure> {
        let folder = data_dir.join(FOLDER);
        let lock = folder.join(format!("{name}.lock"));
        let unwritable = |error: io::Error| {
            Failure::new(Code::Unwritable, format!("cannot write {}: {error}", lock.display()))
        };
        fs::create_dir_all(&folder).map_err(unwritable)?;
        if fs::symlink_metadata(&folder).map_err(unwritable)?.is_symlink() {
            return Err(unwritable(io::Error::other("its folder is a link")));
        }
        let opened = options().write(true).create(true).truncate(false).open(&lock);
        let opened = opened.map_err(unwritable)?;
        match opened.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(busy("process", name)),
            Err(TryLockError::Error(error)) => return Err(unwritable(error)),
        }
        let state = read(data_dir, name).unwrap_or_default();
        Ok((Self { path: path(data_dir, name), _lock: opened }, state))
    }

    /// Replaces the file atomically.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn save(&self, state: &SourceState) -> Result<(), Failure> {
        let save = || {
            let folder = self.path.parent().unwrap_or(Path::new("."));
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec_pretty(state)?)?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| error.error)?;
            Ok::<_, io::Error>(())
        };
        save().map_err(|error| {
            let message = format!("cannot write {}: {error}", self.path.display());
            Failure::new(Code::Unwritable, message)
        })
    }
}

/// Reads the states of all sources that were ever imported, sorted by name.
pub(super) fn load_all(data_dir: &Path) -> Vec<SourceState> {
    let Ok(entries) = fs::read_dir(data_dir.join(FOLDER)) else { return vec![] };
    let paths = entries.flatten().map(|entry| entry.path());
    let paths = paths.filter(|path| path.extension().is_some_and(|it| it == "json"));
    let mut states: Vec<SourceState> = paths.filter_map(|path| parse(&path)).collect();
    states.sort_by(|one, other| one.name.cmp(&other.name));
    states
}

/// Reads the state of a source, if it was imported before.
pub(super) fn read(data_dir: &Path, name: &str) -> Option<SourceState> {
    parse(&path(data_dir, name))
}

fn path(data_dir: &Path, name: &str) -> PathBuf {
    data_dir.join(FOLDER).join(format!("{name}.json"))
}

fn parse(path: &Path) -> Option<SourceState> {
    let is_small = fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= MAX_BYTES);
    is_small.then(|| fs::read(path).ok()).flatten().and_then(|it| serde_json::from_slice(&it).ok())
}
