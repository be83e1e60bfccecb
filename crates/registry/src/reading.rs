//! Reads and renders entries for a caller.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use skills_core::{
    Caller, Digest, EntryKey, EntryKind, FileMeta, HandlerId, Layer, PromptDefinition,
    PromptMessages, PromptName, ResourceUri, SectionContent, SkillId, Tier, WorkAccount,
    content::media_type,
    output,
    skill::{ROOT_PATH, has_skill_leaf},
    uri::{parse_section, percent_decode},
    version::split_version,
    work::StopFlag,
};
use skills_store::{DatabaseError, StoreError};

use crate::{
    Catalog, Change, Document, Explanation, Registry, RegistryError, RenderedPrompt, Resource,
    SectionAccess, SkillRow, api,
    functions::without_bus_fields,
    live::LiveDocument,
    search::IndexPageRequest,
    version_lookup::{PAGE_BYTES, READ},
};

/// Reason of a corrupt entry whose blob is missing.
const NO_BODY: &str = "its body is missing from the store";

/// Memory of a change of the log: its message.
const CHANGE_BYTES: usize = 2048;

/// Returns the file of a bundle at the path of a URI, which may be percent-encoded.
fn file_at<'a>(row: &'a SkillRow, path: &str) -> Option<&'a FileMeta> {
    let meta = &row.meta;
    meta.file(path).or_else(|| meta.file(&percent_decode(path)?))
}

/// Returns the error of an entry whose blob could not be read.
fn blob_error(row: &SkillRow, error: RegistryError) -> RegistryError {
    match error {
        RegistryError::Store(error)
            if matches!(&*error, StoreError::Database(DatabaseError::Corrupt { .. })) =>
        {
            row.corrupt_error(&error.to_string())
        }
        error => error,
    }
}

impl Catalog {
    /// Returns the size of a stored file or of the index before it is read. Where a URI may mean two files, returns the
    /// size of the larger one.
    #[must_use]
    pub fn stored_size(&self, uri: &ResourceUri) -> Option<u64> {
        let size = |row: &Arc<SkillRow>, path: &str| file_at(row, path).map(|file| file.size);
        match uri {
            ResourceUri::Index => u64::try_from(self.index().len()).ok(),
            ResourceUri::Skill(id) => self.skill(id.as_str())?.meta.root().map(|file| file.size),
            ResourceUri::Path { skill, path } => size(self.skill(skill.as_str())?, path),
            ResourceUri::InTier { tier, skill, path } => {
                let path_in_tier = path_in_tier(skill, path.as_deref());
                let shadowing = self.skill(tier.as_str()).and_then(|row| size(row, &path_in_tier));
                let held = self.skill_in(*tier, skill.as_str());
                let held = held.and_then(|row| size(row, path.as_deref().unwrap_or(ROOT_PATH)));
                shadowing.max(held)
            }
            // Versions are not in the catalog.
            ResourceUri::Version { .. } => None,
        }
    }
}

/// Returns the part of a URI that follows the tier.
fn path_in_tier(id: &SkillId, path: Option<&str>) -> String {
    path.map_or_else(|| id.to_string(), |path| format!("{id}/{path}"))
}

impl Registry {
    /// Returns the current snapshot as a caller sees it.
    pub fn catalog_for(&self, caller: &Caller) -> Arc<Catalog> {
        self.catalog().view_for(caller)
    }

    /// Explains the resolution of a skill's name for a caller.
    pub fn explain(&self, caller: &Caller, name: &str) -> Explanation {
        self.catalog_for(caller).explain(caller, name)
    }

    /// Reads a URI for an anonymous caller.
    ///
    /// # Errors
    /// See [`read_as`](Self::read_as).
    pub async fn read(&self, uri: &str) -> Result<Resource, RegistryError> {
        self.read_as(&Caller::Anonymous, uri).await
    }

    /// Reads a URI for a caller on the bus, which could call the function of a section directly.
    ///
    /// # Errors
    /// When the URI is invalid, names nothing that the caller sees, or its content cannot be read.
    pub async fn read_as(&self, caller: &Caller, uri: &str) -> Result<Resource, RegistryError> {
        self.read_with(caller, uri, SectionAccess::Any).await
    }

