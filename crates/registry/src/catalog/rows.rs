//! What a listing shows of an entry.

use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;
use skills_core::{Kind, PromptDefinition, SkillMeta, Tier, Timestamp, uri::SCHEME};

use crate::{
    RegistryError,
    live::{Origin, RENDERED_BY},
};

/// How many JSON texts may be kept with a row.
const KEPT: usize = 2;

/// What a listing says of an entry that cannot be read.
const CORRUPT: &str = "This entry is corrupt and cannot be read.";

/// A skill as a listing shows it.
///
/// Rows are shared between snapshots, so what has been made of one is kept with it: after a change only
/// the rows that changed are rendered again.
#[derive(Debug)]
pub struct SkillRow {
    /// Its id.
    pub id: Arc<str>,
    /// Where it is stored; of a live one it says nothing, see [`stored_in`](Self::stored_in).
    pub tier: Tier,
    /// What is known of it.
    pub meta: SkillMeta,
    /// When this version was registered.
    pub registered_at: Timestamp,
    bytes: u64,
    is_live: bool,
    corrupt: Option<Box<str>>,
    index_line: OnceLock<Box<str>>,
    search_text: OnceLock<Box<str>>,
    kept: [OnceLock<Box<RawValue>>; KEPT],
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
            bytes,
            is_live: false,
            corrupt: None,
            index_line: OnceLock::new(),
            search_text: OnceLock::new(),
            kept: Default::default(),
        }
    }

    /// One that a live client has. It is in no tier; it is resolved as if in one after the last.
    pub(super) fn live(id: Arc<str>, meta: SkillMeta, since: Timestamp) -> Self {
        Self { is_live: true, ..Self::new(id, Tier::Market, meta, 0, since) }
    }

    /// The client that has it and where, if it is not stored.
    #[must_use]
    pub fn origin(&self) -> Option<(&str, &str)> {
        // The id of a live one is that of its client and the path.
        self.is_live.then(|| self.id.split_at(self.id.find('/').unwrap_or(self.id.len())))
    }

    /// Whether a live client has it, and not the store.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.is_live
    }

    /// The tier that has it, if it is stored.
    #[must_use]
    pub fn stored_in(&self) -> Option<Tier> {
        (!self.is_live).then_some(self.tier)
    }

    pub(super) fn corrupt(id: Arc<str>, tier: Tier, reason: &str, at: Timestamp) -> Self {
        let description = Some(CORRUPT.to_owned());
        let meta = SkillMeta { title: None, description, files: vec![], agent: None, tool: None };
        Self { corrupt: Some(reason.into()), ..Self::new(id, tier, meta, 0, at) }
    }

    /// The row, unless what is stored of it cannot be read.
    ///
    /// # Errors
    /// What is wrong with it, and where it is.
    pub fn readable(&self) -> Result<&Self, RegistryError> {
        match &self.corrupt {
            Some(reason) => Err(self.damaged(reason)),
            None => Ok(self),
        }
    }

    /// What is wrong with an entry that cannot be read.
    #[must_use]
    pub fn corruption(&self) -> Option<&str> {
        self.corrupt.as_deref()
    }

    /// The error for something that this entry names and that cannot be read.
    pub(crate) fn damaged(&self, reason: &str) -> RegistryError {
        RegistryError::CorruptEntry {
            kind: Kind::Skill,
            tier: self.tier,
            id: self.id.to_string(),
            reason: reason.to_owned(),
        }
    }

    /// What a surface has made of this row, which is made once. Each kind of text has a slot of its own.
    ///
    /// # Errors
    /// What `render` says.
    pub fn keep<E>(
        &self,
        slot: usize,
        render: impl FnOnce(&Self) -> Result<Box<RawValue>, E>,
    ) -> Result<&RawValue, E> {
        let slot = &self.kept[slot % KEPT];
        if let Some(kept) = slot.get() {
            return Ok(kept);
        }
        let rendered = render(self)?;
        Ok(slot.get_or_init(|| rendered))
    }

    /// The line of this skill in the index.
    pub(super) fn index_line(&self) -> &str {
        self.index_line.get_or_init(|| {
            // A bracket in a title would end the link's text early.
            let title = self.title().replace(['[', ']'], "");
            let mut line = format!("- [{title}]({SCHEME}{})", self.id);
            if let Some(description) = &self.meta.description {
                line.push_str(": ");
                line.push_str(description);
            }
            if let Some((client, _)) = self.origin() {
                line.push_str(&format!(" (live: {client})"));
            }
            line.push('\n');
            line.into()
        })
    }

    /// Id, title and description, a line each, in lower case.
    pub(crate) fn search_text(&self) -> &str {
        self.search_text.get_or_init(|| {
            let description = self.meta.description.as_deref().unwrap_or_default();
            format!("{}\n{}\n{description}", self.id, self.title()).to_lowercase().into()
        })
    }

    /// Size of the root document in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What a person calls it.
    #[must_use]
    pub fn title(&self) -> &str {
        self.meta.title.as_deref().unwrap_or(&self.id)
    }
}

/// A prompt as a listing shows it.
#[derive(Debug, PartialEq, Eq)]
pub struct PromptRow {
    /// Its name.
    pub name: Arc<str>,
    /// Where it is stored.
    pub tier: Tier,
    /// The whole definition.
    pub definition: PromptDefinition,
    /// When this version was registered.
    pub registered_at: Timestamp,
    /// The client that has it and where, if it is not stored.
    pub origin: Option<Box<Origin>>,
    corrupt: Option<Box<str>>,
}

impl PromptRow {
    pub(super) const fn new(
        name: Arc<str>,
        tier: Tier,
        definition: PromptDefinition,
        registered_at: Timestamp,
    ) -> Self {
        Self { name, tier, definition, registered_at, origin: None, corrupt: None }
    }

    /// One that a live client has. It is in no tier; it is resolved as if in one after the last.
    pub(super) fn live(
        name: Arc<str>,
        definition: PromptDefinition,
        since: Timestamp,
        origin: Origin,
    ) -> Self {
        let row = Self::new(name, Tier::Market, definition, since);
        Self { origin: Some(Box::new(origin)), ..row }
    }

    /// Whether a live client has it, and not the store. A listing of another registry tells no more than that.
    #[must_use]
    pub fn is_live(&self) -> bool {
        // No stored one may name this function, which is reserved.
        self.origin.is_some() || self.definition.function_id == RENDERED_BY
    }

    pub(super) fn corrupt(name: Arc<str>, tier: Tier, reason: &str, at: Timestamp) -> Self {
        let definition = PromptDefinition {
            description: CORRUPT.to_owned(),
            arguments: vec![],
            function_id: String::new(),
        };
        Self { corrupt: Some(reason.into()), ..Self::new(name, tier, definition, at) }
    }

    /// The row, unless what is stored of it cannot be read.
    ///
    /// # Errors
    /// What is wrong with it, and where it is.
    pub fn readable(&self) -> Result<&Self, RegistryError> {
        match &self.corrupt {
            Some(reason) => Err(RegistryError::CorruptEntry {
                kind: Kind::Prompt,
                tier: self.tier,
                id: self.name.to_string(),
                reason: reason.to_string(),
            }),
            None => Ok(self),
        }
    }
}
