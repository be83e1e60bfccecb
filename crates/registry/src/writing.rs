//! Writes: the checks before a batch is queued. The caller decides whether a client may write to a layer.

use std::sync::Arc;

use bytes::Bytes;
use skills_agent_skills::Bundle;
use skills_core::{
    EntryKey, EntryKind, Label, Layer, PromptDefinition, PromptName, RuleError, SkillId, SkillMeta,
    Tier, Timestamp, ToolMeta, VersionSelector, limits::MAX_SKILL_BYTES, tool::ManifestSource,
};
use skills_manifest::{ManifestFormat, ParsedManifest, tool_document};
use skills_store::{
    Action, Change, Effect, EntryContent, Mutation, PublishOptions, VersionMutation,
};

use crate::{
    BundlePublication, PendingWrite, PublishRequest, Published, Registry, RegistryError,
    writer::BatchResult,
};

/// A skill that can be called: its document and its manifest.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Root document.
    pub body: String,
    /// Text of the manifest, unchanged.
    pub source: String,
    /// Metadata of the manifest. Of its `source` only the media type is used; the rest is computed from the text.
    pub meta: ToolMeta,
}

impl Tool {
    /// Builds the tool of a parsed manifest. Generates a document if the manifest has none.
    ///
    /// # Errors
    /// When the manifest is too large.
    pub fn from_manifest(
        id: &SkillId,
        parsed: &ParsedManifest,
        source: String,
    ) -> Result<Self, RuleError> {
        let ParsedManifest { spec, format, .. } = parsed;
        let media_type = match format {
            ManifestFormat::Json => "application/json",
            ManifestFormat::Markdown => "text/markdown",
        };
        let meta = ToolMeta {
            source: ManifestSource::new(&source, media_type)?,
            name: Some(spec.title().to_owned()),
            emoji: spec.emoji.clone(),
            tags: spec.tags.clone(),
            description: Some(spec.description.clone()).filter(|text| !text.is_empty()),
            parameters: spec.input_schema(),
            credits_per_call: spec.credits_per_call.clone(),
        };
        let fits = |body: &&str| !body.trim().is_empty() && body.len() <= MAX_SKILL_BYTES;
        let own = spec.docs.as_ref().map(|docs| docs.full_md.as_str()).filter(fits);
        let body = own.map_or_else(|| tool_document(spec, id), str::to_owned);
        Ok(Self { body, source, meta })
    }
}

/// Skill that a text of the key space stands for.
#[derive(Debug, Clone)]
pub enum ManifestSkill {
    /// Manifest.
    Tool(Box<Tool>),
    /// Markdown without an endpoint: there is nothing to call.
    Document(String),
}

impl ManifestSkill {
    /// Builds the skill of a parsed text.
    ///
    /// # Errors
    /// When the manifest is too large.
    pub fn new(id: &SkillId, parsed: &ParsedManifest, source: String) -> Result<Self, RuleError> {
        let is_markdown = matches!(parsed.format, ManifestFormat::Markdown);
        if is_markdown && parsed.spec.endpoint().is_none() {
            return Ok(Self::Document(source));
        }
        Tool::from_manifest(id, parsed, source).map(|tool| Self::Tool(Box::new(tool)))
    }

    fn into_mutation(self, layer: &Layer, id: &SkillId) -> Result<Mutation, RuleError> {
        let options = PublishOptions::default();
        match self {
            Self::Tool(tool) => put_tool(layer, id, *tool, options),
            Self::Document(body) => Ok(put_bundle(layer, id, Bundle::new(body, vec![])?, options)),
        }
    }
}

impl Registry {
    /// Registers a skill of one Markdown document.
    pub fn register_skill(
        &self,
        actor: &str,
        layer: &Layer,
        id: &str,
        body: String,
    ) -> PendingWrite<Timestamp> {
        match Bundle::new(body, vec![]) {
            Ok(bundle) => self.register_bundle(actor, layer, id, bundle),
            Err(error) => PendingWrite::reject(error),
        }
    }