    /// Reads a URI for a caller on another surface than the bus, under the configured rule for sections.
    ///
    /// # Errors
    /// Those of [`read_as`](Self::read_as), and when the rule refuses the section.
    pub(crate) async fn read_linked(
        &self,
        caller: &Caller,
        uri: &str,
    ) -> Result<Resource, RegistryError> {
        self.read_with(caller, uri, self.config().sections).await
    }

    /// Reads a URI for a caller under a rule for sections.
    ///
    /// # Errors
    /// Those of [`read_as`](Self::read_as), and when the rule refuses the section.
    pub async fn read_with(
        &self,
        caller: &Caller,
        uri: &str,
        sections: SectionAccess,
    ) -> Result<Resource, RegistryError> {
        if let Some(request) = IndexPageRequest::from_uri(uri) {
            return self.read_index_page(caller, uri, &request?).await;
        }
        let parsed: ResourceUri = uri.parse()?;
        if let ResourceUri::Version { tier, skill, version, path } = &parsed {
            let row = self.skill_version_as(caller, *tier, skill.as_str(), version).await?;
            return self.read_version(&row, uri, path.as_deref()).await;
        }
        let read = self.read_served(caller, uri, &parsed, sections).await;
        match (read, parsed.skill()) {
            (Err(error @ RegistryError::NotFound { .. }), Some((tier, id))) => {
                let kind = EntryKind::Skill;
                Err(self.explain_missing(caller, kind, tier, id.as_str(), error).await)
            }
            (read, _) => read,
        }
    }

    /// Reads a file of one version.
    async fn read_version(
        &self,
        row: &SkillRow,
        uri: &str,
        path: Option<&str>,
    ) -> Result<Resource, RegistryError> {
        let path = path.unwrap_or(ROOT_PATH);
        let id = || format!("{}/{path}", row.id);
        let not_found = || RegistryError::NotFound { kind: EntryKind::Skill, id: id() };
        let (mime_type, body) = self.file(row, path).await?.ok_or_else(not_found)?;
        let mime_type = if path == ROOT_PATH { output::MARKDOWN } else { mime_type };
        let (uri, mime_type) = (uri.to_owned(), mime_type.to_owned());
        Ok(Resource { uri, mime_type, body, version: row.version() })
    }

    async fn read_served(
        &self,
        caller: &Caller,
        uri: &str,
        parsed: &ResourceUri,
        sections: SectionAccess,
    ) -> Result<Resource, RegistryError> {
        if let Some(document) = self.read_live(caller, parsed).await? {
            let LiveDocument { media_type, body } = document;
            return Ok(Resource {
                uri: uri.to_owned(),
                mime_type: media_type,
                body,
                version: None,
            });
        }
        let (mime_type, body) = match parsed {
            ResourceUri::Index => {
                (output::MARKDOWN, Bytes::from_owner(IndexText(self.catalog_for(caller).index())))
            }
            ResourceUri::Skill(id) => (output::MARKDOWN, self.body(caller, id).await?),
            ResourceUri::Path { skill, path } => {
                match self.document(caller, skill, path).await? {
                    Some(document) => document,
                    // A live client that has left may have had it.
                    None if has_skill_leaf(path) => {
                        let id = format!("{skill}/{path}");
                        return Err(RegistryError::NotFound { kind: EntryKind::Skill, id });
                    }
                    None => {
                        let function = parse_section(path)?;
                        if sections == SectionAccess::Linked {
                            self.check_linked(caller, skill, &function).await?;
                        }
                        self.section(&function).await?
                    }
                }
            }
            ResourceUri::InTier { tier, skill, path } => {
                self.read_in_tier(caller, *tier, skill, path.as_deref()).await?
            }
            ResourceUri::Version { .. } => return Err(RegistryError::Unexpected("a version")),
        };
        Ok(Resource { uri: uri.to_owned(), mime_type: mime_type.to_owned(), body, version: None })
    }

