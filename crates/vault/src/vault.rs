//! The vault handle. Its methods are in the modules beside this one.

use std::path::Path;

use parking_lot::Mutex;

use crate::{
    MasterKeys, VaultError,
    file::VaultFile,
    keys::{KeyCache, LastUses, PendingRevocations},
};

/// Keys, profiles, secrets and their audit log.
#[derive(Debug)]
pub struct Vault {
    pub(crate) key_cache: Mutex<KeyCache>,
    pub(crate) pending_revocations: Mutex<PendingRevocations>,
    pub(crate) last_uses: LastUses,
    pub(crate) file: VaultFile,
    pub(crate) master: Option<MasterKeys>,
}

impl Vault {
    /// Opens the vault in a data directory and creates both if they are missing. Without a master key secrets can be
    /// listed, removed and granted, but neither set nor read.
    ///
    /// # Errors
    /// When the directory cannot be used, or the file is damaged or was written by a newer version.
    pub fn open(dir: &Path, master: Option<MasterKeys>) -> Result<Self, VaultError> {
        let file = VaultFile::open(dir)?;
        let key_cache = Mutex::new(KeyCache::new(file.connect_reader()?));
        let (pending_revocations, last_uses) = Default::default();
        Ok(Self { key_cache, pending_revocations, last_uses, file, master })
    }

    /// Returns whether a data directory has a vault.
    #[must_use]
    pub fn exists_in(dir: &Path) -> bool {
        VaultFile::exists_in(dir)
    }

    pub(crate) fn master(&self) -> Result<&MasterKeys, VaultError> {
        self.master.as_ref().ok_or(VaultError::NoMasterKey)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Fixtures of this crate's tests.

    use skills_core::{Owner, Timestamp};
    use tempfile::TempDir;

    use super::*;
    use crate::Actor;

    /// Master key of the test vectors.
    pub(crate) const MASTER: &str =
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    /// Time of every change in the tests.
    pub(crate) const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    pub(crate) fn actor() -> Actor<'static> {
        Actor { name: "tester", at: NOW }
    }

    pub(crate) fn later(seconds: i64) -> Timestamp {
        Timestamp::from_micros(NOW.as_micros() + seconds * 1_000_000)
    }

    pub(crate) fn owner(uid: &str) -> Owner {
        skills_core::keyspace::parse_owner(uid).unwrap()
    }

    pub(crate) fn master(current: &str, previous: Option<&str>) -> MasterKeys {
        MasterKeys::from_env(Some(current), previous).unwrap().unwrap()
    }

    pub(crate) fn vault() -> (Vault, TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (Vault::open(dir.path(), Some(master(MASTER, None))).unwrap(), dir)
    }
}
