//! What belongs to people, opened for a server: the vault, how often keys were used, and what calls tools for them.

use std::{path::Path, sync::Arc};

use skills_gateway::{Executor, Gateway, Parts};
use skills_http::Access;
use skills_registry::Registry;
use skills_upstream::Upstream;
use skills_vault::{MasterKeys, RateLimits, Vault, now};
use tokio::sync::watch;

use crate::{
    Failure,
    cli::environment,
    config::Config,
    keys::{self, Either},
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
    executor: Arc<Executor>,
}

impl People {
    /// Opens the vault in a data directory, away from the async threads.
    pub(crate) async fn open(data_dir: &Path, config: &Config) -> Result<Self, Failure> {
        let master = master_keys()?;
        let (data_dir, limits) = (data_dir.to_owned(), config.limits);
        let upstream = Upstream::new(config.execution.settings());
        let exempt = config.execution.allow_upstream.clone();
        let open = move || -> Result<Self, Failure> {
            let vault = Arc::new(Vault::open(&data_dir, master)?);
            let limits = Arc::new(RateLimits::new(limits));
            limits.resume(&vault.windows(now())?, now());
            let executor = Executor::new(Arc::clone(&vault), Arc::clone(&limits), upstream);
            let of_tier = exempt.into_iter().filter_map(|it| Some((it.tier?, it.origin)));
            let executor =
                of_tier.fold(executor, |executor, (tier, origin)| executor.exempting(tier, origin));
            Ok(Self { vault, limits, executor: Arc::new(executor) })
        };
        let opened = tokio::task::spawn_blocking(open).await;
        opened.map_err(|error| Failure::new("internal", error.to_string()))?
    }

    /// The same access, with whom the keys of the vault stand for.
    pub(crate) fn known(&self, access: Access) -> Access {
        let ours = Arc::new(keys::of_vault(Arc::clone(&self.vault)));
        Access { keys: Arc::new(Either(access.keys, ours)), ..access }
    }

    /// The gateway, for a registry that may still have to be opened.
    pub(crate) fn gateway(&self, registry: watch::Receiver<Option<Arc<Registry>>>) -> Gateway {
        Gateway::new(Parts { registry, executor: Arc::clone(&self.executor) })
    }

    /// What calls the tools of a registry.
    pub(crate) fn executor(&self) -> Arc<Executor> {
        Arc::clone(&self.executor)
    }

    /// Keeps what was counted of the present minute, for who serves next.
    pub(crate) fn close(&self) {
        if let Err(error) = self.vault.save_windows(&self.limits.windows(now())) {
            tracing::warn!(%error, "how often keys were used in this minute is forgotten");
        }
    }
}
