//! Access to sections: the functions that a client may reach by `iii://{id}/{function}`.
//!
//! A worker on the bus may call any function itself, so the published contract lets it read any section. A client of
//! another surface has no such right and follows the links of skills. The bus refuses private functions itself.

use serde::Deserialize;
use serde_json::json;
use skills_core::{
    Caller, HandlerId, SkillId,
    uri::{SCHEME, linked_sections},
};

use crate::{Registry, RegistryError, functions};

/// Rule for sections on all surfaces but the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SectionAccess {
    /// The root document of the skill links the section, or the function is exposed.
    #[default]
    Linked,
    /// All functions that may serve content, as on the bus.
    Any,
}

impl Registry {
    /// Checks that the skill's root document links a section, or that its function is exposed.
    ///
    /// The document is scanned for each read: it has at most 256 KiB and is mostly cached, which costs less than the
    /// following call and needs no index.
    ///
    /// # Errors
    /// When neither is the case.
    pub(crate) async fn check_linked(
        &self,
        caller: &Caller,
        skill: &SkillId,
        function: &HandlerId,
    ) -> Result<(), RegistryError> {
        // Without a bus the call fails anyway, with a better error.
        if self.bus().is_none()
            || self.is_linked(caller, skill, function).await
            || self.is_exposed(function).await
        {
            return Ok(());
        }
        Err(RegistryError::SectionNotLinked { uri: format!("{SCHEME}{skill}/{function}") })
    }

    async fn is_linked(&self, caller: &Caller, skill: &SkillId, function: &HandlerId) -> bool {
        let Ok(document) = self.body(caller, skill).await else { return false };
        let Ok(document) = std::str::from_utf8(&document) else { return false };
        let is_linked_in = |id: &str| linked_sections(id, document).any(|link| link == *function);
        // A name may resolve to a skill whose id has the prefix.
        let catalog = self.catalog_for(caller);
        let stored_as = catalog.stored(skill.as_str()).map(|row| &*row.id);
        is_linked_in(skill.as_str())
            || stored_as.is_some_and(|id| id != skill.as_str() && is_linked_in(id))
    }

    async fn is_exposed(&self, function: &HandlerId) -> bool {
        let payload = json!({ "function_id": function.as_str() });
        self.call(functions::INFO, &payload).await.is_ok_and(functions::is_exposed)
    }
}
