//! State of a source: a file in the data directory, which a server and commands share.

use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use skills_core::{Code, Digest, Timestamp};

use crate::Failure;

/// Folder of the data directory.
const FOLDER: &str = "sources";
/// Longest file that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// State of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceState {
    pub(crate) name: String,
    /// Location without credentials.
    pub(crate) from: String,
    pub(crate) tier: String,
    /// Time of the last import in RFC 3339, whether it succeeded or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_attempt: Option<String>,
    /// Time of the last import that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_success: Option<String>,
    /// Commit of the last import that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) commit: Option<String>,
    /// Error of the last import.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Skills that were not imported, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) skipped: BTreeMap<String, String>,
    /// Imported skills, with the digest of the version.
    #[serde(default)]
    pub(crate) skills: BTreeMap<String, Digest>,
    /// Skills that came from elsewhere and had the content of the source, with its digest. They are never removed, and
    /// are not imported again after they were removed here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) equal: BTreeMap<String, Digest>,
}

impl SourceState {
    /// Returns the word for the state: `ok`, `failed`, or `new` before the first import.
    pub(crate) const fn status(&self) -> &'static str {
        match (&self.error, &self.last_attempt) {
            (Some(_), _) => "failed",
            (None, None) => "new",
            (None, Some(_)) => "ok",
        }
    }
}

/// State file of a source, locked against other imports of it.
pub(crate) struct StateFile {
    path: PathBuf,
    pub(crate) state: SourceState,
    _lock: File,
}

impl StateFile {
    /// Opens the state of a source.
    ///
    /// # Errors
    /// When another process imports it, or the folder cannot be written.
    pub(crate) fn open(data_dir: &Path, name: &str) -> Result<Self, Failure> {
        let folder = data_dir.join(FOLDER);
        let unwritable = |error: io::Error| {
            Failure::new(Code::Unwritable, format!("cannot write {}: {error}", folder.display()))
        };
        fs::create_dir_all(&folder).map_err(unwritable)?;
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(folder.join(format!("{name}.lock")))
            .map_err(unwritable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = format!("another process imports the source {name}");
                return Err(Failure::new(Code::Busy, message).hint("wait until it has finished"));
            }
            Err(TryLockError::Error(error)) => return Err(unwritable(error)),
        }
        let path = folder.join(format!("{name}.json"));
        let state = read(&path).unwrap_or_default();
        Ok(Self { path, state, _lock: lock })
    }

    /// Replaces the file atomically.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn save(&self) -> Result<(), Failure> {
        let save = || {
            let folder = self.path.parent().unwrap_or(Path::new("."));
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec_pretty(&self.state)?)?;
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
pub(crate) fn load_all(data_dir: &Path) -> Vec<SourceState> {
    let Ok(entries) = fs::read_dir(data_dir.join(FOLDER)) else { return vec![] };
    let paths = entries.flatten().map(|entry| entry.path());
    let paths = paths.filter(|path| path.extension().is_some_and(|it| it == "json"));
    let mut states: Vec<SourceState> = paths.filter_map(|path| read(&path)).collect();
    states.sort_by(|one, other| one.name.cmp(&other.name));
    states
}

fn read(path: &Path) -> Option<SourceState> {
    let is_small = fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= MAX_BYTES);
    is_small.then(|| fs::read(path).ok()).flatten().and_then(|it| serde_json::from_slice(&it).ok())
}

/// Returns the time of now in RFC 3339.
pub(crate) fn now() -> String {
    Timestamp::now().to_string()
}
