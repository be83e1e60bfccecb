//! Plain data of the [`Store`](crate::Store) trait.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use skills_core::{
    Code, Digest, EntryKey, EntryKind, Layer, PromptDefinition, SkillCollection, SkillMeta,
    Timestamp,
};
use uuid::Uuid;

use crate::{
    Action, BatchError,
    versions::{PublishOptions, VersionHeads, VersionMutation},
};

/// Content of an entry, without the bytes of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryContent {
    /// A skill.
    Skill(SkillMeta),
    /// A prompt.
    Prompt(PromptDefinition),
    /// A collection of skills.
    Collection(SkillCollection),
    /// Stored data that cannot be read. Such an entry is listed, never skipped, and never written.
    Corrupt {
        /// Kind of the entry.
        kind: EntryKind,
        /// Damage.
        reason: String,
    },
}

impl EntryContent {
    /// Returns the kind of the entry.
    #[must_use]
    pub const fn kind(&self) -> EntryKind {
        match self {
            Self::Skill(_) => EntryKind::Skill,
            Self::Prompt(_) => EntryKind::Prompt,
            Self::Collection(_) => EntryKind::Collection,
            Self::Corrupt { kind, .. } => *kind,
        }
    }

    /// Returns the approximate memory size in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::Skill(skill) => {
                let files = skill.files.iter().map(|file| file.path.len() + 64);
                let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
                let agent = skill.agent.as_ref().map_or(0, |agent| agent.bytes() + 256);
                let tool = skill.tool.as_ref().map_or(0, |tool| tool.bytes() + 256);
                let provenance = skill.provenance.as_ref();
                let provenance = provenance.map_or(0, |provenance| provenance.bytes() + 128);
                let texts = text(&skill.heading)
                    + text(&skill.first_paragraph)
                    + text(&skill.frontmatter_version);
                texts + files.sum::<usize>() + agent + tool + provenance
            }
            Self::Prompt(prompt) => prompt.bytes() + 64 * prompt.arguments.len(),
            Self::Collection(collection) => collection.bytes() + 32 * collection.skills.len(),
            Self::Corrupt { reason, .. } => reason.len(),
        }
    }

    /// Returns the content digest, which is the same on every server.
    #[must_use]
    pub fn content_digest(&self) -> Digest {
        match self {
            Self::Skill(skill) => skill.content_digest(),
            other => other.digest(),
        }
    }

    /// Returns the digests of the blobs, each once.
    #[must_use]
    pub fn blob_digests(&self) -> Vec<Digest> {
        match self {
            Self::Skill(skill) => skill.blob_digests(),
            Self::Prompt(_) | Self::Collection(_) | Self::Corrupt { .. } => vec![],
        }
    }

    /// Returns the author's own version.
    #[must_use]
    pub fn author_version(&self) -> Option<&str> {
        match self {
            Self::Skill(skill) => skill.author_version(),
            Self::Prompt(_) | Self::Collection(_) | Self::Corrupt { .. } => None,
        }
    }

    /// Returns the bytes and the number of the files. A prompt is its own file.
    #[must_use]
    pub fn size(&self) -> (u64, u64) {
        match self {
            Self::Skill(skill) => (skill.total_bytes(), skill.files.len() as u64),
            Self::Prompt(prompt) => (prompt.bytes() as u64, 1),
            Self::Collection(collection) => (collection.bytes() as u64, 1),
            Self::Corrupt { .. } => (0, 0),
        }
    }

    /// Returns the digest that tells whether a registration changes the entry. Unlike the content digest, it includes
    /// executable bits.
    #[must_use]
    pub fn digest(&self) -> Digest {
        match self {
            Self::Skill(skill) => skill.digest(),
            Self::Prompt(prompt) => prompt.digest(),
            Self::Collection(collection) => collection.digest(),
            Self::Corrupt { reason, .. } => Digest::of(reason.as_bytes()),
        }
    }
}

/// Identity of a batch. A store behind a network records it, so that a batch that is sent again is not applied twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchId(Uuid);

impl BatchId {
    /// Creates an id that no other batch has.
    #[must_use]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// Returns the id as bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl Default for BatchId {
    fn default() -> Self {
        Self::new()
    }
}

/// Mutations that are committed atomically.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Identity.
    pub id: BatchId,
    /// Actor of the mutations for the change log.
    pub actor: Arc<str>,
    /// Mutations in order.
    pub mutations: Vec<Mutation>,
}

impl Batch {
    /// Creates a batch with a new id.
    #[must_use]
    pub fn new(actor: impl Into<Arc<str>>, mutations: Vec<Mutation>) -> Self {
        Self { id: BatchId::new(), actor: actor.into(), mutations }
    }
}

/// Change to an entry or to the bus state.
#[derive(Debug, Clone)]
pub enum Mutation {
    /// Create or replace an entry.
    Put {
        /// Layer of the entry.
        layer: Layer,
        /// Id or name.
        id: Arc<str>,
        /// New content.
        content: EntryContent,
        /// Bytes of the files that `content` names.
        blobs: Vec<(Digest, Bytes)>,
        /// Condition and message.
        options: PublishOptions,
    },
    /// Change labels or versions of an entry.
    Version {
        /// Key of the entry.
        key: EntryKey,
        /// The change.
        change: VersionMutation,
    },
    /// Remove an entry; removing one that is not there is no change.
    Remove(EntryKey),
    /// Set a value of the bus state.
    StateSet {
        /// Scope of the key.
        scope: String,
        /// Key in the scope.
        key: String,
        /// New value.
        value: NewValue,
    },
    /// Remove a value of the bus state.
    StateDelete {
        /// Scope of the key.
        scope: String,
        /// Key in the scope.
        key: String,
    },
}