    /// Returns the change log after a revision, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn change_log(&self, after: u64, limit: usize) -> Result<Vec<Change>, RegistryError> {
        let bytes = limit.saturating_mul(CHANGE_BYTES);
        self.read_store(bytes, move |store| store.changes(after, limit)).await
    }

    /// Returns the text of a tool's manifest, as it was registered.
    ///
    /// # Errors
    /// When the skill is not a tool, or the text cannot be read.
    pub async fn manifest_text(&self, row: &SkillRow) -> Result<Bytes, RegistryError> {
        let tool = row.readable()?.meta.tool.as_ref();
        let tool = tool.ok_or_else(|| RegistryError::NotATool(row.id.to_string()))?;
        let source = self.blob(row, tool.source.digest).await?;
        source.ok_or_else(|| row.corrupt_error("its manifest is missing from the store"))
    }

    /// Returns the root document of a skill.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn root_document(&self, row: &SkillRow) -> Result<Bytes, RegistryError> {
        let document = self.file(row, ROOT_PATH).await?;
        document.map(|(_, body)| body).ok_or_else(|| row.corrupt_error(NO_BODY))
    }

    /// Reads a file of a skill, given its row.
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
        // Another process may have replaced it a moment ago.
        let body = self.read_linked(caller, &api::file_uri(row, path)).await?.body;
        let digest = Digest::of(&body);
        Ok(Document { media_type, body, digest })
    }

    /// Reads a file of a skill in a pass over many skills, given its row.
    pub(crate) async fn scanned_document_as(
        &self,
        caller: &Caller,
        row: &SkillRow,
        path: &str,
        may_block: bool,
    ) -> Result<Bytes, RegistryError> {
        if let Some(file) = row.readable()?.meta.file(path) {
            let read = self.blobs().get_uncached(file.digest, may_block).await;
            if let Some(body) = read.map_err(|error| blob_error(row, error))? {
                return Ok(body);
            }
        }
        Ok(self.document_as(caller, row, path).await?.body)
    }

    async fn section(&self, function: &HandlerId) -> Result<(&'static str, Bytes), RegistryError> {
        let output = self.call(function.as_str(), &Value::Object(Map::new())).await?;
        let content = SectionContent::from_output(output);
        Ok((content.mime_type, content.text.into()))
    }

    /// Reads a file of a skill's bundle, if there is one at that path.
    async fn document(
        &self,
        caller: &Caller,
        id: &SkillId,
        path: &str,
    ) -> Result<Option<(&'static str, Bytes)>, RegistryError> {
        let catalog = self.catalog_for(caller);
        match catalog.skill(id.as_str()) {
            Some(row) => self.file(row, path).await,
            None => Ok(None),
        }
    }

    /// Reads the copy of one tier. A file at the same URI in a skill with the tier's name comes first.
    async fn read_in_tier(
        &self,
        caller: &Caller,
        tier: Tier,
        id: &SkillId,
        path: Option<&str>,
    ) -> Result<(&'static str, Bytes), RegistryError> {
        let catalog = self.catalog_for(caller);
        let path_in_tier = path_in_tier(id, path);
        if let Some(row) = catalog.skill(tier.as_str())
            && row.corruption().is_none()
            && let Some(file) = self.file(row, &path_in_tier).await?
        {
            return Ok(file);
        }
        let row = catalog.readable_skill(Some(tier), id.as_str())?;
        let file = self.file(row, path.unwrap_or(ROOT_PATH)).await?;
        file.ok_or(RegistryError::NotFound { kind: EntryKind::Skill, id: path_in_tier })
    }

    /// Reads a file of a bundle, if there is one at that path, which may be percent-encoded.
    async fn file(
        &self,
        row: &SkillRow,
        path: &str,
    ) -> Result<Option<(&'static str, Bytes)>, RegistryError> {
        let Some(file) = file_at(row.readable()?, path) else { return Ok(None) };
        let bytes = self.blob(row, file.digest).await?.ok_or_else(|| row.corrupt_error(NO_BODY))?;
        Ok(Some((media_type(&file.path), bytes)))
    }

    pub(crate) async fn body(&self, caller: &Caller, id: &SkillId) -> Result<Bytes, RegistryError> {
        let key = EntryKey { kind: EntryKind::Skill, layer: Layer::Official, id: id.to_shared() };
        if self.catalog_for(caller).skill(id.as_str()).is_none() {
            self.refresh_if_incomplete(&key).await?;
        }
        if let Ok(body) = self.find_body(caller, id).await? {
            return Ok(body);
        }
        // Another process may have replaced it a moment ago.
        self.refresh_entry(&key).await?;
        self.find_body(caller, id).await?.map_err(|row| row.corrupt_error(NO_BODY))
    }

    /// Reads the root document of a skill in the catalog. The inner error is the row of a skill whose blob is missing.
    async fn find_body(
        &self,
        caller: &Caller,
        id: &SkillId,
    ) -> Result<Result<Bytes, Arc<SkillRow>>, RegistryError> {
        let catalog = self.catalog_for(caller);
        let row = catalog.readable_skill(None, id.as_str())?;
        let body = match row.meta.root() {
            Some(root) => self.blob(row, root.digest).await?,
            None => None,
        };
        Ok(body.ok_or_else(|| Arc::clone(row)))
    }

    /// Reads a blob of an entry. A damaged blob makes the entry corrupt.
    async fn blob(&self, row: &SkillRow, digest: Digest) -> Result<Option<Bytes>, RegistryError> {
        self.blobs().get(digest).await.map_err(|error| blob_error(row, error))
    }

    /// Looks up an entry that the catalog lacks, if the store has more entries than it listed.
    pub(crate) async fn refresh_if_incomplete(&self, key: &EntryKey) -> Result<(), RegistryError> {
        if self.store().is_complete() { Ok(()) } else { self.refresh_entry(key).await }
    }

    /// Looks up an entry that would shadow a live one, with a negative cache.
    pub(crate) async fn refresh_before_live(&self, key: EntryKey) -> Result<(), RegistryError> {
        if self.store().is_complete() || self.negative_cache().contains(&key) {
            return Ok(());
        }
        self.refresh_entry(&key).await?;
        self.negative_cache().insert(key);
        Ok(())
    }

    /// Looks up an entry in the store and publishes a difference to the catalog.
    async fn refresh_entry(&self, key: &EntryKey) -> Result<(), RegistryError> {
        let (store, key) = (Arc::clone(self.store()), key.clone());
        let look_up = move |_: &StopFlag| store.lookup(&key);
        match WorkAccount::current().run(READ, PAGE_BYTES, look_up).await?? {
            Some(finish) => {
                let check = |now| finish(now).into_iter().collect();
                self.apply_external(Box::new(check)).await.map(drop)
            }
            None => Ok(()),
        }
    }

    /// Renders a prompt for an anonymous caller.
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

    /// Renders a prompt for a caller. Arguments may be `null` for none.
    ///
    /// # Errors
    /// When the caller sees no such prompt, or its handler fails or returns no prompt.
    pub async fn render_prompt_as(
        &self,
        caller: &Caller,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        let (name, version) = split_version(name)?;
        let name: PromptName = name.parse()?;
        if let Some(version) = version {
            let definition = self.prompt_version_as(caller, &name, &version).await?;
            return self.render(&definition, arguments).await;
        }
        let key =
            || EntryKey { kind: EntryKind::Prompt, layer: Layer::Official, id: name.to_shared() };
        match self.catalog_for(caller).prompt(name.as_str()) {
            None => self.refresh_if_incomplete(&key()).await?,
            // A stored prompt comes first, even if the catalog does not have it yet.
            Some(row) if row.is_live() => self.refresh_before_live(key()).await?,
            Some(_) => {}
        }
        let catalog = self.catalog_for(caller);
        if let Some(row) = catalog.prompt(name.as_str())
            && let Some(origin) = &row.origin
        {
            return self.render_live(row, origin, arguments).await;
        }
        let Some(row) = catalog.prompt(name.as_str()) else {
            let kind = EntryKind::Prompt;
            let error = RegistryError::NotFound { kind, id: name.to_string() };
            return Err(self.explain_missing(caller, kind, None, name.as_str(), error).await);
        };
        self.render(&row.readable()?.definition, arguments).await
    }

    /// Calls the function of a stored prompt.
    async fn render(
        &self,
        definition: &PromptDefinition,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        let arguments = match arguments {
            Value::Null => Value::Object(Map::new()),
            arguments => arguments,
        };
        // Checked again: the entry may have been stored under older rules.
        let function: HandlerId = definition.function_id.parse()?;
        let arguments = without_bus_fields(arguments);
        let output = self.call(function.as_str(), &arguments).await?;
        let rendered = PromptMessages::from_output(output).map_err(|source| {
            RegistryError::Output { function_id: function.to_string(), source }
        })?;
        let description = rendered.description.unwrap_or_else(|| definition.description.clone());
        Ok(RenderedPrompt { description: Some(description), messages: rendered.messages })
    }
}

/// Index text as bytes, without a copy.
struct IndexText(Arc<str>);

impl AsRef<[u8]> for IndexText {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
