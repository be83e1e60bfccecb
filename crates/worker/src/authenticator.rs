//! Authentication on the bus: the key in a call's input identifies its user. Nothing else in a call does.

use std::sync::Arc;

use skills_core::{Caller, KeyDirectory, KeyLookup, Layer};
use skills_registry::RegistryError;

use crate::contract::{HasKey, TierInput};

/// Resolves keys to callers.
#[derive(Clone)]
pub(crate) struct Authenticator(Arc<dyn KeyDirectory>);

impl Authenticator {
    pub(crate) fn new(keys: &Arc<dyn KeyDirectory>) -> Self {
        Self(Arc::clone(keys))
    }

    /// Returns the caller of a function. Administrators have no role on a bus, so their secrets are unknown keys there.
    pub(crate) fn caller(&self, input: &impl HasKey) -> Result<Caller, RegistryError> {
        let Some(key) = input.key() else { return Ok(Caller::Anonymous) };
        match self.0.lookup(key) {
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
