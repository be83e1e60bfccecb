//! Writing: what is checked before it is queued. Every write is queued when it is called, not when its result
//! is awaited, so that writes keep the order of the calls. Who may write to which layer is decided by who calls.

use std::sync::Arc;

use bytes::Bytes;
use skills_core::{
    Bundle, EntryKey, Kind, Layer, PromptDefinition, PromptName, RuleError, SkillId, Tier,
    Timestamp, ToolMeta,
    limits::MAX_SKILL_BYTES,
    manifest::{Format, Parsed, readable},
    tool::ToolSource,
};
use skills_store::{Batch, Effect, EntryContent, Mutation};

use crate::{Registry, RegistryError, writer::WriteError};

/// A skill that can be called: its readable document, and the manifest that says how.
#[derive(Debug, Clone)]
pub struct Tool {
    /// The root document.
    pub body: String,
    /// The text of the manifest, as it was given.
    pub source: String,
    /// What the manifest says. Its `source` is made anew of the text; only the media type is taken.
    pub meta: ToolMeta,
}

impl Tool {
    /// The tool of a manifest that was read, with a readable document where it brings none.
    ///
    /// # Errors
    /// When it is too large.
    pub fn of_manifest(id: &SkillId, parsed: &Parsed, source: String) -> Result<Self, RuleError> {
        let Parsed { spec, format, .. } = parsed;
        let media_type = match format {
            Format::Json => "application/json",
            Format::Markdown => "text/markdown",
        };
        let meta = ToolMeta {
            source: ToolSource::of(&source, media_type)?,
            name: Some(spec.title().to_owned()),
            emoji: spec.emoji.clone(),
            tags: spec.tags.clone(),
            description: Some(spec.description.clone()).filter(|text| !text.is_empty()),
            parameters: spec.input_schema(),
            credits_per_call: spec.credits_per_call.clone(),
        };
        let fits = |body: &&str| !body.trim().is_empty() && body.len() <= MAX_SKILL_BYTES;
        let own = spec.docs.as_ref().map(|docs| docs.full_md.as_str()).filter(fits);
        let body = own.map_or_else(|| readable(spec, id), str::to_owned);
        Ok(Self { body, source, meta })
    }
}

impl Registry {
    /// Registers an official skill of one Markdown document.
    pub fn register_skill(
        &self,
        actor: &str,
        id: &str,
        body: String,
    ) -> impl Future<Output = Result<Timestamp, RegistryError>> + Send + use<> {
        self.register_skill_in(actor, &Layer::Official, id, body)
    }

    /// Registers a skill of one Markdown document in a layer.
    pub fn register_skill_in(
        &self,
        actor: &str,
        layer: &Layer,
        id: &str,
        body: String,
    ) -> impl Future<Output = Result<Timestamp, RegistryError>> + Send + use<> {
        let bundle = Bundle::new(body, vec![]);
        let write = bundle.map(|bundle| self.register_bundle_in(actor, layer, id, bundle));
        async move { write?.await }
    }