    /// Registers a skill of several files, which are stored together or not at all.
    pub fn register_bundle(
        &self,
        actor: &str,
        layer: &Layer,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> PendingWrite<Timestamp> {
        let put = self.put_bundle(layer, id, bundle, PublishRequest::default());
        self.submit_checked(actor, put, to_timestamp)
    }

    /// Registers a skill of several files with a message, under a condition on its newest version.
    pub fn publish_bundle(
        &self,
        actor: &str,
        layer: &Layer,
        id: &str,
        bundle: Bundle<Bytes>,
        request: PublishRequest,
    ) -> PendingWrite<Published> {
        let put = self.put_bundle(layer, id, bundle, request);
        self.submit_checked(actor, put, to_published)
    }

    /// Registers many skills in one commit of the store: readers and the change log have all of them or none. A skill that
    /// is refused does not affect the others. The results have the order of the publications.
    pub fn publish_bundles(
        &self,
        actor: &str,
        layer: &Layer,
        publications: Vec<BundlePublication>,
    ) -> PendingWrite<Vec<Result<Published, RegistryError>>> {
        let (mut batches, mut refused) = (Vec::new(), Vec::new());
        for publication in publications {
            let BundlePublication { id, bundle, request, label } = publication;
            let batch = self.put_bundle(layer, &id, bundle, request).map(|mut batch| {
                let key = EntryKey { kind: EntryKind::Skill, layer: layer.clone(), id: id.into() };
                batch.extend(label.map(|label| set_to_latest(key, label)));
                batch
            });
            match batch {
                Ok(batch) => {
                    batches.push(batch);
                    refused.push(None);
                }
                Err(error) => refused.push(Some(error)),
            }
        }
        let write = self.submit_together(actor, batches, to_published);
        PendingWrite::new(async move {
            let mut written = write.await?.into_iter();
            let results = refused.into_iter().map(|refused| match refused {
                Some(error) => Err(error.into()),
                None => written.next().unwrap_or(Err(RegistryError::Unexpected("a put"))),
            });
            Ok(results.collect())
        })
    }

    fn put_bundle(
        &self,
        layer: &Layer,
        id: &str,
        bundle: Bundle<Bytes>,
        request: PublishRequest,
    ) -> Result<Vec<Mutation>, RuleError> {
        let id = self.check_skill_id(layer, id)?;
        Ok(vec![put_bundle(layer, &id, bundle, request.check()?)])
    }

    /// Registers a tool: its document and its manifest are stored together or not at all.
    pub fn register_tool(
        &self,
        actor: &str,
        layer: &Layer,
        id: &str,
        tool: Tool,
    ) -> PendingWrite<Timestamp> {
        let id = self.check_skill_id(layer, id);
        let put =
            id.and_then(|id| Ok(vec![put_tool(layer, &id, tool, PublishOptions::default())?]));
        self.submit_checked(actor, put, to_timestamp)
    }

    /// Registers a tool with a message, under a condition on its newest version.
    pub fn publish_tool(
        &self,
        actor: &str,
        layer: &Layer,
        id: &str,
        tool: Tool,
        request: PublishRequest,
    ) -> PendingWrite<Published> {
        let id = self.check_skill_id(layer, id);
        let put = id.and_then(|id| Ok(vec![put_tool(layer, &id, tool, request.check()?)?]));
        self.submit_checked(actor, put, to_published)
    }

    /// Registers the skill of a manifest in a layer and removes the skill of the same id from another, as one batch.
    /// Returns whether a skill was removed.
    pub fn move_skill(
        &self,
        actor: &str,
        layer: &Layer,
        id: &str,
        skill: ManifestSkill,
        from: Option<&Layer>,
    ) -> PendingWrite<bool> {
        let batch = self.check_skill_id(layer, id).and_then(|id| {
            let mut batch = vec![skill.into_mutation(layer, &id)?];
            batch.extend(from.map(|from| remove(EntryKind::Skill, from, id.to_shared())));
            Ok(batch)
        });
        let is_move = from.is_some();
        self.submit_checked(actor, batch, move |result| Ok(to_removed(result)? && is_move))
    }

    /// Restores the skills of one id after a change that must not stay. `None` stands for a skill that did not exist.
    /// The store still has the files, since it keeps old versions.
    pub fn restore_skill(
        &self,
        actor: &str,
        id: &SkillId,
        before: Vec<(Layer, Option<SkillMeta>)>,
    ) -> PendingWrite<()> {
        let batch = before.into_iter().map(|(layer, meta)| match meta {
            Some(meta) => {
                let content = EntryContent::Skill(meta);
                let options = PublishOptions::default();
                Mutation::Put { layer, id: id.to_shared(), content, blobs: vec![], options }
            }
            None => remove(EntryKind::Skill, &layer, id.to_shared()),
        });
        self.submit(actor, batch.collect(), |result| Ok(result.map(drop)?))
    }

    /// Checks that a skill may be registered in a layer, for callers that store something else first.
    ///
    /// # Errors
    /// Every error of [`move_skill`](Self::move_skill) that does not come from the store.
    pub fn check_skill(
        &self,
        layer: &Layer,
        id: &str,
        skill: &ManifestSkill,
    ) -> Result<(), RegistryError> {
        let id = self.check_skill_id(layer, id)?;
        skill.clone().into_mutation(layer, &id)?;
        Ok(())
    }

    /// Parses the id of a skill and checks that the layer may have it. The files of a skill come before the copy that
    /// a tier has at the same URI, so a market skill with a tier's name could pass for a user's private skill.
    fn check_skill_id(&self, layer: &Layer, id: &str) -> Result<SkillId, RuleError> {
        let parsed: SkillId = id.parse()?;
        layer.check_writable()?;
        let catalog = self.catalog();
        let mut names = catalog.prefix().affected_names(id);
        if *layer == Layer::Market && names.any(|name| name.parse::<Tier>().is_ok()) {
            return Err(RuleError::TierName(id.to_owned()));
        }
        Ok(parsed)
    }

    /// Registers a prompt.
    pub fn register_prompt(
        &self,
        actor: &str,
        layer: &Layer,
        name: &str,
        definition: PromptDefinition,
    ) -> PendingWrite<Timestamp> {
        let put = put_prompt(layer, name, definition, PublishRequest::default());
        self.submit_checked(actor, put, to_timestamp)
    }

    /// Registers a prompt with a message, under a condition on its newest version.
    pub fn publish_prompt(
        &self,
        actor: &str,
        layer: &Layer,
        name: &str,
        definition: PromptDefinition,
        request: PublishRequest,
    ) -> PendingWrite<Published> {
        let put = put_prompt(layer, name, definition, request);
        self.submit_checked(actor, put, to_published)
    }

    /// Removes a skill. Returns whether it existed.
    pub fn remove_skill(&self, actor: &str, layer: &Layer, id: &str) -> PendingWrite<bool> {
        let id = id.parse::<SkillId>();
        let batch = id.map(|id| vec![remove(EntryKind::Skill, layer, id.to_shared())]);
        self.submit_checked(actor, batch, to_removed)
    }

    /// Removes a prompt. Returns whether it existed.
    pub fn remove_prompt(&self, actor: &str, layer: &Layer, name: &str) -> PendingWrite<bool> {
        let name = name.parse::<PromptName>();
        let batch = name.map(|name| vec![remove(EntryKind::Prompt, layer, name.to_shared())]);
        self.submit_checked(actor, batch, to_removed)
    }

    pub(crate) fn submit_checked<T: Send + 'static>(
        &self,
        actor: &str,
        batch: Result<Vec<Mutation>, RuleError>,
        convert: impl FnOnce(BatchResult) -> Result<T, RegistryError> + Send + 'static,
    ) -> PendingWrite<T> {
        match batch {
            Ok(mutations) => self.submit(actor, mutations, convert),
            Err(error) => PendingWrite::reject(error),
        }
    }
}

