//! What belongs to people, opened for a server: the vault, and how often keys were used.

use std::{path::Path, sync::Arc};

use skills_gateway::{Gateway, Parts};
use skills_http::Access;
use skills_registry::Registry;
use skills_vault::{MasterKeys, RateLimits, TierLimits, Vault, now};
use tokio::sync::watch;

use crate::{
    Failure,
    cli::environment,
    keys::{Either, VaultKeys},
};

/// What seals and opens secrets, where the environment has it.
pub(crate) fn master_keys() -> Result<Option<MasterKeys>, Failure> {
    let current = environment("MASTER_ENCRYPTION_KEY");
    let previous = environment("MASTER_ENCRYPTION_KEY_PREVIOUS");
    Ok(MasterKeys::from_env(current.as_deref(), previous.as_deref())?)
}

/// What a server knows of people.
#[derive(Debug, Clone)]
pub(crate) struct People {
    vault: Arc<Vault>,
    limits: Arc<RateLimits>,
}

impl People {
    /// Opens the vault in a data directory, away from the async threads.
    pub(crate) async fn open(data_dir: &Path) -> Result<Self, Failure> {
        let master = master_keys()?;
        let data_dir = data_dir.to_owned();
        let open = move || -> Result<Self, Failure> {
            let vault = Vault::open(&data_dir, master)?;
            let limits = RateLimits::new(TierLimits::default());
            limits.resume(&vault.windows(now())?, now());
            Ok(Self { vault: Arc::new(vault), limits: Arc::new(limits) })
        };
        let opened = tokio::task::spawn_blocking(open).await;
        opened.map_err(|error| Failure::new("internal", error.to_string()))?
    }

    /// The same access, with whom the keys of the vault stand for.
    pub(crate) fn known(&self, access: Access) -> Access {
        let ours = Arc::new(VaultKeys::new(Arc::clone(&self.vault)));
        Access { keys: Arc::new(Either(access.keys, ours)), ..access }
    }

    /// The gateway, for a registry that may still have to be opened.
    pub(crate) fn gateway(&self, registry: watch::Receiver<Option<Arc<Registry>>>) -> Gateway {
        let Self { vault, limits } = self.clone();
        Gateway::new(Parts { registry, vault, limits })
    }
}
