//! State shared by all routes.

use std::{
    ops::Deref,
    sync::{Arc, atomic::AtomicBool},
};

use skills_core::{Caller, Digest, Label, Timestamp, User, WorkAccount, WorkKind, work::StopFlag};
use skills_execution::{CallerLimiter, Executor, PendingExecutor};
use skills_http::ServerInfo;
use skills_registry::Registry;
use skills_vault::{RateDecision, Vault, VaultError, now};

use crate::{error::GatewayError, skills::DetailCache};

/// Reading or changing accounts, keys and secrets.
const VAULT: WorkKind = WorkKind::io("an operation on accounts");
/// Memory of that: a page of keys or secrets.
const VAULT_BYTES: usize = 256 << 10;

/// Constructor arguments of a [`Gateway`].
#[derive(Debug, Clone)]
pub struct GatewayParts {
    /// Executor of tools, which knows the registry.
    pub executor: PendingExecutor,
    /// Rate limiter, which knows the vault.
    pub limiter: CallerLimiter,
    /// State of the server; `None` where nobody can ask for it, as in tests.
    pub server: Option<Arc<dyn ServerInfo>>,
    /// True if the listener asks for a credential, so that no response may be cached for others.
    pub is_private: bool,
    /// Labels that only administrators may move.
    pub protected_labels: Arc<[Label]>,
}

/// Handle of the state shared by all routes; cheap to clone.
#[derive(Debug, Clone)]
pub struct Gateway(Arc<Shared>);

/// State behind a [`Gateway`].
#[derive(Debug)]
pub struct Shared {
    parts: GatewayParts,
    pub(crate) details: DetailCache,
    /// True if the task runs that retries to store revocations held in memory only.
    pub(crate) is_storing_revocations: AtomicBool,
}

impl Deref for Gateway {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Gateway {
    /// Creates the state of a gateway.
    #[must_use]
    pub fn new(parts: GatewayParts) -> Self {
        let (details, is_storing_revocations) = Default::default();
        Self(Arc::new(Shared { parts, details, is_storing_revocations }))
    }
}

impl Shared {
    /// Waits until the registry is open, and returns the executor of its tools.
    pub(crate) async fn executor(&self) -> Result<Arc<Executor>, GatewayError> {
        Ok(self.parts.executor.get().await?)
    }

    /// Waits until the registry is open, and returns it.
    pub(crate) async fn registry(&self) -> Result<Arc<Registry>, GatewayError> {
        Ok(Arc::clone(self.executor().await?.registry()))
    }

    /// Runs a blocking operation of the vault on a blocking thread.
    pub(crate) async fn vault<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Vault) -> Result<T, VaultError> + Send + 'static,
    ) -> Result<T, GatewayError> {
        let vault = Arc::clone(self.parts.limiter.vault());
        let operation = move |_: &StopFlag| operation(&vault);
        Ok(WorkAccount::current().run(VAULT, VAULT_BYTES, operation).await??)
    }

    /// Counts a write against the rate limit of a key: unlimited writes would fill the disk.
    pub(crate) async fn count_write(&self, user: &User) -> Result<(), GatewayError> {
        Ok(self.parts.limiter.take(&Caller::User(user.clone()), now()).await?)
    }

    /// Returns the state of a caller's rate limit.
    pub(crate) fn rate_limit(&self, caller: &Caller) -> Option<RateDecision> {
        self.parts.limiter.peek(caller, now())
    }

    /// Returns when a key was last presented to this process.
    pub(crate) fn last_use(&self, hash: &Digest) -> Option<Timestamp> {
        self.parts.limiter.vault().last_use(hash)
    }

    /// Returns the state of the server.
    pub(crate) fn server(&self) -> Result<&Arc<dyn ServerInfo>, GatewayError> {
        self.parts.server.as_ref().ok_or(GatewayError::Internal)
    }

    /// Returns whether only administrators may move a label.
    pub(crate) fn is_protected(&self, label: &Label) -> bool {
        self.parts.protected_labels.contains(label)
    }

    /// Returns whether no response may be cached for others than the caller.
    pub(crate) fn is_private(&self) -> bool {
        self.parts.is_private
    }
}
