//! `import FILE` and `export --kv`: a whole data directory as lines of the logical key space.
//!
//! Lines of skills belong to the registry, the others to the vault. `skills_core::keyspace` parses the lines. If a process
//! has the store open, that process imports them (`remote`); an export needs the store for itself.

mod export;
mod import;
mod lines;
mod remote;
mod report;

use std::sync::Arc;

use skills_core::Code;
use skills_registry::Registry;
use skills_vault::Vault;

pub(crate) use self::remote::serve_import;
pub(super) use self::{export::export, import::import};
use crate::{
    Failure,
    accounts::master_keys,
    blocking::blocking,
    cli::Target,
    composition::{open_registry, open_store},
    config::Config,
    data_dir,
    vault_location::VaultLocation,
};

/// Registry and vault of a data directory.
struct DataDir {
    registry: Arc<Registry>,
    vault: Arc<Vault>,
}

async fn open(target: &Target, config: &Config) -> Result<DataDir, Failure> {
    if target.url.is_some() {
        let message = "this command works on a data directory, not on --url";
        return Err(Failure::new(Code::NeedsDataDir, message)
            .hint("stop the server and give its data directory with --data-dir"));
    }
    let dir = data_dir::locate(target)?;
    let registry = open_registry(open_store(&dir, config).await?, None, config.registry()).await?;
    let master = master_keys()?;
    let location = VaultLocation::new(&dir, config);
    let vault = blocking(move || location.open(master)).await??;
    Ok(DataDir { registry, vault: Arc::new(vault) })
}
