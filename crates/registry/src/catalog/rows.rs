//! Rows of listings.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use serde_json::value::RawValue;
use skills_core::{EntryKind, PromptDefinition, SkillMeta, Tier, Timestamp, uri::SCHEME};
use skills_store::VersionHeads;

use crate::{
    ReadVersion, RegistryError, VersionImport,
    live::{LIVE_PROMPT_FUNCTION, LiveOrigin},
};

/// JSON texts that surfaces may cache with a row.
const JSON_SLOTS: usize = 2;

/// Description of a corrupt entry in listings.
const CORRUPT: &str = "This entry is corrupt and cannot be read.";

/// Row of a skill.
///
/// Snapshots share rows, and a row caches its renderings: after a change only changed rows are rendered again.
#[derive(Debug)]
pub struct SkillRow {
    /// Skill id.
    pub id: Arc<str>,
    /// Tier of a stored skill; meaningless for a live one, see [`stored_tier`](Self::stored_tier).
    pub tier: Tier,
    /// Metadata.
    pub meta: SkillMeta,
    /// Time of registration of this version.
    pub registered_at: Timestamp,
    /// Version numbers; `None` for a live skill and in a registry without history.
    pub heads: Option<VersionHeads>,
    /// Version that the row is of, if it is not the served one of a listing.
    pub pinned: Option<Box<ReadVersion>>,
    bytes: u64,
    is_live: bool,
    corrupt: Option<Box<str>>,
    index_line: OnceLock<Box<str>>,
    json: [OnceLock<Box<RawValue>>; JSON_SLOTS],
}

impl SkillRow {
    pub(super) fn new(
        id: Arc<str>,
        tier: Tier,
        meta: SkillMeta,
        bytes: u64,
        registered_at: Timestamp,
    ) -> Self {
        Self {
            id,
            tier,
            meta,
            registered_at,
            heads: None,
            pinned: None,
            bytes,
            is_live: false,
            corrupt: None,
            index_line: OnceLock::new(),
            json: Default::default(),
        }
    }

    /// Returns the row with other version numbers. Renderings that are cached with the row do not have them.
    pub(super) fn with_heads(&self, heads: &VersionHeads) -> Self {
        let id = Arc::clone(&self.id);
        let row = Self::new(id, self.tier, self.meta.clone(), self.bytes, self.registered_at);
        Self { heads: Some(heads.clone()), corrupt: self.corrupt.clone(), ..row }
    }

    /// Creates the row of one version, which no listing has.
    #[must_use]
    pub fn of_version(
        id: Arc<str>,
        tier: Tier,
        meta: SkillMeta,
        registered_at: Timestamp,
        pinned: ReadVersion,
    ) -> Self {
        let bytes = meta.root().map_or(0, |root| root.size);
        let pinned = Some(Box::new(pinned));
        Self { pinned, ..Self::new(id, tier, meta, bytes, registered_at) }
    }

    /// Returns the version that the content of the row is of, where it is known.
    #[must_use]
    pub fn version(&self) -> Option<ReadVersion> {
        let served = |heads: &VersionHeads| ReadVersion::new(heads.served, None);
        let pinned = self.pinned.as_deref().cloned();
        let version = pinned.or_else(|| self.heads.as_ref().map(served))?;
        Some(ReadVersion { imported: self.imported().map(Box::new), ..version })
    }

    /// Returns the import that the content of the row came from, if every reader may see it.
    #[must_use]
    pub fn imported(&self) -> Option<VersionImport> {
        let source = self.meta.provenance.as_deref().filter(|source| source.is_public())?;
        let (digest, registered_at) = (self.meta.digest(), self.registered_at.to_string());
        Some(VersionImport { source: source.clone(), digest, registered_at })
    }

    /// Creates the row of a live client. It has no tier, and resolves like one after the last tier.
    pub(super) fn live(id: Arc<str>, meta: SkillMeta, since: Timestamp) -> Self {
        Self { is_live: true, ..Self::new(id, Tier::Market, meta, 0, since) }
    }

    /// Returns whether models may invoke the skill. One that they may not can still be read by name.
    #[must_use]
    pub fn is_model_invocable(&self) -> bool {
        self.meta.agent.as_ref().is_none_or(|agent| agent.model_invocable)
    }

    /// Returns the client and path of a live skill.
    #[must_use]
    pub fn origin(&self) -> Option<(&str, &str)> {
        // The id of a live skill is the id of its client and the path.
        self.is_live.then(|| self.id.split_at(self.id.find('/').unwrap_or(self.id.len())))
    }

