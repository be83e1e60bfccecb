//! Copies of whole registries, store and vault, between data directories, databases and archives.
//!
//! - [`RegistryLocation`]: data directory or database, as a source and as a destination
//! - `directory`: a directory that is filled beside its place and moved there
//! - `archive`: backups
//!
//! Every copy is a snapshot, in which each part is of one moment, and every destination is either complete or unchanged.

pub(crate) mod archive;
mod directory;

use std::path::PathBuf;

#[cfg(feature = "postgres")]
use skills_store::PostgresStore;
use skills_store::transfer::TABLES as STORE_TABLES;
use skills_transfer::{CopyReport, OnProgress, TableSink, TableSource, TransferError, copy_tables};
use skills_vault::transfer::TABLES as VAULT_TABLES;
#[cfg(feature = "postgres")]
use {
    skills_transfer::postgres::{
        Lease, SchemaState, begin_snapshot, read_rows, source_pool, target_pool,
    },
    skills_transfer::{Part, Table, Visit},
    skills_vault::Vault,
};

use crate::database::Database;

/// Data directory or database.
#[derive(Debug, Clone)]
pub(crate) enum RegistryLocation {
    Directory(PathBuf),
    Database(Box<Database>),
}

impl RegistryLocation {
    /// Opens a snapshot. Servers may write to the registry meanwhile.
    pub(crate) fn open_source(&self) -> Result<Box<dyn TableSource>, TransferError> {
        match self {
            Self::Directory(dir) => Ok(Box::new(directory::DirectorySource::open(dir)?)),
            #[cfg(feature = "postgres")]
            Self::Database(database) => Ok(Box::new(DatabaseSource::open(database)?)),
            #[cfg(not(feature = "postgres"))]
            Self::Database(database) => database.never(),
        }
    }

    /// Checks that there is nothing that a copy could overwrite. The copy checks it again.
    pub(crate) fn require_empty(&self) -> Result<(), TransferError> {
        match self {
            Self::Directory(dir) => directory::require_empty(dir),
            Self::Database(_) => Ok(()),
        }
    }

    /// Copies everything from a source to this empty location.
    pub(crate) fn receive(
        &self,
        source: &mut dyn TableSource,
        progress: OnProgress<'_>,
    ) -> Result<CopyReport, TransferError> {
        match self {
            Self::Directory(dir) => directory::receive(dir, source, progress),
            #[cfg(feature = "postgres")]
            Self::Database(database) => receive_database(database, source, progress),
            #[cfg(not(feature = "postgres"))]
            Self::Database(database) => database.never(),
        }
    }
}

/// Copies all tables to one sink.
fn copy_all(
    source: &mut dyn TableSource,
    sink: &mut dyn TableSink,
    progress: OnProgress<'_>,
) -> Result<CopyReport, TransferError> {
    let mut report = CopyReport::default();
    copy_tables(STORE_TABLES, source, sink, &mut report, progress)?;
    copy_tables(VAULT_TABLES, source, sink, &mut report, progress)?;
    source.finish()?;
    Ok(report)
}

/// Read transaction on a database.
#[cfg(feature = "postgres")]
struct DatabaseSource {
    session: Lease,
    has_vault: bool,
}

#[cfg(feature = "postgres")]
impl DatabaseSource {
    /// Opens a snapshot of tables of this version. The database stays as it is.
    fn open(database: &Database) -> Result<Self, TransferError> {
        let url = database.url();
        let session = begin_snapshot(&source_pool(url)?)?;
        let name = || format!("the schema {} of {url}", url.schema());
        let store = PostgresStore::schema_state(&session)?;
        let vault = Vault::postgres_schema_state(&session)?;
        match (store, vault) {
            (SchemaState::Missing, _) => Err(TransferError::NoRegistry(name())),
            (SchemaState::Older, _) | (_, SchemaState::Older) => {
                Err(TransferError::OlderSchema(name()))
            }
            (SchemaState::Current, SchemaState::Missing | SchemaState::Current) => {
                Ok(Self { session, has_vault: vault == SchemaState::Current })
            }
        }
    }
}

#[cfg(feature = "postgres")]
impl TableSource for DatabaseSource {
    fn for_each(&mut self, table: &Table, visit: Visit<'_>) -> Result<(), TransferError> {
        match table.part {
            Part::Store => PostgresStore::read_table(&self.session, table, visit),
            Part::Vault if self.has_vault => read_rows(&self.session, table, visit),
            Part::Vault => Ok(()),
        }
    }

    fn has_vault(&self) -> bool {
        self.has_vault
    }
}

/// Copies into the tables of a database, in one transaction.
#[cfg(feature = "postgres")]
fn receive_database(
    database: &Database,
    source: &mut dyn TableSource,
    progress: OnProgress<'_>,
) -> Result<CopyReport, TransferError> {
    let pool = target_pool(database.url())?;
    PostgresStore::prepare(&pool)?;
    Vault::prepare_postgres(&pool)?;
    let mut report = CopyReport::default();
    pool.transaction(|session| {
        PostgresStore::receive(session, &mut |sink| {
            copy_tables(STORE_TABLES, source, sink, &mut report, progress)
        })?;
        Vault::receive_postgres(session, &mut |sink| {
            copy_tables(VAULT_TABLES, source, sink, &mut report, progress)
        })?;
        source.finish()?;
        Ok::<_, TransferError>(())
    })?;
    Ok(report)
}