fn remove(kind: EntryKind, layer: &Layer, id: Arc<str>) -> Mutation {
    Mutation::Remove(EntryKey { kind, layer: layer.clone(), id })
}

/// Returns the time of the last change of a batch.
fn to_timestamp(result: BatchResult) -> Result<Timestamp, RegistryError> {
    match result?.pop() {
        Some(Effect::Changed(change)) => Ok(change.at),
        _ => Err(RegistryError::Unexpected("a put")),
    }
}

/// Returns the version that a batch registered, and the one that it serves afterwards.
pub(crate) fn to_published(result: BatchResult) -> Result<Published, RegistryError> {
    let effects = result?;
    let changes = || {
        effects.iter().rev().filter_map(|effect| match effect {
            Effect::Changed(change) => Some(change),
            _ => None,
        })
    };
    let put = changes().find_map(|Change { at, action, .. }| match action {
        Action::Put { version, is_new, .. } => Some((at, *version, *is_new)),
        _ => None,
    });
    let (at, version, created) = put.ok_or(RegistryError::Unexpected("a put"))?;
    let last = changes().next().and_then(|change| change.served.as_ref());
    let served = last.and_then(|served| Some(served.heads.as_ref()?.served));
    Ok(Published { registered_at: at.to_string(), version, created, served })
}

