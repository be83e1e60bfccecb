//! Access on the bus: the key in a call's input identifies its user. Nothing else in a call does.

use std::sync::Arc;

use skills_core::{Caller, KeyDirectory, KeyLookup, Layer};
use skills_registry::{Registry, RegistryError};

use crate::contract::{HasKey, TierInput};

/// Resolves keys to callers of a registry.
#[derive(Clone)]
pub(crate) struct Authenticator {
    keys: Arc<dyn KeyDirectory>,
    registry: Arc<Registry>,
}

impl Authenticator {
    pub(crate) fn new(keys: &Arc<dyn KeyDirectory>, registry: &Arc<Registry>) -> Self {
        Self { keys: Arc::clone(keys), registry: Arc::clone(registry) }
    }

    /// Returns the caller of a function, if the registry serves them now.
    pub(crate) fn caller(&self, input: &impl HasKey) -> Result<Caller, RegistryError> {
        let caller = self.authenticate(input)?;
        self.registry.check_access(&caller)?;
        Ok(caller)
    }

    /// Returns the user of a key. Administrators have no role on a bus, so their secrets are unknown keys there.
    fn authenticate(&self, input: &impl HasKey) -> Result<Caller, RegistryError> {
        let Some(key) = input.key() else { return Ok(Caller::Anonymous) };
        match self.keys.lookup(key) {
            KeyLookup::Found(user @ Caller::User(_)) => Ok(user),
            KeyLookup::Unavailable => Err(RegistryError::keys_unavailable()),
            _ => Err(RegistryError::UnknownKey),
        }
    }

    /// Returns the layer that a call writes to, and the actor for the change log: the user, otherwise `actor`.
    pub(crate) fn write_target(
        &self,
        input: &impl HasKey,
        tier: Option<TierInput>,
        actor: String,
    ) -> Result<(Layer, String), RegistryError> {
        let caller = self.caller(input)?;
        let layer = caller.layer(tier.unwrap_or(TierInput::Official).into());
        Ok((layer.ok_or(RegistryError::KeyNeeded)?, caller.actor().unwrap_or(actor)))
    }
}
