//! Place of the vault: a data directory, or the database that several servers share.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use skills_vault::{MasterKeys, Vault, VaultError};

use crate::{config::Config, data_dir, database::Database};

/// Place of the vault.
#[derive(Debug, Clone)]
pub(crate) struct VaultLocation {
    dir: PathBuf,
    database: Option<Database>,
    max_stale: Option<Duration>,
}

impl VaultLocation {
    /// Returns the configured database, or else a data directory.
    pub(crate) fn new(dir: &Path, config: &Config) -> Self {
        let (database, max_stale) = (config.database.clone(), config.max_stale);
        Self { dir: dir.to_owned(), database, max_stale }
    }

    /// Returns whether there is a vault. A database always has one.
    pub(crate) fn exists(&self) -> bool {
        self.database.is_some() || data_dir::has_vault(&self.dir)
    }

    /// Opens or creates the vault. Blocks.
    pub(crate) fn open(&self, master: Option<MasterKeys>) -> Result<Vault, VaultError> {
        #[cfg(feature = "postgres")]
        if let Some(database) = &self.database {
            return Vault::open_postgres(database.url(), self.max_stale, master);
        }
        // Without PostgreSQL no URL of a database can be parsed.
        let _ = self.max_stale;
        Vault::open(&self.dir, master)
    }
}
