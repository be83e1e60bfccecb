//! Why something on disk is no bundle.

use std::{io, path::PathBuf};

use skills_core::{RuleError, limits::MAX_SKILL_BYTES};

use crate::archive::ArchiveError;

/// What went wrong, with the path it is about.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The system does not let it be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system does not let it be written.
    #[error("cannot write {}: {source}", path.display())]
    Unwritable {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A rule of bundles is broken.
    #[error("{}: {source}", path.display())]
    Rule {
        /// Which bundle.
        path: PathBuf,
        /// Which rule.
        source: RuleError,
    },
    /// A link could lead anywhere.
    #[error("{} is a link; a bundle holds files only", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// A pipe, a socket or a device.
    #[error("{} is not a regular file", path.display())]
    Special {
        /// What it is called.
        path: PathBuf,
    },
    /// A name that cannot be written everywhere.
    #[error("the name of {} is not UTF-8 text", path.display())]
    Name {
        /// As far as it can be shown.
        path: PathBuf,
    },
    /// The root document is no text.
    #[error("cannot read {}: it is not UTF-8 text (byte {at})", path.display())]
    NotText {
        /// The document.
        path: PathBuf,
        /// The first byte that is not part of any text.
        at: usize,
    },
    /// The root document is longer than the registry takes.
    #[error("{} is too large: at most {MAX_SKILL_BYTES} bytes are allowed", path.display())]
    DocumentTooLarge {
        /// The document.
        path: PathBuf,
    },
    /// A folder or an archive without any bundle.
    #[error("there is no SKILL.md in {}", path.display())]
    NoBundle {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A file that is no root document where one is wanted.
    #[error("{} is not a SKILL.md", path.display())]
    NoDocument {
        /// The file.
        path: PathBuf,
    },
    /// Nothing that could be an id.
    #[error("neither the name in {} nor its own is a skill id", path.display())]
    NoId {
        /// The bundle.
        path: PathBuf,
    },
    /// What is there already is something else.
    #[error("{} is there already, and it is something else", path.display())]
    Exists {
        /// The first file in the way.
        path: PathBuf,
    },
    /// The record of a folder that is kept in step cannot be used.
    #[error("{} cannot be used: {reason}", path.display())]
    BadRecord {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Somebody else keeps the folder in step just now.
    #[error("another sync is at work in {}", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// An archive that cannot be used.
    #[error("{}: {source}", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What is wrong with it.
        source: ArchiveError,
    },
}

impl BundleError {
    /// A stable code for machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } | Self::NotText { .. } => "unreadable",
            Self::Unwritable { .. } => "unwritable",
            Self::Rule { source, .. } => source.code(),
            Self::Link { .. } | Self::Special { .. } | Self::Name { .. } => "invalid_path",
            Self::DocumentTooLarge { .. } => "too_large",
            Self::NoBundle { .. } | Self::NoDocument { .. } => "no_bundle",
            Self::NoId { .. } => "id_needed",
            Self::Exists { .. } => "exists",
            Self::BadRecord { .. } => "bad_record",
            Self::Busy { .. } => "busy",
            Self::Archive { source, .. } => source.code(),
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Link { .. } => Some("put a copy of the file there, or name it in a .gitignore"),
            Self::Special { .. } => Some("remove it, or name it in a .gitignore"),
            Self::NoBundle { .. } => {
                Some("name a folder with a SKILL.md, a folder of such folders, or a Markdown file")
            }
            Self::NoDocument { .. } => {
                Some("name a SKILL.md, the folder it is in, or a folder of such folders")
            }
            Self::NoId { .. } => Some("give one with --id: lowercase letters, digits, '-' and '_'"),
            Self::Exists { .. } => Some("name an empty folder, or overwrite it with --force"),
            Self::BadRecord { .. } => {
                Some("remove it; what is there counts as somebody else's then, unless --force")
            }
            Self::Busy { .. } => Some("wait until it is done"),
            _ => None,
        }
    }
}