/// Returns the mutation that moves a label to the newest version.
fn set_to_latest(key: EntryKey, label: Label) -> Mutation {
    let version = Some(VersionSelector::Latest);
    let change = VersionMutation::SetLabel { label, version, expected: None };
    Mutation::Version { key, change }
}

/// Checks a prompt and returns the mutation that stores it.
fn put_prompt(
    layer: &Layer,
    name: &str,
    definition: PromptDefinition,
    request: PublishRequest,
) -> Result<Vec<Mutation>, RuleError> {
    let id = name.parse::<PromptName>()?.to_shared();
    layer.check_writable()?;
    let options = request.check()?;
    let content = EntryContent::Prompt(definition.validate()?);
    Ok(vec![Mutation::Put { layer: layer.clone(), id, content, blobs: vec![], options }])
}

/// Returns whether the last mutation of a batch changed an entry.
pub(crate) fn to_removed(result: BatchResult) -> Result<bool, RegistryError> {
    Ok(matches!(result?.last(), Some(Effect::Changed(_))))
}

/// Returns the mutation that stores a bundle.
fn put_bundle(
    layer: &Layer,
    id: &SkillId,
    bundle: Bundle<Bytes>,
    options: PublishOptions,
) -> Mutation {
    let (meta, root, files) = bundle.into_parts();
    let files = files.into_iter().map(|(_, bytes)| bytes);
    let bytes = std::iter::once(Bytes::from(root)).chain(files);
    let blobs = meta.files.iter().map(|file| file.digest).zip(bytes).collect();
    let content = EntryContent::Skill(meta);
    Mutation::Put { layer: layer.clone(), id: id.to_shared(), content, blobs, options }
}

/// Checks a tool and returns the mutation that stores it.
fn put_tool(
    layer: &Layer,
    id: &SkillId,
    tool: Tool,
    options: PublishOptions,
) -> Result<Mutation, RuleError> {
    let Tool { body, source, mut meta } = tool;
    meta.source = ManifestSource::new(&source, &meta.source.media_type)?;
    let manifest = (meta.source.digest, Bytes::from(source));
    let (mut skill, root, _) = Bundle::<Bytes>::new(body, vec![])?.into_parts();
    let root = skill.files.iter().map(|file| file.digest).zip([Bytes::from(root)]);
    let blobs = root.chain([manifest]).collect();
    skill.tool = Some(Box::new(meta.check_size()?));
    let content = EntryContent::Skill(skill);
    Ok(Mutation::Put { layer: layer.clone(), id: id.to_shared(), content, blobs, options })
}
