//! `import FILE` and `export --kv`: all there is, as lines of the logical key space.
//!
//! Lines of skills are the registry's, the others are the vault's. Both are opened in the data directory, so no
//! server may run on it. What a line means is known in core, what becomes of it in registry and vault.

mod export;
mod import;
mod lines;
mod report;

use std::sync::Arc;

use skills_registry::Registry;
use skills_vault::Vault;

pub(super) use self::{export::export, import::import};
use crate::{
    Failure, cli::Target, config::Config, connect::DEFAULT_DATA_DIR, people::master_keys,
    serve::open_registry, work::blocking,
};

/// What a data directory holds.
struct House {
    registry: Arc<Registry>,
    vault: Arc<Vault>,
}

async fn open(target: &Target, config: &Config) -> Result<House, Failure> {
    if target.url.is_some() {
        let message = "the key space is that of a data directory, which --url does not name";
        return Err(Failure::new("needs_data_dir", message)
            .hint("run it where the data is, with --data-dir, while no server runs on it"));
    }
    let dir = target.data_dir.clone().unwrap_or_else(|| DEFAULT_DATA_DIR.into());
    let registry = open_registry(&dir, None, config.registry()).await?;
    let master = master_keys()?;
    let vault = blocking(move || Vault::open(&dir, master)).await??;
    Ok(House { registry, vault: Arc::new(vault) })
}
