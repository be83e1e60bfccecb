//! The plain data that goes into a store and comes out of it.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use skills_core::{Digest, EntryKey, Kind, Layer, PromptDefinition, SkillMeta, Timestamp};

use crate::BatchError;

/// What an entry holds, without the bytes of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryContent {
    /// A skill.
    Skill(SkillMeta),
    /// A prompt.
    Prompt(PromptDefinition),
    /// What is stored cannot be read. Such an entry is told of, never passed over, and never written.
    Corrupt {
        /// What it was.
        kind: Kind,
        /// What is wrong with it.
        reason: String,
    },
}

impl EntryContent {
    /// Which kind of entry this is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Skill(_) => Kind::Skill,
            Self::Prompt(_) => Kind::Prompt,
            Self::Corrupt { kind, .. } => *kind,
        }
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::Skill(skill) => {
                let files = skill.files.iter().map(|file| file.path.len() + 64);
                let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
                let agent = skill.agent.as_ref().map_or(0, |agent| agent.bytes() + 256);
                let tool = skill.tool.as_ref().map_or(0, |tool| tool.bytes() + 256);
                text(&skill.title) + text(&skill.description) + files.sum::<usize>() + agent + tool
            }
            Self::Prompt(prompt) => prompt.bytes() + 64 * prompt.arguments.len(),
            Self::Corrupt { reason, .. } => reason.len(),
        }
    }

    /// What identifies this version.
    #[must_use]
    pub fn digest(&self) -> Digest {
        match self {
            Self::Skill(skill) => skill.digest(),
            Self::Prompt(prompt) => prompt.digest(),
            Self::Corrupt { reason, .. } => Digest::of(reason.as_bytes()),
        }
    }
}

/// Mutations that happen together or not at all.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Who asked for them; kept in the log.
    pub actor: Arc<str>,
    /// In order.
    pub mutations: Vec<Mutation>,
}

/// One thing to do.
#[derive(Debug, Clone)]
pub enum Mutation {
    /// Create or replace an entry.
    Put {
        /// Where.
        layer: Layer,
        /// Under which id or name.
        id: Arc<str>,
        /// What.
        content: EntryContent,
        /// The bytes of the files that `content` names.
        blobs: Vec<(Digest, Bytes)>,
    },
    /// Remove an entry; removing one that is not there is no change.
    Remove(EntryKey),
    /// Set a value of the bus state.
    StateSet {
        /// Group of keys.
        scope: String,
        /// Name in the group.
        key: String,
        /// To what.
        value: NewValue,
    },
    /// Remove a value of the bus state.
    StateDelete {
        /// Group of keys.
        scope: String,
        /// Name in the group.
        key: String,
    },
}

/// What comes of a present value, if there is one.
pub type Compute = Arc<dyn Fn(Option<&str>) -> Result<String, Refusal> + Send + Sync>;

/// A value of the bus state to be, as JSON text.
#[derive(Clone)]
pub enum NewValue {
    /// This one.
    Given(String),
    /// What comes of the present one, if there is one. Reading and writing are one step, so no update
    /// is lost in between.
    Computed(Compute),
}

impl NewValue {
    /// The value to store where `present` is.
    pub(crate) fn after(&self, present: Option<&str>) -> Result<String, Refusal> {
        match self {
            Self::Given(value) => Ok(value.clone()),
            Self::Computed(compute) => compute(present),
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

/// Why nothing comes of a present value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// It is not the one that was expected.
    Conflict,
    /// It means nothing to us.
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
                code: "unreadable_value".to_owned(),
                message: format!(
                    "the value of {key:?} in scope {scope:?} cannot be read: {reason}"
                ),
            },
        }
    }
}

/// What one mutation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// An entry changed.
    Changed(Change),
    /// There was nothing to remove.
    Nothing,
    /// A value of the bus state was set or removed.
    State(StateChange),
}

/// One line of the change log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Position in the log; grows by one.
    pub revision: u64,
    /// When; strictly later than the change before it.
    pub at: Timestamp,
    /// Who.
    pub actor: Arc<str>,
    /// What.
    pub key: EntryKey,
    /// The version it replaced.
    pub before: Option<Digest>,
    /// The new version, or `None` when the entry was removed.
    pub content: Option<Arc<EntryContent>>,
}

/// The newest version of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What identifies it.
    pub key: EntryKey,
    /// The change that made this version.
    pub revision: u64,
    /// When that was.
    pub registered_at: Timestamp,
    /// What it holds.
    pub content: Arc<EntryContent>,
}

/// What happened to a value of the bus state; both values as JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChange {
    /// Group of keys.
    pub scope: String,
    /// Name in the group.
    pub key: String,
    /// The value before.
    pub old: Option<String>,
    /// The value now.
    pub new: Option<String>,
}

/// One value of the bus state, with its position in the scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateEntry {
    /// Grows in the order of first insertion.
    pub position: i64,
    /// Name in the group.
    pub key: String,
    /// JSON text.
    pub value: String,
}
