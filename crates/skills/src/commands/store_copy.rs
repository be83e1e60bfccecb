//! `store copy`: copies a whole store into another one, with all versions, labels and the log.

use std::path::Path;

use serde_json::json;
use skills_core::Code;
use skills_registry::RegistryError;
use skills_store::{
    CopyDestination, CopyProgress, CopyReport, CopySource, SqliteSnapshot, SqliteStore, StoreError,
};
#[cfg(feature = "postgres")]
use skills_store::{PostgresSnapshot, PostgresStore};

use crate::{
    Failure,
    blocking::blocking,
    cli::{StoreCommand, StoreCopyArgs},
    database::Database,
    output,
};

/// Store as the command line names it.
enum StoreName {
    Directory(std::path::PathBuf),
    Database(Database),
}

impl StoreName {
    fn parse(flag: &str, text: &str) -> Result<Self, Failure> {
        if let Some(dir) = text.strip_prefix("sqlite:").filter(|dir| !dir.is_empty()) {
            return Ok(Self::Directory(Path::new(dir).to_owned()));
        }
        text.parse().map(Self::Database).map_err(|reason: String| {
            Failure::new(Code::BadArgument, format!("{flag}: {reason}"))
                .hint("name a store as sqlite:DIR or postgres://user@host/database")
        })
    }

    fn open_source(&self) -> Result<Box<dyn CopySource>, StoreError> {
        match self {
            Self::Directory(dir) => Ok(Box::new(SqliteSnapshot::open(dir)?)),
            #[cfg(feature = "postgres")]
            Self::Database(database) => Ok(Box::new(PostgresSnapshot::open(database.url())?)),
            #[cfg(not(feature = "postgres"))]
            Self::Database(_) => Err(StoreError::NoHistory("built without PostgreSQL")),
        }
    }

    fn open_destination(&self) -> Result<Box<dyn CopyDestination>, StoreError> {
        match self {
            Self::Directory(dir) => Ok(Box::new(SqliteStore::open(dir)?)),
            #[cfg(feature = "postgres")]
            Self::Database(database) => Ok(Box::new(PostgresStore::open(database.url())?)),
            #[cfg(not(feature = "postgres"))]
            Self::Database(_) => Err(StoreError::NoHistory("built without PostgreSQL")),
        }
    }
}

pub(super) async fn run(command: StoreCommand) -> Result<(), Failure> {
    let StoreCommand::Copy(StoreCopyArgs { from, to, format }) = command;
    let (from, to) = (StoreName::parse("--from", &from)?, StoreName::parse("--to", &to)?);
    let is_json = format.json;
    let copy = move || {
        let source = from.open_source()?;
        let destination = to.open_destination()?;
        source.copy_to(&*destination, &mut |CopyProgress { table, rows }| {
            if !is_json {
                output::notice("copied", &format!("{rows} rows of {table}"));
            }
        })
    };
    let copied = blocking(copy).await?;
    let CopyReport { rows, blobs, bytes, revision } = copied.map_err(RegistryError::from)?;
    if is_json {
        let report = json!({ "rows": rows, "blobs": blobs, "bytes": bytes, "revision": revision });
        return Ok(output::json(&report)?);
    }
    let size = output::size(bytes);
    Ok(output::line(&format!(
        "copied {rows} rows up to revision {revision}; {blobs} bodies ({size}) have their digests"
    ))?)
}