    /// Returns whether a live client has the skill.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.is_live
    }

    /// Returns the tier of a stored skill.
    #[must_use]
    pub fn stored_tier(&self) -> Option<Tier> {
        (!self.is_live).then_some(self.tier)
    }

    pub(super) fn corrupt(id: Arc<str>, tier: Tier, reason: &str, at: Timestamp) -> Self {
        let first_paragraph = Some(CORRUPT.to_owned());
        let meta = SkillMeta { first_paragraph, ..SkillMeta::default() };
        Self { corrupt: Some(reason.into()), ..Self::new(id, tier, meta, 0, at) }
    }

    /// Returns the row unless it is corrupt.
    ///
    /// # Errors
    /// When the stored entry cannot be read.
    pub fn readable(&self) -> Result<&Self, RegistryError> {
        match &self.corrupt {
            Some(reason) => Err(self.corrupt_error(reason)),
            None => Ok(self),
        }
    }

    /// Returns the reason why the entry is corrupt.
    #[must_use]
    pub fn corruption(&self) -> Option<&str> {
        self.corrupt.as_deref()
    }

    /// Returns the error for a part of this entry that cannot be read.
    pub(crate) fn corrupt_error(&self, reason: &str) -> RegistryError {
        RegistryError::CorruptEntry {
            kind: EntryKind::Skill,
            tier: self.tier,
            id: self.id.to_string(),
            reason: reason.to_owned(),
        }
    }

    /// Returns the JSON that `render` makes of this row, from a cache. Each kind of text has a slot of its own.
    ///
    /// # Errors
    /// Those of `render`.
    pub fn cached_json<E>(
        &self,
        slot: usize,
        render: impl FnOnce(&Self) -> Result<Box<RawValue>, E>,
    ) -> Result<&RawValue, E> {
        let slot = &self.json[slot % JSON_SLOTS];
        if let Some(cached) = slot.get() {
            return Ok(cached);
        }
        let rendered = render(self)?;
        Ok(slot.get_or_init(|| rendered))
    }

    /// Returns the line of this skill in the index.
    pub(crate) fn index_line(&self) -> &str {
        self.index_line.get_or_init(|| {
            // A bracket in a title would end the link text early.
            let title = self.title().replace(['[', ']'], "");
            let mut line = format!("- [{title}]({SCHEME}{})", self.id);
            if let Some(description) = self.meta.short_description() {
                line.push_str(": ");
                line.push_str(&description);
            }
            if let Some((client, _)) = self.origin() {
                line.push_str(&format!(" (live: {client})"));
            }
            line.push('\n');
            line.into()
        })
    }

    /// Returns the size of the root document in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the title, or the id.
    #[must_use]
    pub fn title(&self) -> &str {
        self.meta.title().unwrap_or(&self.id)
    }

    /// Returns the description in full.
    #[must_use]
    pub fn description(&self) -> Option<Cow<'_, str>> {
        self.meta.description()
    }
}

/// Row of a prompt.
#[derive(Debug, PartialEq, Eq)]
pub struct PromptRow {
    /// Prompt name.
    pub name: Arc<str>,
    /// Tier of a stored prompt.
    pub tier: Tier,
    /// Definition.
    pub definition: PromptDefinition,
    /// Time of registration of this version.
    pub registered_at: Timestamp,
    /// Version numbers; `None` for a live prompt and in a registry without history.
    pub heads: Option<VersionHeads>,
    /// Client and path of a live prompt.
    pub origin: Option<Box<LiveOrigin>>,
    corrupt: Option<Box<str>>,
}

impl PromptRow {
    pub(super) const fn new(
        name: Arc<str>,
        tier: Tier,
        definition: PromptDefinition,
        registered_at: Timestamp,
    ) -> Self {
        Self { name, tier, definition, registered_at, heads: None, origin: None, corrupt: None }
    }

    /// Returns the row with other version numbers.
    pub(super) fn with_heads(&self, heads: &VersionHeads) -> Self {
        let (name, definition) = (Arc::clone(&self.name), self.definition.clone());
        let row = Self::new(name, self.tier, definition, self.registered_at);
        Self { heads: Some(heads.clone()), corrupt: self.corrupt.clone(), ..row }
    }

    /// Creates the row of a live client. It has no tier, and resolves like one after the last tier.
    pub(super) fn live(
        name: Arc<str>,
        definition: PromptDefinition,
        since: Timestamp,
        origin: LiveOrigin,
    ) -> Self {
        let row = Self::new(name, Tier::Market, definition, since);
        Self { origin: Some(Box::new(origin)), ..row }
    }

    /// Returns whether a live client has the prompt. The listing of a remote registry tells it by the handler alone.
    #[must_use]
    pub fn is_live(&self) -> bool {
        // Stored prompts may not name this function, which is reserved.
        self.origin.is_some() || self.definition.function_id == LIVE_PROMPT_FUNCTION
    }

    pub(super) fn corrupt(name: Arc<str>, tier: Tier, reason: &str, at: Timestamp) -> Self {
        let definition = PromptDefinition {
            description: CORRUPT.to_owned(),
            arguments: vec![],
            function_id: String::new(),
        };
        Self { corrupt: Some(reason.into()), ..Self::new(name, tier, definition, at) }
    }

    /// Returns the row unless it is corrupt.
    ///
    /// # Errors
    /// When the stored entry cannot be read.
    pub fn readable(&self) -> Result<&Self, RegistryError> {
        match &self.corrupt {
            Some(reason) => Err(RegistryError::CorruptEntry {
                kind: EntryKind::Prompt,
                tier: self.tier,
                id: self.name.to_string(),
                reason: reason.to_string(),
            }),
            None => Ok(self),
        }
    }
}
