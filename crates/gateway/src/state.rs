//! What all routes share.

use std::{ops::Deref, sync::Arc};

use skills_core::{Caller, User};
use skills_registry::{Registry, RegistryError};
use skills_vault::{Decision, Vault, VaultError, now};
use tokio::sync::watch;

use crate::{Executor, error::GatewayError, manifests::Manifests};

/// What a gateway is made of.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The registry, as soon as it is open.
    pub registry: watch::Receiver<Option<Arc<Registry>>>,
    /// What calls tools, and knows people for that.
    pub executor: Arc<Executor>,
}

/// What all routes share. Cloning it costs next to nothing.
#[derive(Debug, Clone)]
pub struct Gateway(Arc<Shared>);

/// See [`Gateway`].
#[derive(Debug)]
pub struct Shared {
    parts: Parts,
}

impl Deref for Gateway {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Gateway {
    /// Puts it together.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Shared { parts }))
    }
}

impl Shared {
    /// The registry; waits for it where it is still being opened.
    pub(crate) async fn registry(&self) -> Result<Arc<Registry>, GatewayError> {
        let mut opened = self.parts.registry.clone();
        let registry = opened.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        registry.ok_or_else(|| RegistryError::Closed.into())
    }

    /// The manifests that were read.
    pub(crate) fn manifests(&self) -> &Manifests {
        &self.parts.executor.manifests
    }

    /// Asks the vault, which blocks, away from the async threads.
    pub(crate) async fn vault<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Vault) -> Result<T, VaultError> + Send + 'static,
    ) -> Result<T, GatewayError> {
        let vault = Arc::clone(&self.parts.executor.vault);
        let asked = tokio::task::spawn_blocking(move || ask(&vault)).await;
        Ok(asked.map_err(|_| GatewayError::Internal)??)
    }

    /// Counts that a key was used to change something: who may write without end fills a disk.
    pub(crate) fn count(&self, user: &User) -> Result<(), GatewayError> {
        let taken = self.parts.executor.take(&Caller::User(user.clone()), now());
        Ok(taken.map_err(RegistryError::from)?)
    }

    /// What is left of a caller's minute.
    pub(crate) fn left(&self, caller: &Caller) -> Option<Decision> {
        self.parts.executor.left(caller, now())
    }
}
