//! Rate limit of a caller, looked up by key.

use std::sync::{Arc, LazyLock};

use skills_core::{Caller, Digest, Timestamp};
use skills_registry::RegistryError;
use skills_vault::{Plan, RateDecision, RateLimits, Vault};

use crate::ExecuteError;

/// Rate limiter by caller: each key has the limit of its owner's plan, callers without a key share one free limit.
#[derive(Debug, Clone)]
pub struct CallerLimiter {
    vault: Arc<Vault>,
    limits: Arc<RateLimits>,
}

impl CallerLimiter {
    /// Creates a limiter for the keys of a vault.
    #[must_use]
    pub fn new(vault: Arc<Vault>, limits: Arc<RateLimits>) -> Self {
        Self { vault, limits }
    }

    /// Returns the vault that holds the keys.
    #[must_use]
    pub fn vault(&self) -> &Arc<Vault> {
        &self.vault
    }

    /// Returns the state of a caller's limit without counting a call; `None` for a key that is no longer active.
    #[must_use]
    pub fn peek(&self, caller: &Caller, now: Timestamp) -> Option<RateDecision> {
        let (hash, plan) = match caller {
            Caller::User(user) => {
                let found = || self.vault.find_key_by_hash(&user.key, now).ok().flatten();
                let plan = self.vault.cached_plan(&user.key);
                (user.key, plan.or_else(|| found().map(|key| key.plan))?)
            }
            Caller::Anonymous | Caller::Admin(_) => shared_limit(),
        };
        Some(self.limits.peek(&hash, plan, now))
    }

    /// Counts a call, on all servers that share a database.
    ///
    /// # Errors
    /// When the limit is reached, the key is no longer active, or the vault cannot be read.
    pub async fn take(&self, caller: &Caller, now: Timestamp) -> Result<(), ExecuteError> {
        let (hash, plan) = match caller {
            Caller::User(user) => {
                let key = self.vault.find_key_by_hash(&user.key, now)?;
                let key = key.ok_or(RegistryError::UnknownKey)?;
                (key.hash, key.plan)
            }
            Caller::Anonymous | Caller::Admin(_) => shared_limit(),
        };
        let RateDecision { limit, retry_after, .. } = self.limits.take(&hash, plan, now).await;
        match retry_after {
            None => Ok(()),
            Some(retry_after) => Err(ExecuteError::RateLimited { limit, retry_after }),
        }
    }
}

/// Limit shared by all callers without a key. No key hashes to the digest of this text.
fn shared_limit() -> (Digest, Plan) {
    static ANONYMOUS: LazyLock<Digest> = LazyLock::new(|| Digest::of(b"anonymous"));
    (*ANONYMOUS, Plan::Free)
}
