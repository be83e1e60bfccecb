//! Reading what live clients have. What is stored at the same address comes first, always.

use serde_json::{Map, Value};
use skills_core::{
    Caller, EntryKey, Kind, Layer, PromptMessages, ResourceUri, SkillId, output::MARKDOWN,
};

use crate::{
    PromptRow, Registry, RegistryError, RenderedPrompt,
    live::{LiveDocument, Origin, Question},
};

impl Registry {
    /// What a live client has at an address, if nothing is stored there.
    pub(crate) async fn live(
        &self,
        caller: &Caller,
        uri: &ResourceUri,
    ) -> Result<Option<LiveDocument>, RegistryError> {
        let (client, path) = match uri {
            ResourceUri::Skill(client) => (client, None),
            ResourceUri::Inside { skill, path } => (skill, Some(path.as_str())),
            ResourceUri::Index | ResourceUri::Stored { .. } => return Ok(None),
        };
        if !self.catalog().has_client(client.as_str()) {
            return Ok(None);
        }
        let Some(source) = self.live_source() else { return Ok(None) };
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
        Ok(source.read(client.as_str(), &path).await?)
    }

    /// Whether something is stored where a client has something too.
    async fn is_stored(
        &self,
        caller: &Caller,
        id: &SkillId,
        path: Option<&str>,
    ) -> Result<bool, RegistryError> {
        if self.catalog_of(caller).skill(id.as_str()).is_none() {
            let key = EntryKey { kind: Kind::Skill, layer: Layer::Official, id: id.to_shared() };
            self.look_before_live(key).await?;
        }
        let catalog = self.catalog_of(caller);
        Ok(catalog.skill(id.as_str()).is_some_and(|row| match path {
            // Of one that is damaged nobody knows what it had.
            Some(path) => row.corruption().is_some() || row.meta.file(path).is_some(),
            None => true,
        }))
    }

    /// Renders a prompt of a live client.
    pub(crate) async fn render_live(
        &self,
        row: &PromptRow,
        origin: &Origin,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        let missing = || RegistryError::NotFound { kind: Kind::Prompt, id: row.name.to_string() };
        let source = self.live_source().ok_or_else(missing)?;
        let arguments = match arguments {
            Value::Null => Value::Object(Map::new()),
            given => given,
        };
        let output = source.render(&origin.client, &origin.path, arguments).await?;
        let rendered = PromptMessages::from_output(output).map_err(|source| {
            let function_id = format!("{}{}", origin.client, origin.path);
            RegistryError::Output { function_id, source }
        })?;
        let description =
            rendered.description.unwrap_or_else(|| row.definition.description.clone());
        Ok(RenderedPrompt { description: Some(description), messages: rendered.messages })
    }

    /// Asks about live clients and their paths on behalf of a caller.
    ///
    /// # Errors
    /// When nobody hosts any, or there is no answer.
    pub async fn ask_paths(
        &self,
        caller: &Caller,
        question: Question,
    ) -> Result<Value, RegistryError> {
        let none = RegistryError::Unsupported("this registry hosts no live clients");
        let source = self.live_source().ok_or(none)?;
        Ok(source.ask(caller, question).await?)
    }
}
