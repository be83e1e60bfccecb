//! Whom the keys of users stand for: the one place that decides where they are looked up.

use std::{path::Path, sync::Arc};

use skills_core::{Caller, Identify, Identity, User, caller::AdminName};
use skills_registry::RegistryError;
use skills_vault::{AdminSecrets, Identifier, Identity as Found, Vault, now};

use crate::{Failure, cli::environment};

/// The keys of a vault, and the secrets of administrators.
pub(crate) struct VaultKeys(Identifier);

impl VaultKeys {
    /// Those of a vault; where secrets of administrators are too short to be used, that is said.
    pub(crate) fn new(vault: Arc<Vault>) -> Self {
        let (admin, internal) = (environment("ADMIN_KEY"), environment("INTERNAL_API_SECRET"));
        let (admins, warnings) = AdminSecrets::from_env(admin.as_deref(), internal.as_deref());
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        Self(Identifier::new(vault, admins))
    }
}

impl Identify for VaultKeys {
    fn identify(&self, bearer: &str) -> Identity {
        match self.0.identify(bearer, now()) {
            Ok(Found::User(key)) => {
                Identity::Known(Caller::User(User { owner: key.owner, key: key.hash }))
            }
            Ok(Found::Admin(name)) => Identity::Known(Caller::Admin(AdminName::new(name.as_str()))),
            Ok(Found::UnknownKey) => Identity::UnknownKey,
            Ok(Found::NotOurs) => Identity::NotOurs,
            Err(error) => {
                tracing::error!(%error, "keys cannot be looked up; nobody is let in by one");
                Identity::UnknownKey
            }
        }
    }
}

/// What the first knows, and else what the second knows.
pub(crate) struct Either(pub(crate) Arc<dyn Identify>, pub(crate) Arc<dyn Identify>);

impl Identify for Either {
    fn identify(&self, bearer: &str) -> Identity {
        match self.0.identify(bearer) {
            Identity::Known(caller) => Identity::Known(caller),
            Identity::UnknownKey | Identity::NotOurs => self.1.identify(bearer),
        }
    }
}

/// Who presents a key of a data directory on the command line; nobody in particular without one.
pub(crate) fn caller(data_dir: &Path, key: Option<&str>) -> Result<Caller, Failure> {
    let Some(key) = key else { return Ok(Caller::Anonymous) };
    let vault = Vault::open(data_dir, None)?;
    match VaultKeys(Identifier::new(Arc::new(vault), AdminSecrets::default())).identify(key) {
        Identity::Known(caller) => Ok(caller),
        Identity::UnknownKey | Identity::NotOurs => Err(RegistryError::UnknownKey.into()),
    }
}
