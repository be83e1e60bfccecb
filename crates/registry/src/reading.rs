//! Reading and rendering, with the eyes of a caller.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use skills_core::{
    Caller, Content, Digest, EntryKey, HandlerId, Kind, Layer, PromptMessages, PromptName,
    ResourceUri, SkillId, Tier,
    bundle::media_type,
    output,
    skill::{ROOT_PATH, has_leaf},
    uri::{percent_decoded, section},
};
use skills_store::{Change, StoreError};

use crate::{
    Catalog, Document, Explanation, Registry, RegistryError, RenderedPrompt, Resource, SkillRow,
    api, live::LiveDocument,
};

/// What is wrong with an entry whose bytes are not there.
const NO_BODY: &str = "its body is missing from the store";

impl Registry {
    /// The present snapshot, as a caller sees it.
    pub fn catalog_of(&self, caller: &Caller) -> Arc<Catalog> {
        self.catalog().seen_by(caller)
    }

    /// Why a skill's name leads where it leads for a caller.
    pub fn explain(&self, caller: &Caller, name: &str) -> Explanation {
        self.catalog_of(caller).explain(caller, name)
    }

    /// Reads what a URI names for everyone.
    ///
    /// # Errors
    /// See [`read_as`](Self::read_as).
    pub async fn read(&self, uri: &str) -> Result<Resource, RegistryError> {
        self.read_as(&Caller::Anonymous, uri).await
    }

    /// Reads what a URI names for a caller.
    ///
    /// # Errors
    /// When the URI has none of the known shapes, names nothing that the caller sees, or something that cannot
    /// be read, or its function gives no result.
    pub async fn read_as(&self, caller: &Caller, uri: &str) -> Result<Resource, RegistryError> {
        let parsed: ResourceUri = uri.parse()?;
        if let Some(document) = self.live(caller, &parsed).await? {
            let LiveDocument { media_type, body } = document;
            return Ok(Resource { uri: uri.to_owned(), mime_type: media_type, body });
        }
        let (mime_type, body) = match parsed {
            ResourceUri::Index => {
                (output::MARKDOWN, Bytes::from_owner(IndexText(self.catalog_of(caller).index())))
            }
            ResourceUri::Skill(id) => (output::MARKDOWN, self.body(caller, &id).await?),
            ResourceUri::Inside { skill, path } => {
                match self.document(caller, &skill, &path).await? {
                    Some(document) => document,
                    // A live client may have had it there, and be gone.
                    None if has_leaf(&path) => {
                        let id = format!("{skill}/{path}");
                        return Err(RegistryError::NotFound { kind: Kind::Skill, id });
                    }
                    None => self.section(&path).await?,
                }
            }
            ResourceUri::Stored { tier, skill, path } => {
                self.stored(caller, tier, &skill, path.as_deref()).await?
            }
        };
        Ok(Resource { uri: uri.to_owned(), mime_type: mime_type.to_owned(), body })
    }

