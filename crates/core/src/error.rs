//! Errors of the domain rules.

use std::fmt;

use crate::{Code, Coded, limits::ByteLimit};

/// Input field that a rule is about, displayed under its published name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Id of a skill.
    Id,
    /// Name of a prompt.
    Name,
    /// Body of a skill.
    Skill,
    /// Description of a prompt.
    Description,
    /// Function behind a section or a prompt.
    FunctionId,
    /// Name of a prompt's argument.
    ArgumentName,
    /// Prompt as a whole.
    Prompt,
    /// Owner of a private entry.
    Uid,
    /// Name prefix of resolution.
    Prefix,
    /// Manifest of a tool.
    Manifest,
    /// Provenance of an entry.
    Source,
    /// Message of a version.
    Message,
    /// Reason of a yank.
    Reason,
    /// Labels of an entry.
    Labels,
    /// Title of a collection.
    Title,
    /// Collection as a whole.
    Collection,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Id => "id",
            Self::Name => "name",
            Self::Skill => "skill",
            Self::Description => "description",
            Self::FunctionId => "function_id",
            Self::ArgumentName => "argument name",
            Self::Prompt => "prompt",
            Self::Uid => "uid",
            Self::Prefix => "prefix",
            Self::Manifest => "manifest",
            Self::Source => "source",
            Self::Message => "message",
            Self::Reason => "reason",
            Self::Labels => "labels",
            Self::Title => "title",
            Self::Collection => "collection",
        })
    }
}

/// Input that a rule refuses. The messages are part of the contract: clients match them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A required field is empty.
    #[error("{0} must be non-empty")]
    Empty(Field),
    /// An identifier is longer than allowed.
    #[error("{field} too long: {len} bytes, at most {max} are allowed")]
    TooLong {
        /// Field that is too long.
        field: Field,
        /// Length in bytes.
        len: usize,
        /// Limit in bytes.
        max: usize,
    },
    /// An identifier contains a forbidden character.
    #[error(
        "{field} must be lowercase ASCII letters, digits, '-' and '_' only; found {found:?} at byte {at}"
    )]
    Charset {
        /// Field with the character.
        field: Field,
        /// First forbidden character.
        found: char,
        /// Byte offset of the character.
        at: usize,
    },
    /// A uid contains a forbidden character.
    #[error("uid must have no white space, control character or ':'; found {found:?} at byte {at}")]
    Uid {
        /// First forbidden character.
        found: char,
        /// Byte offset of the character.
        at: usize,
    },
    /// The owner is the nil UUID.
    #[error("the nil UUID cannot own anything")]
    NilOwner,
    /// `skills` is the address of the index.
    #[error("id {0:?} is reserved: iii://{0} is the index of all skills")]
    ReservedId(String),
    /// Market skills must not be confused with the addresses of a tier.
    #[error("id {0:?} is like the name of a tier, which market skills cannot have")]
    TierName(String),
    /// Content is larger than allowed.
    #[error("{field} too large: {len} bytes, at most {} are allowed", ByteLimit(*.max))]
    TooLarge {
        /// Field that is too large.
        field: Field,
        /// Size in bytes.
        len: usize,
        /// Limit in bytes.
        max: usize,
    },
    /// Two arguments of a prompt have the same name.
    #[error("duplicate argument name: {0:?}")]
    DuplicateArgument(String),
    /// A collection has a skill twice.
    #[error("a collection cannot have {0:?} twice")]
    DuplicateSkill(String),
    /// A collection has more skills than allowed.
    #[error("collection has {skills} skills, at most {max} are allowed")]
    TooManySkills {
        /// Number of skills.
        skills: usize,
        /// Limit.
        max: usize,
    },
    /// The function is in a reserved namespace.
    #[error(
        "{function_id:?} is in an internal namespace ({prefix}) and cannot back a section or a prompt"
    )]
    InternalNamespace {
        /// Id of the function.
        function_id: String,
        /// Reserved prefix of the id.
        prefix: &'static str,
    },
    /// Not an `iii://` URI.
    #[error("uri must start with iii://, got {0:?}")]
    UriScheme(String),
    /// Too many segments after the id.
    #[error("uri has more than one path segment after the id: {0:?}")]
    UriSegments(String),
    /// The text selects no version.
    #[error(
        "version must be a number from 1, sha256: with at least 12 hexadecimal digits, a label, or the author's version; got {0:?}"
    )]
    Version(String),
    /// The name cannot be a label.
    #[error("label {label:?} {reason}")]
    Label {
        /// Refused name.
        label: String,
        /// Reason for the refusal.
        reason: &'static str,
    },
    /// A difference has no earlier version, or two.
    #[error("name the earlier version once: as from, or after the id as in {id}@3")]
    DiffFrom {
        /// Id or name.
        id: String,
    },
    /// A purge cannot be undone.
    #[error("a purge cannot be undone: its content is gone")]
    UndoPurge,
    /// An entry has more labels than allowed.
    #[error("{id} has {max} labels already")]
    TooManyLabels {
        /// Id or name.
        id: String,
        /// Limit.
        max: usize,
    },
    /// The start of a log is not a time.
    #[error("since must be an RFC 3339 time, got {0:?}")]
    Since(String),
    /// The cursor of a listing is not one that a previous page returned.
    #[error("after must be the cursor of the previous page")]
    Cursor,
    /// The cursor of a search is not one that a previous page of it returned.
    #[error("cursor must be the `next` of a page of the same search")]
    SearchCursor,
    /// The kind of a search is unknown.
    #[error("kind must be skill, prompt, tool or live, got {0:?}")]
    SearchKind(String),
    /// The index has other parameters, or one of these is invalid.
    #[error("the index takes q and budget (a number), got {0:?}")]
    IndexParameters(String),
    /// The path is not allowed inside a bundle.
    #[error("path {path:?} {reason}")]
    Path {
        /// Refused path.
        path: String,
        /// Reason for the refusal.
        reason: &'static str,
    },
    /// The provenance is not one that its kind can have.
    #[error("source {0}")]
    Source(&'static str),
    /// Two paths are equal on some file systems.
    #[error("{one:?} and {other:?} cannot stand side by side on every file system")]
    PathCollision {
        /// First path.
        one: String,
        /// Second path.
        other: String,
    },
    /// A bundle has more files than allowed.
    #[error("bundle has {files} files, at most {max} are allowed")]
    TooManyFiles {
        /// Number of files.
        files: usize,
        /// Limit.
        max: usize,
    },
    /// A bundle is larger than allowed.
    #[error("bundle too large: {bytes} bytes, at most {} are allowed", ByteLimit(*.max))]
    BundleTooLarge {
        /// Size in bytes.
        bytes: usize,
        /// Limit in bytes.
        max: usize,
    },
}

impl Coded for RuleError {
    fn code(&self) -> Code {
        match self {
            Self::InternalNamespace { .. } => Code::ReservedFunction,
            Self::UriScheme(_) | Self::UriSegments(_) | Self::IndexParameters(_) => {
                Code::InvalidUri
            }
            Self::TooLarge { .. }
            | Self::TooManyFiles { .. }
            | Self::TooManySkills { .. }
            | Self::BundleTooLarge { .. } => Code::TooLarge,
            Self::SearchCursor => Code::InvalidCursor,
            Self::Path { .. } | Self::PathCollision { .. } => Code::InvalidPath,
            _ => Code::InvalidInput,
        }
    }
}
