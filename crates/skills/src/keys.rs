//! Whom the keys of users stand for: the one place that decides where they are looked up.

use std::{path::Path, sync::Arc};

use skills_core::{Caller, Identify, Identity};
use skills_registry::RegistryError;
use skills_vault::{AdminSecrets, Identifier, Vault};

use crate::{Failure, cli::environment};

/// The keys of a vault, and the secrets of administrators; where those are too short to be used, that is said.
pub(crate) fn of_vault(vault: Arc<Vault>) -> Identifier {
    let (admin, internal) = (environment("ADMIN_KEY"), environment("INTERNAL_API_SECRET"));
    let (admins, warnings) = AdminSecrets::from_env(admin.as_deref(), internal.as_deref());
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Identifier::new(vault, admins)
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

    fn knows(&self, caller: &Caller) -> bool {
        self.0.knows(caller) || self.1.knows(caller)
    }
}

/// Who presents a key of a data directory on the command line, and what knows for how long they do; nobody in
/// particular without one.
pub(crate) fn caller(
    data_dir: &Path,
    key: Option<&str>,
) -> Result<(Caller, Option<Identifier>), Failure> {
    let Some(key) = key else { return Ok((Caller::Anonymous, None)) };
    let vault = Vault::open(data_dir, None)?;
    let keys = Identifier::new(Arc::new(vault), AdminSecrets::default());
    match keys.identify(key) {
        Identity::Known(caller) => Ok((caller, Some(keys))),
        Identity::UnknownKey | Identity::NotOurs => Err(RegistryError::UnknownKey.into()),
    }
}