/// Function that computes a new value from the current one.
pub type Compute = Arc<dyn Fn(Option<&str>) -> Result<String, Refusal> + Send + Sync>;

/// New value of the bus state as JSON text.
#[derive(Clone)]
pub enum NewValue {
    /// A fixed value.
    Given(String),
    /// A value computed from the current one. Read and write are one step, so no update is lost.
    Computed(Compute),
}

impl NewValue {
    /// Returns the value that replaces `current`.
    pub(crate) fn apply(&self, current: Option<&str>) -> Result<String, Refusal> {
        match self {
            Self::Given(value) => Ok(value.clone()),
            Self::Computed(compute) => compute(current),
        }
    }
}

impl fmt::Debug for NewValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(value) => f.debug_tuple("Given").field(value).finish(),
            Self::Computed(_) => f.write_str("Computed"),
        }
    }
}

/// Reason why a new value is not computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The current value is not the expected one.
    Conflict,
    /// The current value cannot be parsed.
    Unreadable(String),
}

impl Refusal {
    pub(crate) fn into_error(
        self,
        scope: String,
        key: String,
        current: Option<String>,
    ) -> BatchError {
        match self {
            Self::Conflict => BatchError::Conflict { scope, key, current },
            Self::Unreadable(reason) => BatchError::Failed {
                code: Code::UnreadableValue.into(),
                message: format!(
                    "the value of {key:?} in scope {scope:?} cannot be read: {reason}"
                ),
            },
        }
    }
}

/// Most entries that [`Effect::Erased`] names.
pub const MAX_HOLDERS: usize = 20;

/// Effect of one mutation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// An entry changed.
    Changed(Change),
    /// The content of a version was removed.
    Erased {
        /// The change.
        change: Change,
        /// Digests of the blobs that no other version has.
        blobs: Vec<Digest>,
        /// Bytes of these blobs.
        bytes: u64,
        /// Entries that still have blobs of a purged version, with the newest version of each that has one; at most
        /// [`MAX_HOLDERS`]. Empty for a collected version.
        holders: Vec<(EntryKey, u64)>,
    },
    /// There was nothing to do: the entry to remove did not exist, or the version to collect must stay.
    Nothing,
    /// A label or a yank was as requested already.
    Unchanged {
        /// Version that the request was about.
        version: Option<u64>,
        /// Served version.
        served: Option<u64>,
    },
    /// A value of the bus state was set or removed.
    State(StateChange),
}

/// Committed change: an entry of the change log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Revision; grows by one with each change.
    pub revision: u64,
    /// Time; strictly later than that of the change before.
    pub at: Timestamp,
    /// Actor.
    pub actor: Arc<str>,
    /// Changed entry.
    pub key: EntryKey,
    /// Act.
    pub action: Action,
    /// True if the plain id reads something else than before, or its content was registered again. Subscribers are
    /// notified of no other change.
    pub affects_served: bool,
    /// Served version after the change; `None` when the plain id reads nothing.
    pub served: Option<ServedVersion>,
}

impl Change {
    /// Creates the change of a store without history.
    #[must_use]
    pub fn without_history(
        revision: u64,
        at: Timestamp,
        actor: Arc<str>,
        key: EntryKey,
        content: Option<Arc<EntryContent>>,
    ) -> Self {
        let action = match content {
            Some(_) => Action::Put { version: None, is_new: true, message: None },
            None => Action::Remove,
        };
        let served = content.map(|content| ServedVersion {
            registered_at: at,
            content: Some(content),
            heads: None,
        });
        Self { revision, at, actor, key, action, affects_served: true, served }
    }

    /// Returns the content of the served version, if the change may have replaced it.
    #[must_use]
    pub fn content(&self) -> Option<&Arc<EntryContent>> {
        self.served.as_ref()?.content.as_ref()
    }

    /// Returns whether the plain id reads something after the change.
    #[must_use]
    pub const fn is_served(&self) -> bool {
        self.served.is_some()
    }
}

/// Version that the plain id of an entry reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedVersion {
    /// Time of its last registration.
    pub registered_at: Timestamp,
    /// Content; `None` in a change that leaves it as it is, or in an old change whose content is gone.
    pub content: Option<Arc<EntryContent>>,
    /// Version numbers; `None` in a store without history.
    pub heads: Option<VersionHeads>,
}

/// Served version of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// Key of the entry.
    pub key: EntryKey,
    /// Revision of the last registration of this version.
    pub revision: u64,
    /// Time of that registration.
    pub registered_at: Timestamp,
    /// Content.
    pub content: Arc<EntryContent>,
    /// Version numbers; `None` in a store without history.
    pub heads: Option<VersionHeads>,
}

/// Change of a value of the bus state; both values are JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChange {
    /// Scope of the key.
    pub scope: String,
    /// Key in the scope.
    pub key: String,
    /// Value before the change.
    pub old: Option<String>,
    /// Value after the change.
    pub new: Option<String>,
}

/// Value of the bus state with its position in the scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateEntry {
    /// Position; grows in the order of first insertion.
    pub position: i64,
    /// Key in the scope.
    pub key: String,
    /// Value as JSON text.
    pub value: String,
}