    /// The log of changes after a revision, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn log(&self, after: u64, limit: usize) -> Result<Vec<Change>, RegistryError> {
        let store = Arc::clone(self.store());
        let read = tokio::task::spawn_blocking(move || store.changes(after, limit)).await;
        Ok(read.map_err(|_| RegistryError::Unexpected("reading the log"))??)
    }

    /// The text of a tool's manifest, as it was registered.
    ///
    /// # Errors
    /// When the skill is no tool, or the text cannot be read.
    pub async fn tool_source(&self, row: &SkillRow) -> Result<Bytes, RegistryError> {
        let tool = row.readable()?.meta.tool.as_ref();
        let tool = tool.ok_or_else(|| RegistryError::NotATool(row.id.to_string()))?;
        let source = self.blob(row, tool.source.digest).await?;
        source.ok_or_else(|| row.damaged("its manifest is missing from the store"))
    }

    /// The root document of a skill.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn document_of(&self, row: &SkillRow) -> Result<Bytes, RegistryError> {
        let document = self.file(row, ROOT_PATH).await?;
        document.map(|(_, body)| body).ok_or_else(|| row.damaged(NO_BODY))
    }

    /// A file of a skill whose row is known.
    pub(crate) async fn document_as(
        &self,
        caller: &Caller,
        row: &SkillRow,
        path: &str,
    ) -> Result<Document, RegistryError> {
        let media_type = media_type(path);
        if let Some(file) = row.readable()?.meta.file(path)
            && let Some(body) = self.blob(row, file.digest).await?
        {
            return Ok(Document { media_type, body, digest: file.digest });
        }
        // Somebody may have replaced it a moment ago, in a store that others write to.
        let body = self.read_as(caller, &api::address(row, path)).await?.body;
        let digest = Digest::of(&body);
        Ok(Document { media_type, body, digest })
    }

    async fn section(&self, path: &str) -> Result<(&'static str, Bytes), RegistryError> {
        let function = section(path)?;
        let output = self.call(function.as_str(), &Value::Object(Map::new())).await?;
        let content = Content::from_output(output);
        Ok((content.mime_type, content.text.into()))
    }

    /// A file of a skill's bundle, if there is one at that path.
    async fn document(
        &self,
        caller: &Caller,
        id: &SkillId,
        path: &str,
    ) -> Result<Option<(&'static str, Bytes)>, RegistryError> {
        let catalog = self.catalog_of(caller);
        match catalog.skill(id.as_str()) {
            Some(row) => self.file(row, path).await,
            None => Ok(None),
        }
    }

    /// The copy that one tier holds. A file that a bundle of the tier's name has at that address comes first.
    async fn stored(
        &self,
        caller: &Caller,
        tier: Tier,
        id: &SkillId,
        path: Option<&str>,
    ) -> Result<(&'static str, Bytes), RegistryError> {
        let catalog = self.catalog_of(caller);
        let inside = path.map_or_else(|| id.to_string(), |path| format!("{id}/{path}"));
        if let Some(row) = catalog.skill(tier.as_str())
            && row.corruption().is_none()
            && let Some(file) = self.file(row, &inside).await?
        {
            return Ok(file);
        }
        let row = catalog.readable_skill(Some(tier), id.as_str())?;
        let file = self.file(row, path.unwrap_or(ROOT_PATH)).await?;
        file.ok_or(RegistryError::NotFound { kind: Kind::Skill, id: inside })
    }

    /// A file of a bundle, if there is one at that path. In a URI it may be percent-encoded.
    async fn file(
        &self,
        row: &SkillRow,
        path: &str,
    ) -> Result<Option<(&'static str, Bytes)>, RegistryError> {
        let meta = &row.readable()?.meta;
        let at = |path: &str| meta.file(path).map(|file| (media_type(path), file.digest));
        let found = at(path).or_else(|| at(&percent_decoded(path)?));
        let Some((mime_type, digest)) = found else { return Ok(None) };
        let bytes = self.blob(row, digest).await?.ok_or_else(|| row.damaged(NO_BODY))?;
        Ok(Some((mime_type, bytes)))
    }

    async fn body(&self, caller: &Caller, id: &SkillId) -> Result<Bytes, RegistryError> {
        let key = EntryKey { kind: Kind::Skill, layer: Layer::Official, id: id.to_shared() };
        if self.catalog_of(caller).skill(id.as_str()).is_none() {
            self.look_for(&key).await?;
        }
        if let Ok(body) = self.known_body(caller, id).await? {
            return Ok(body);
        }
        // Somebody may have replaced it a moment ago, in a store that others write to.
        self.look_again(&key).await?;
        self.known_body(caller, id).await?.map_err(|row| row.damaged(NO_BODY))
    }

    /// The body of the skill that answers to an id, or the skill whose body is not there.
    async fn known_body(
        &self,
        caller: &Caller,
        id: &SkillId,
    ) -> Result<Result<Bytes, Arc<SkillRow>>, RegistryError> {
        let catalog = self.catalog_of(caller);
        let row = catalog.readable_skill(None, id.as_str())?;
        let body = match row.meta.root() {
            Some(root) => self.blob(row, root.digest).await?,
            None => None,
        };
        Ok(body.ok_or_else(|| Arc::clone(row)))
    }

    /// Bytes that an entry names. That they are damaged is said of the entry.
    async fn blob(&self, row: &SkillRow, digest: Digest) -> Result<Option<Bytes>, RegistryError> {
        self.blobs().get(digest).await.map_err(|error| match error {
            RegistryError::Store(error) if matches!(&*error, StoreError::Corrupt { .. }) => {
                row.damaged(&error.to_string())
            }
            error => error,
        })
    }

    /// Looks for an entry that the catalog does not have, if the store may have more than it told.
    pub(crate) async fn look_for(&self, key: &EntryKey) -> Result<(), RegistryError> {
        if self.store().is_complete() { Ok(()) } else { self.look_again(key).await }
    }

    /// The same where a live client has something, which may be asked for again and again.
    pub(crate) async fn look_before_live(&self, key: EntryKey) -> Result<(), RegistryError> {
        if self.store().is_complete() || self.looked().is_recent(&key) {
            return Ok(());
        }
        self.look_again(&key).await?;
        self.looked().note(key);
        Ok(())
    }

    async fn look_again(&self, key: &EntryKey) -> Result<(), RegistryError> {
        let (store, key) = (Arc::clone(self.store()), key.clone());
        self.foreign(Box::new(move |now| store.lookup(&key, now).into())).await.map(drop)
    }

    /// Renders a prompt that everyone sees.
    ///
    /// # Errors
    /// See [`render_prompt_as`](Self::render_prompt_as).
    pub async fn render_prompt(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        self.render_prompt_as(&Caller::Anonymous, name, arguments).await
    }

    /// Renders a prompt with the caller's arguments; `null` stands for none.
    ///
    /// # Errors
    /// When the caller sees no such prompt, or its handler gives no result that is a prompt.
    pub async fn render_prompt_as(
        &self,
        caller: &Caller,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        let name: PromptName = name.parse()?;
        let key = || EntryKey { kind: Kind::Prompt, layer: Layer::Official, id: name.to_shared() };
        match self.catalog_of(caller).prompt(name.as_str()) {
            None => self.look_for(&key()).await?,
            // What is stored comes first, also if it is not known yet.
            Some(row) if row.is_live() => self.look_before_live(key()).await?,
            Some(_) => {}
        }
        let catalog = self.catalog_of(caller);
        if let Some(row) = catalog.prompt(name.as_str())
            && let Some(origin) = &row.origin
        {
            return self.render_live(row, origin, arguments).await;
        }
        let missing = || RegistryError::NotFound { kind: Kind::Prompt, id: name.to_string() };
        let definition = &catalog.prompt(name.as_str()).ok_or_else(missing)?.readable()?.definition;
        let arguments = match arguments {
            Value::Null => Value::Object(Map::new()),
            given => given,
        };
        // Checked again: the entry may have been stored under other rules.
        let function: HandlerId = definition.function_id.parse()?;
        let output = self.call(function.as_str(), &arguments).await?;
        let rendered = PromptMessages::from_output(output).map_err(|source| {
            RegistryError::Output { function_id: function.to_string(), source }
        })?;
        let description = rendered.description.unwrap_or_else(|| definition.description.clone());
        Ok(RenderedPrompt { description: Some(description), messages: rendered.messages })
    }
}

/// Lets the index be handed on as bytes without a copy.
struct IndexText(Arc<str>);

impl AsRef<[u8]> for IndexText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
