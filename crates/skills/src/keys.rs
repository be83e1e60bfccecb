//! Whom the keys of users stand for: the one place that decides where they are looked up.

use std::{path::Path, sync::Arc};

use skills_core::{Caller, Identify, Identity, caller::NoKeys};
use skills_registry::RegistryError;

use crate::Failure;

/// The keys that belong to a data directory.
pub(crate) fn of_data_dir(_data_dir: &Path) -> Arc<dyn Identify> {
    Arc::new(NoKeys)
}

/// Who presents a key on the command line; nobody in particular without one.
pub(crate) fn caller(keys: &dyn Identify, key: Option<&str>) -> Result<Caller, Failure> {
    let Some(key) = key else { return Ok(Caller::Anonymous) };
    match keys.identify(key) {
        Identity::Known(caller) => Ok(caller),
        Identity::UnknownKey | Identity::NotOurs => Err(RegistryError::UnknownKey.into()),
    }
}