    /// Registers an official skill of several files, which are stored together or not at all.
    pub fn register_bundle(
        &self,
        actor: &str,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> impl Future<Output = Result<Timestamp, RegistryError>> + Send + use<> {
        self.register_bundle_in(actor, &Layer::Official, id, bundle)
    }

    /// Registers a skill of several files in a layer, which are stored together or not at all.
    pub fn register_bundle_in(
        &self,
        actor: &str,
        layer: &Layer,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> impl Future<Output = Result<Timestamp, RegistryError>> + Send + use<> {
        let write = self.skill_id(layer, id).map(|id| {
            let (meta, root, files) = bundle.into_parts();
            let files = files.into_iter().map(|(_, bytes)| bytes);
            let bytes = std::iter::once(Bytes::from(root)).chain(files);
            let blobs = meta.files.iter().map(|file| file.digest).zip(bytes).collect();
            let content = EntryContent::Skill(meta);
            self.put(
                actor,
                Mutation::Put { layer: layer.clone(), id: id.to_shared(), content, blobs },
            )
        });
        async move { write?.await }
    }

    /// Registers a tool in a layer: its document and its manifest are stored together or not at all.
    pub fn register_tool_in(
        &self,
        actor: &str,
        layer: &Layer,
        id: &str,
        tool: Tool,
    ) -> impl Future<Output = Result<Timestamp, RegistryError>> + Send + use<> {
        let id = self.skill_id(layer, id);
        let write = id.and_then(|id| put_tool(layer, &id, tool)).map(|put| self.put(actor, put));
        async move { write?.await }
    }

    /// Whether a tool may be registered in a layer, for those who store something else before it.
    ///
    /// # Errors
    /// What registering it would be refused with, whatever the store says.
    pub fn check_tool_in(&self, layer: &Layer, id: &str, tool: &Tool) -> Result<(), RegistryError> {
        let id = self.skill_id(layer, id)?;
        put_tool(layer, &id, tool.clone())?;
        Ok(())
    }

    /// The id, if a skill in that layer may have it. A skill's files stand before what a tier has at the same
    /// address, so one of a tier's name could pass for what a user has in private.
    fn skill_id(&self, layer: &Layer, id: &str) -> Result<SkillId, RuleError> {
        let parsed: SkillId = id.parse()?;
        layer.writable()?;
        let catalog = self.catalog();
        let mut names = catalog.prefix().names_of(id);
        if *layer == Layer::Market && names.any(|name| name.parse::<Tier>().is_ok()) {
            return Err(RuleError::TierName(id.to_owned()));
        }
        Ok(parsed)
    }

    /// Registers an official prompt.
    pub fn register_prompt(
        &self,
        actor: &str,
        name: &str,
        definition: PromptDefinition,
    ) -> impl Future<Output = Result<Timestamp, RegistryError>> + Send + use<> {
        self.register_prompt_in(actor, &Layer::Official, name, definition)
    }

    /// Registers a prompt in a layer.
    pub fn register_prompt_in(
        &self,
        actor: &str,
        layer: &Layer,
        name: &str,
        definition: PromptDefinition,
    ) -> impl Future<Output = Result<Timestamp, RegistryError>> + Send + use<> {
        let check = || -> Result<Mutation, RuleError> {
            let name: PromptName = name.parse()?;
            layer.writable()?;
            let content = EntryContent::Prompt(definition.checked()?);
            let id = name.to_shared();
            Ok(Mutation::Put { layer: layer.clone(), id, content, blobs: vec![] })
        };
        let write = check().map(|put| self.put(actor, put));
        async move { write?.await }
    }

    fn put(
        &self,
        actor: &str,
        put: Mutation,
    ) -> impl Future<Output = Result<Timestamp, RegistryError>> + Send + use<> {
        let write = self.write(actor, put);
        async move {
            match write.await? {
                Effect::Changed(change) => Ok(change.at),
                Effect::Nothing | Effect::State(_) => Err(RegistryError::Unexpected("a put")),
            }
        }
    }

    /// Removes an official skill and tells whether there was one.
    pub fn remove_skill(
        &self,
        actor: &str,
        id: &str,
    ) -> impl Future<Output = Result<bool, RegistryError>> + Send + use<> {
        self.remove_skill_in(actor, &Layer::Official, id)
    }

    /// Removes a skill from a layer and tells whether there was one.
    pub fn remove_skill_in(
        &self,
        actor: &str,
        layer: &Layer,
        id: &str,
    ) -> impl Future<Output = Result<bool, RegistryError>> + Send + use<> {
        let id = id.parse::<SkillId>().map(|id| id.to_shared());
        let write = id.map(|id| self.remove(actor, layer, Kind::Skill, id));
        async move { write?.await }
    }

    /// Removes an official prompt and tells whether there was one.
    pub fn remove_prompt(
        &self,
        actor: &str,
        name: &str,
    ) -> impl Future<Output = Result<bool, RegistryError>> + Send + use<> {
        self.remove_prompt_in(actor, &Layer::Official, name)
    }

    /// Removes a prompt from a layer and tells whether there was one.
    pub fn remove_prompt_in(
        &self,
        actor: &str,
        layer: &Layer,
        name: &str,
    ) -> impl Future<Output = Result<bool, RegistryError>> + Send + use<> {
        let name = name.parse::<PromptName>().map(|name| name.to_shared());
        let write = name.map(|name| self.remove(actor, layer, Kind::Prompt, name));
        async move { write?.await }
    }

    fn remove(
        &self,
        actor: &str,
        layer: &Layer,
        kind: Kind,
        id: Arc<str>,
    ) -> impl Future<Output = Result<bool, RegistryError>> + Send + use<> {
        let key = EntryKey { kind, layer: layer.clone(), id };
        let write = self.write(actor, Mutation::Remove(key));
        async move { Ok(matches!(write.await?, Effect::Changed(_))) }
    }

    fn write(
        &self,
        actor: &str,
        mutation: Mutation,
    ) -> impl Future<Output = Result<Effect, RegistryError>> + Send + use<> {
        let write = self.submit(Batch { actor: actor.into(), mutations: vec![mutation] });
        async move {
            match write.await {
                Ok(mut effects) => effects.pop().ok_or(RegistryError::Unexpected("a batch")),
                Err(WriteError::Registry(error)) => Err(error),
                Err(WriteError::Batch(error)) => Err(error.into()),
            }
        }
    }
}

fn put_tool(layer: &Layer, id: &SkillId, tool: Tool) -> Result<Mutation, RuleError> {
    let Tool { body, source, mut meta } = tool;
    meta.source = ToolSource::of(&source, &meta.source.media_type)?;
    let manifest = (meta.source.digest, Bytes::from(source));
    let (mut skill, root, _) = Bundle::<Bytes>::new(body, vec![])?.into_parts();
    let root = skill.files.iter().map(|file| file.digest).zip([Bytes::from(root)]);
    let blobs = root.chain([manifest]).collect();
    skill.tool = Some(Box::new(meta.checked()?));
    let content = EntryContent::Skill(skill);
    Ok(Mutation::Put { layer: layer.clone(), id: id.to_shared(), content, blobs })
}
