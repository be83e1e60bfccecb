//! What a rule says when it is broken.

use std::fmt;

/// The input field a rule is about, by the name that clients know it under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// A skill's id.
    Id,
    /// A prompt's name.
    Name,
    /// A skill's body.
    Skill,
    /// A prompt's description.
    Description,
    /// The function behind a section or a prompt.
    FunctionId,
    /// The name of one argument of a prompt.
    ArgumentName,
    /// A prompt as a whole.
    Prompt,
    /// Whom a private entry belongs to.
    Uid,
    /// What names are also looked for with.
    Prefix,
    /// What a tool says of itself.
    Manifest,
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
        })
    }
}

/// Input that a rule refuses. The words are part of the contract: clients match them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A field that must hold something is empty.
    #[error("{0} must be non-empty")]
    Empty(Field),
    /// An identifier is longer than allowed.
    #[error("{field} too long: {len} bytes, at most {max} are allowed")]
    TooLong {
        /// Which field.
        field: Field,
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// An identifier holds a character it must not hold.
    #[error(
        "{field} must be lowercase ASCII letters, digits, '-' and '_' only; found {found:?} at byte {at}"
    )]
    Charset {
        /// Which field.
        field: Field,
        /// The first offending character.
        found: char,
        /// Where it stands.
        at: usize,
    },
    /// A uid holds a character it must not hold.
    #[error("uid must have no white space, control character or ':'; found {found:?} at byte {at}")]
    Uid {
        /// The first offending character.
        found: char,
        /// Where it stands.
        at: usize,
    },
    /// A uid that stands for nobody.
    #[error("the nil UUID stands for nobody and cannot own anything")]
    Nobody,
    /// `skills` is the address of the index.
    #[error("id {0:?} is reserved: iii://{0} is the index of all skills")]
    ReservedId(String),
    /// What anybody publishes must not stand where a tier has its addresses.
    #[error("id {0:?} is like the name of a tier, which market skills cannot have")]
    TierName(String),
    /// Content is larger than allowed.
    #[error("{field} too large: {len} bytes, at most {max} are allowed")]
    TooLarge {
        /// Which field.
        field: Field,
        /// Its size in bytes.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// Two arguments of a prompt have one name.
    #[error("duplicate argument name: {0:?}")]
    DuplicateArgument(String),
    /// The function belongs to the infrastructure.
    #[error(
        "{function_id:?} is in an internal namespace ({prefix}) and cannot back a section or a prompt"
    )]
    InternalNamespace {
        /// The function that was named.
        function_id: String,
        /// The reserved prefix it has.
        prefix: &'static str,
    },
    /// Not an `iii://` URI.
    #[error("uri must start with iii://, got {0:?}")]
    UriScheme(String),
    /// Too many segments after the id.
    #[error("uri has more than one path segment after the id: {0:?}")]
    UriSegments(String),
    /// Where a listing is to go on is not what a page of it said.
    #[error("after must be what the page before said is next")]
    Cursor,
    /// A path cannot stand inside a bundle.
    #[error("path {path:?} {reason}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Two paths are the same on some file systems.
    #[error("{one:?} and {other:?} cannot stand side by side on every file system")]
    PathCollision {
        /// One of them.
        one: String,
        /// The other.
        other: String,
    },
    /// A bundle has more files than allowed.
    #[error("bundle has {files} files, at most {max} are allowed")]
    TooManyFiles {
        /// How many it has.
        files: usize,
        /// The limit.
        max: usize,
    },
    /// A bundle is larger than allowed.
    #[error("bundle too large: {bytes} bytes, at most {max} are allowed")]
    BundleTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

impl RuleError {
    /// A stable code for machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InternalNamespace { .. } => "reserved_function",
            Self::UriScheme(_) | Self::UriSegments(_) => "invalid_uri",
            Self::TooLarge { .. } | Self::TooManyFiles { .. } | Self::BundleTooLarge { .. } => {
                "too_large"
            }
            Self::Path { .. } | Self::PathCollision { .. } => "invalid_path",
            _ => "invalid_input",
        }
    }
}
