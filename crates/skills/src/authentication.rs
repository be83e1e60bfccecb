//! Key directories of this process: administrator secrets, and the keys of a data directory.

use std::sync::Arc;

use skills_core::{Caller, KeyDirectory, KeyLookup};
use skills_registry::RegistryError;
use skills_vault::{AdminSecrets, VaultKeyDirectory};

use crate::{Failure, environment, vault_location::VaultLocation};

/// Reads the administrator secrets from the environment and logs warnings about weak ones.
///
/// # Errors
/// When one is set and cannot be used.
pub(crate) fn admin_secrets() -> Result<AdminSecrets, Failure> {
    let (admin, internal) =
        (environment::text("ADMIN_KEY")?, environment::text("INTERNAL_API_SECRET")?);
    let (admins, warnings) = AdminSecrets::from_env(admin.as_deref(), internal.as_deref())?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Ok(admins)
}

/// Reads the secret of an administrator that a command presents.
pub(crate) fn admin_key() -> Result<Option<String>, Failure> {
    environment::text("ADMIN_KEY")
}

/// Looks keys up in a first directory, then in a second.
pub(crate) struct ChainedKeyDirectory(
    pub(crate) Arc<dyn KeyDirectory>,
    pub(crate) Arc<dyn KeyDirectory>,
);

impl KeyDirectory for ChainedKeyDirectory {
    fn lookup(&self, bearer: &str) -> KeyLookup {
        match self.0.lookup(bearer) {
            KeyLookup::Found(caller) => KeyLookup::Found(caller),
            KeyLookup::UnknownKey | KeyLookup::NotAKey => self.1.lookup(bearer),
            KeyLookup::Unavailable => match self.1.lookup(bearer) {
                KeyLookup::Found(caller) => KeyLookup::Found(caller),
                _ => KeyLookup::Unavailable,
            },
        }
    }

    fn is_active(&self, caller: &Caller) -> bool {
        self.0.is_active(caller) || self.1.is_active(caller)
    }
}

/// Returns the caller of a key of a vault and the directory of its keys. Without a key the caller is anonymous.
pub(crate) fn caller(
    location: &VaultLocation,
    key: Option<&str>,
) -> Result<(Caller, Option<VaultKeyDirectory>), Failure> {
    let Some(key) = key else { return Ok((Caller::Anonymous, None)) };
    let vault = location.open(None)?;
    let keys = VaultKeyDirectory::new(Arc::new(vault), AdminSecrets::default());
    match keys.lookup(key) {
        KeyLookup::Found(caller) => Ok((caller, Some(keys))),
        KeyLookup::UnknownKey | KeyLookup::NotAKey => Err(RegistryError::UnknownKey.into()),
        KeyLookup::Unavailable => Err(RegistryError::keys_unavailable().into()),
    }
}
