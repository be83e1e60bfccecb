//! Lookup of a skill by its address: an id, or an id with a version.

use std::sync::Arc;

use skills_core::{Caller, EntryKind, Tier, version::split_version};

use crate::{Registry, RegistryError, SkillRow};

impl Registry {
    /// Returns the row of a stored skill in a caller's view: the served one for an id, one version for `id@version`.
    ///
    /// Does not wait for an id that is in the catalog.
    ///
    /// # Errors
    /// When the address is malformed, there is no such skill or version, or its content is gone.
    pub async fn skill_at(
        &self,
        caller: &Caller,
        tier: Option<Tier>,
        address: &str,
    ) -> Result<Arc<SkillRow>, RegistryError> {
        let (id, version) = split_version(address)?;
        if let Some(version) = version {
            return self.skill_version_as(caller, tier, &id, &version).await;
        }
        let found = self.catalog_for(caller).readable_skill(tier, &id).cloned();
        match found {
            Err(error @ RegistryError::NotFound { .. }) => {
                Err(self.explain_missing(caller, EntryKind::Skill, tier, &id, error).await)
            }
            found => found,
        }
    }
}
