//! The vault handle. Its methods are in the modules beside this one.

use std::path::Path;

use parking_lot::Mutex;

#[cfg(test)]
use crate::memory::MemoryBackend;
use crate::{
    MasterKeys, VaultError,
    backend::VaultBackend,
    keys::{KeyCache, LastUses, PendingRevocations},
    secrets::SecretCopies,
    sqlite::SqliteBackend,
};

/// Keys, profiles, secrets and their audit log.
#[derive(Debug)]
pub struct Vault {
    pub(crate) key_cache: Mutex<KeyCache>,
    pub(crate) pending_revocations: Mutex<PendingRevocations>,
    pub(crate) last_uses: LastUses,
    pub(crate) secret_copies: Mutex<SecretCopies>,
    pub(crate) backend: Box<dyn VaultBackend>,
    pub(crate) master: Option<MasterKeys>,
}

impl Vault {
    /// Opens the vault in a data directory and creates both if they are missing. Without a master key secrets can be
    /// listed, removed and granted, but neither set nor read.
    ///
    /// # Errors
    /// When the directory cannot be used, or the file is damaged or was written by a newer version.
    pub fn open(dir: &Path, master: Option<MasterKeys>) -> Result<Self, VaultError> {
        Ok(Self::on(Box::new(SqliteBackend::open(dir)?), master))
    }

    /// Opens the vault of a PostgreSQL database and creates its tables if they are missing. While the database is away,
    /// keys that were used before are accepted from memory for `max_stale`, or without one for as long as it takes.
    ///
    /// # Errors
    /// When the database cannot be reached or refuses, or its tables were written by a newer version.
    #[cfg(feature = "postgres")]
    pub fn open_postgres(
        url: &skills_postgres::DatabaseUrl,
        max_stale: Option<std::time::Duration>,
        master: Option<MasterKeys>,
    ) -> Result<Self, VaultError> {
        let backend = crate::postgres::PostgresBackend::open(url, max_stale)?;
        Ok(Self::on(Box::new(backend), master))
    }

    pub(crate) fn on(backend: Box<dyn VaultBackend>, master: Option<MasterKeys>) -> Self {
        let (key_cache, pending_revocations, last_uses, secret_copies) = Default::default();
        Self { key_cache, pending_revocations, last_uses, secret_copies, backend, master }
    }

    /// Returns whether a data directory has a vault.
    #[must_use]
    pub fn exists_in(dir: &Path) -> bool {
        SqliteBackend::exists_in(dir)
    }

    pub(crate) fn master(&self) -> Result<&MasterKeys, VaultError> {
        self.master.as_ref().ok_or(VaultError::NoMasterKey)
    }
}

#[cfg(test)]
pub(crate) mod testing;
