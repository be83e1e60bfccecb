//! The vault as one object; what it can do is in the modules beside this one.

use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{MasterKeys, VaultError, file::VaultFile, keys::KnownKeys};

/// What belongs to people: keys, profiles, secrets, and the log of changes to them.
#[derive(Debug)]
pub struct Vault {
    known: Mutex<KnownKeys>,
    pub(crate) file: VaultFile,
    pub(crate) master: Option<MasterKeys>,
}

impl Vault {
    /// Opens the vault in a data directory, creating both when they are not there. Without a master key
    /// secrets can be listed, removed and granted, but neither set nor read.
    ///
    /// # Errors
    /// When the directory cannot be used, or the file is damaged or newer than this program.
    pub fn open(dir: &Path, master: Option<MasterKeys>) -> Result<Self, VaultError> {
        let file = VaultFile::open(dir)?;
        let known = Mutex::new(KnownKeys::new(file.connect_reader()?));
        Ok(Self { known, file, master })
    }

    /// Whether a data directory has one.
    #[must_use]
    pub fn is_in(dir: &Path) -> bool {
        VaultFile::is_in(dir)
    }

    pub(crate) fn master(&self) -> Result<&MasterKeys, VaultError> {
        self.master.as_ref().ok_or(VaultError::NoMasterKey)
    }

    pub(crate) fn known_keys(&self) -> MutexGuard<'_, KnownKeys> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! What the tests of this crate begin with.

    use skills_core::{Owner, Timestamp};
    use tempfile::TempDir;

    use super::*;
    use crate::Act;

    /// The key of the vectors.
    pub(crate) const MASTER: &str =
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    /// The moment at which everything happens.
    pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    pub(crate) fn act() -> Act<'static> {
        Act { by: "tester", at: NOW }
    }

    pub(crate) fn later(seconds: i64) -> Timestamp {
        Timestamp::from_micros(NOW.as_micros() + seconds * 1_000_000)
    }

    pub(crate) fn owner(uid: &str) -> Owner {
        skills_core::keyspace::owner(uid).unwrap()
    }

    pub(crate) fn master(current: &str, previous: Option<&str>) -> MasterKeys {
        MasterKeys::from_env(Some(current), previous).unwrap().unwrap()
    }

    pub(crate) fn vault() -> (Vault, TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (Vault::open(dir.path(), Some(master(MASTER, None))).unwrap(), dir)
    }
}
