//! Who asks on a bus: whom a key that a call carries stands for. Nothing else in a call says that.

use std::sync::Arc;

use skills_core::{Caller, Identify, Identity, Layer};
use skills_registry::RegistryError;

use crate::contract::{Asks, Tier};

/// Turns keys into callers.
#[derive(Clone)]
pub(crate) struct Who(Arc<dyn Identify>);

impl Who {
    pub(crate) fn new(keys: &Arc<dyn Identify>) -> Self {
        Self(Arc::clone(keys))
    }

    /// Who asks. Administrators have no say on a bus, so their secrets are no keys there.
    pub(crate) fn asks(&self, input: &impl Asks) -> Result<Caller, RegistryError> {
        let Some(key) = input.key() else { return Ok(Caller::Anonymous) };
        match self.0.identify(key) {
            Identity::Known(user @ Caller::User(_)) => Ok(user),
            _ => Err(RegistryError::UnknownKey),
        }
    }

    /// Who writes, and where: the layer, and who is named in the log.
    pub(crate) fn writes(
        &self,
        input: &impl Asks,
        tier: Option<Tier>,
        actor: String,
    ) -> Result<(Layer, String), RegistryError> {
        let caller = self.asks(input)?;
        let layer = caller.layer(tier.unwrap_or(Tier::Official).into());
        Ok((layer.ok_or(RegistryError::KeyNeeded)?, caller.actor().unwrap_or(actor)))
    }
}
