//! The vault, the rate limits and the executor of a server.

use std::{path::Path, sync::Arc};

use skills_core::Label;
use skills_execution::{CallerLimiter, Executor, PendingExecutor, UpstreamAllowance};
use skills_gateway::{Gateway, GatewayParts};
use skills_http::{Access, ServerInfo};
use skills_registry::Registry;
use skills_upstream::UpstreamClient;
use skills_vault::{AdminSecrets, MasterKeys, RateLimits, Vault, VaultKeyDirectory, now};

use crate::{
    Failure, authentication::ChainedKeyDirectory, blocking::blocking, config::Config, environment,
    key_watch::KeyWatch, vault_location::VaultLocation,
};

/// Reads the master keys of secrets from the environment.
pub(crate) fn master_keys() -> Result<Option<MasterKeys>, Failure> {
    let current = environment::text("MASTER_ENCRYPTION_KEY")?;
    let previous = environment::text("MASTER_ENCRYPTION_KEY_PREVIOUS")?;
    Ok(MasterKeys::from_env(current.as_deref(), previous.as_deref())?)
}

/// Account services of a server: vault, rate limits, and the executors made with them.
#[derive(Debug, Clone)]
pub(crate) struct Accounts {
    vault: Arc<Vault>,
    limits: Arc<RateLimits>,
    upstream: Arc<UpstreamClient>,
    allowances: Vec<UpstreamAllowance>,
    protected_labels: Arc<[Label]>,
}

impl Accounts {
    /// Opens the vault of a data directory, or of the configured database.
    pub(crate) async fn open(data_dir: &Path, config: &Config) -> Result<Self, Failure> {
        let master = master_keys()?;
        let (location, limits) = (VaultLocation::new(data_dir, config), config.limits);
        let upstream = Arc::new(UpstreamClient::new(config.execution.upstream_settings()));
        let allowances = config.execution.allow_upstream.clone();
        let protected_labels = config.protected_labels.as_slice().into();
        let open = move || -> Result<Self, Failure> {
            let vault = Arc::new(location.open(master)?);
            let limits = Arc::new(RateLimits::open(limits, &vault, now())?);
            Ok(Self { vault, limits, upstream, allowances, protected_labels })
        };
        blocking(open).await?
    }

    pub(crate) fn vault(&self) -> &Arc<Vault> {
        &self.vault
    }

    /// Adds the keys of the vault and the administrator secrets to the access rules of HTTP.
    pub(crate) fn with_keys(&self, access: Access, admins: AdminSecrets) -> Access {
        let vault_keys = Arc::new(VaultKeyDirectory::new(Arc::clone(&self.vault), admins));
        let keys = KeyWatch::new(Arc::new(ChainedKeyDirectory(access.keys, vault_keys)));
        Access { keys: Arc::new(keys), ..access }
    }

    /// Creates the gateway of an executor whose registry may still be opening.
    pub(crate) fn gateway(
        &self,
        executor: PendingExecutor,
        server: Arc<dyn ServerInfo>,
        is_private: bool,
    ) -> Gateway {
        let (limiter, protected_labels) = (self.limiter(), Arc::clone(&self.protected_labels));
        let server = Some(server);
        Gateway::new(GatewayParts { executor, limiter, server, is_private, protected_labels })
    }

    /// Creates the executor of a registry's tools.
    pub(crate) fn executor(&self, registry: &Arc<Registry>) -> Executor {
        let upstream = Arc::clone(&self.upstream);
        Executor::new(Arc::clone(registry), self.limiter(), upstream, &self.allowances)
    }

    /// Returns the labels that only administrators move.
    pub(crate) fn protected_labels(&self) -> Arc<[Label]> {
        Arc::clone(&self.protected_labels)
    }

    /// Returns the rate limits of keys.
    pub(crate) fn limiter(&self) -> CallerLimiter {
        CallerLimiter::new(Arc::clone(&self.vault), Arc::clone(&self.limits))
    }

    /// Saves the rate counters of the current minute for the next start.
    pub(crate) fn close(&self) {
        if let Err(error) = self.limits.save(&self.vault, now()) {
            tracing::warn!(%error, "cannot save rate counters");
        }
    }
}
