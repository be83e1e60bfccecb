//! Versions of a registry behind a bus: requests are sent as they are, and registries without history refuse them.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use skills_core::{EntryKind, RuleError, Tier, VersionSelector};
use skills_registry::{PublishRequest, ReadVersion, RegistryError, RejectedRows, SkillRow};

use crate::{
    RemoteRegistry, listing,
    rows::{self, ListingSize},
};

/// Function that lists versions. A registry that has it has all functions of versions.
const HISTORY: &str = "skills::history";
/// Function that removes the content of old versions.
pub(super) const COLLECT: &str = "skills::gc";
/// Function that reads the change log.
pub(super) const LOG: &str = "skills::log";

/// Message of [`RegistryError::Unsupported`] where the registry on the bus keeps no history.
const NO_HISTORY: &str =
    "the registry on this bus keeps no history; versions and labels need the embedded store";

/// Returns the id of a function for a kind of entry.
const fn function(kind: EntryKind, operation: VersionOperation) -> &'static str {
    use VersionOperation::{Diff, History, Label, Rollback, Yank};
    match (kind, operation) {
        (EntryKind::Skill, History) => HISTORY,
        (EntryKind::Skill, Diff) => "skills::diff",
        (EntryKind::Skill, Label) => "skills::label",
        (EntryKind::Skill, Rollback) => "skills::rollback",
        (EntryKind::Skill, Yank) => "skills::yank",
        (EntryKind::Collection, History) => "collections::history",
        (EntryKind::Collection, Diff) => "collections::diff",
        (EntryKind::Collection, Label) => "collections::label",
        (EntryKind::Collection, Rollback) => "collections::rollback",
        (EntryKind::Collection, Yank) => "collections::yank",
        (EntryKind::Prompt, History) => "prompts::history",
        (EntryKind::Prompt, Diff) => "prompts::diff",
        (EntryKind::Prompt, Label) => "prompts::label",
        (EntryKind::Prompt, Rollback) => "prompts::rollback",
        (EntryKind::Prompt, Yank) => "prompts::yank",
    }
}

/// Operation on the versions of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) enum VersionOperation {
    History,
    Diff,
    Label,
    Rollback,
    Yank,
}

impl RemoteRegistry {
    /// Calls a function of versions.
    pub(super) async fn call_versions<T: DeserializeOwned>(
        &self,
        kind: EntryKind,
        operation: VersionOperation,
        request: &impl Serialize,
    ) -> Result<T, RegistryError> {
        let mut payload = self.history_payload(request).await?;
        // The contract names prompts so, and collections follow it.
        if kind != EntryKind::Skill
            && let Some(id) = payload.as_object_mut().and_then(|fields| fields.remove("id"))
        {
            payload["name"] = id;
        }
        self.call(function(kind, operation), payload).await
    }

    /// Calls a function about the history of all entries.
    pub(super) async fn call_history<T: DeserializeOwned>(
        &self,
        function: &'static str,
        request: &impl Serialize,
    ) -> Result<T, RegistryError> {
        self.require(function, NO_HISTORY).await?;
        let payload = self.history_payload(request).await?;
        self.call(function, payload).await
    }

    /// Checks that the registry keeps a history, and converts a request to a payload.
    pub(super) async fn history_payload(
        &self,
        request: &impl Serialize,
    ) -> Result<Value, RegistryError> {
        self.require(HISTORY, NO_HISTORY).await?;
        serde_json::to_value(request).map_err(|_| RegistryError::Unexpected("a request"))
    }

    /// Adds the condition and the message of a registration to a payload. Other implementations would ignore them. The
    /// registry answers with the version if there is a message, also an empty one, which is none.
    pub(super) async fn add_publish_request(
        &self,
        payload: &mut Value,
        request: &PublishRequest,
    ) -> Result<(), RegistryError> {
        if request.is_empty() {
            if self.capabilities().await?.has(HISTORY) {
                payload["message"] = json!("");
            }
            return Ok(());
        }
        if let (Value::Object(fields), Value::Object(more)) =
            (payload, self.history_payload(request).await?)
        {
            fields.extend(more);
        }
        Ok(())
    }

    /// Requests the row of one version of a skill.
    pub(super) async fn version_row(
        &self,
        tier: Option<Tier>,
        id: &str,
        version: &VersionSelector,
    ) -> Result<Arc<SkillRow>, RegistryError> {
        self.require(HISTORY, NO_HISTORY).await?;
        rows::check_skill_id(id).map_err(RegistryError::unexpected_answer)?;
        let address = format!("{id}@{version}");
        let mut payload = json!({ "ids": [address] });
        if let Some(tier) = tier {
            payload["tier"] = json!(tier);
        }
        let page = listing::page(self, payload, &mut ListingSize::default()).await?;
        let row = page.skills.into_iter().next();
        let missing = || RegistryError::NotFound { kind: EntryKind::Skill, id: address.clone() };
        let row = row.ok_or_else(missing)?;
        let pinned = row.version.map(|version| ReadVersion::new(version, row.yanked.clone()));
        let pinned = pinned.ok_or_else(|| {
            RegistryError::unexpected_answer(format!("{address} was listed without its version"))
        })?;
        let listed = listing::parse_row(row, &mut RejectedRows::default());
        let listed = listed.ok_or(RegistryError::Rule(RuleError::Version(address)))?;
        let rows::ListedSkill { id, tier, meta, registered_at, .. } = listed;
        Ok(Arc::new(SkillRow::of_version(id, tier, meta, registered_at, pinned)))
    }
}
