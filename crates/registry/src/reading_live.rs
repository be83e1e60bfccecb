//! Reads entries of live clients. A stored entry at the same URI always comes first.

use serde_json::{Map, Value};
use skills_core::{
    Caller, EntryKey, EntryKind, Layer, PromptMessages, ResourceUri, SkillId, output::MARKDOWN,
};

use crate::{
    PromptRow, Registry, RegistryError, RenderedPrompt,
    api::NO_LIVE_CLIENTS,
    live::{LiveDocument, LiveOperation, LiveOrigin},
};

impl Registry {
    /// Reads a URI from a live client, if nothing is stored there.
    pub(crate) async fn read_live(
        &self,
        caller: &Caller,
        uri: &ResourceUri,
    ) -> Result<Option<LiveDocument>, RegistryError> {
        let (client, path) = match uri {
            ResourceUri::Skill(client) => (client, None),
            ResourceUri::Path { skill, path } => (skill, Some(path.as_str())),
            ResourceUri::Index | ResourceUri::InTier { .. } | ResourceUri::Version { .. } => {
                return Ok(None);
            }
        };
        if !self.catalog().has_client(client.as_str()) {
            return Ok(None);
        }
        let Some(host) = self.live_host() else { return Ok(None) };
        if self.is_stored(caller, client, path).await? {
            return Ok(None);
        }
        let path = match path {
            Some(path) => format!("/{path}"),
            None => match self.catalog().client_root(client.as_str()) {
                Ok(leaf) => format!("/{leaf}"),
                Err(list) => {
                    let media_type = MARKDOWN.to_owned();
                    return Ok(Some(LiveDocument { media_type, body: list.into() }));
                }
            },
        };
        Ok(host.read(client.as_str(), &path).await?)
    }

    /// Returns whether a stored entry shadows one of a live client.
    async fn is_stored(
        &self,
        caller: &Caller,
        id: &SkillId,
        path: Option<&str>,
    ) -> Result<bool, RegistryError> {
        if self.catalog_for(caller).skill(id.as_str()).is_none() {
            let key =
                EntryKey { kind: EntryKind::Skill, layer: Layer::Official, id: id.to_shared() };
            self.refresh_before_live(key).await?;
        }
        let catalog = self.catalog_for(caller);
        Ok(catalog.skill(id.as_str()).is_some_and(|row| match path {
            // The files of a corrupt skill are unknown.
            Some(path) => row.corruption().is_some() || row.meta.file(path).is_some(),
            None => true,
        }))
    }

    /// Renders a prompt of a live client.
    pub(crate) async fn render_live(
        &self,
        row: &PromptRow,
        origin: &LiveOrigin,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        let not_found =
            || RegistryError::NotFound { kind: EntryKind::Prompt, id: row.name.to_string() };
        let host = self.live_host().ok_or_else(not_found)?;
        let arguments = match arguments {
            Value::Null => Value::Object(Map::new()),
            arguments => arguments,
        };
        let output = host.render(&origin.client, &origin.path, arguments).await?;
        let rendered = PromptMessages::from_output(output).map_err(|source| {
            let function_id = format!("{}{}", origin.client, origin.path);
            RegistryError::Output { function_id, source }
        })?;
        let description =
            rendered.description.unwrap_or_else(|| row.definition.description.clone());
        Ok(RenderedPrompt { description: Some(description), messages: rendered.messages })
    }

    /// Carries out an operation on live clients and their paths on behalf of a caller.
    ///
    /// # Errors
    /// When no live clients are hosted, the arguments do not fit the operation, or it fails.
    pub async fn call_live_as(
        &self,
        caller: &Caller,
        operation: LiveOperation,
        arguments: Map<String, Value>,
    ) -> Result<Value, RegistryError> {
        let host = self.live_host().ok_or(RegistryError::Unsupported(NO_LIVE_CLIENTS))?;
        host.call_operation(caller, operation, arguments).await
    }
}
