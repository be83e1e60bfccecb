//! Errors of reading and writing bundles.

use std::{io, path::PathBuf};

use skills_core::{
    Code, Coded, RuleError,
    limits::{ByteLimit, MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES, MAX_SKILL_BYTES},
};

use crate::archive::ArchiveError;

/// Error about a bundle on disk, with the path it is about.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The system refuses to read a file.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Path that cannot be read.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The system refuses to write a file.
    #[error("cannot write {}: {source}", path.display())]
    Unwritable {
        /// Path that cannot be written.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A rule of bundles is broken.
    #[error("{}: {source}", path.display())]
    Rule {
        /// Path of the bundle.
        path: PathBuf,
        /// Broken rule.
        source: RuleError,
    },
    /// A link is in a bundle.
    #[error("{} is a link; a bundle holds files only", path.display())]
    Link {
        /// Path of the link.
        path: PathBuf,
    },
    /// A pipe, a socket or a device is in a bundle.
    #[error("{} is not a regular file", path.display())]
    Special {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file name is not UTF-8.
    #[error("the name of {} is not UTF-8 text", path.display())]
    Name {
        /// Path, with replacement characters.
        path: PathBuf,
    },
    /// The root document is not UTF-8.
    #[error("cannot read {}: it is not UTF-8 text (byte {at})", path.display())]
    NotText {
        /// Path of the document.
        path: PathBuf,
        /// Offset of the first invalid byte.
        at: usize,
    },
    /// The root document is too large.
    #[error("{} is too large: at most {} are allowed", path.display(), ByteLimit(MAX_SKILL_BYTES))]
    DocumentTooLarge {
        /// Path of the document.
        path: PathBuf,
    },
    /// A folder or an archive has no bundle.
    #[error("there is no SKILL.md in {}", path.display())]
    NoBundle {
        /// Searched path.
        path: PathBuf,
    },
    /// A file is neither a document nor an archive.
    #[error("{} is neither a text document nor an archive that can be read", path.display())]
    UnknownFormat {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file is not a root document.
    #[error("{} is not a SKILL.md", path.display())]
    NoDocument {
        /// Path of the file.
        path: PathBuf,
    },
    /// No name is a valid skill id.
    #[error("no valid skill id for {}: neither the name in its frontmatter nor its file name is one", path.display())]
    NoId {
        /// Path of the bundle.
        path: PathBuf,
    },
    /// A different file or folder is in the way.
    #[error("{} already exists with different content", path.display())]
    Exists {
        /// First path in the way.
        path: PathBuf,
    },
    /// The record of a synced folder is unusable.
    #[error("{} cannot be used: {reason}", path.display())]
    BadRecord {
        /// Path of the record.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// A lockfile is unusable.
    #[error("{} is not a lockfile: {reason}", path.display())]
    BadLockfile {
        /// Path of the lockfile.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// A folder has more files or bytes than a skill can have.
    #[error("{} has more than a skill can have: {MAX_BUNDLE_FILES} files, {}", path.display(), ByteLimit(MAX_BUNDLE_BYTES))]
    FolderTooLarge {
        /// Path of the folder.
        path: PathBuf,
    },
    /// Another process syncs the folder.
    #[error("another sync is running in {}", path.display())]
    Busy {
        /// Path of the folder.
        path: PathBuf,
    },
    /// The path of a folder below a base directory contains a link.
    #[error("cannot open {}: {} is a link", path.display(), link.display())]
    LeadsElsewhere {
        /// Path of the folder.
        path: PathBuf,
        /// Path of the link.
        link: PathBuf,
    },
    /// The program `git` is not installed.
    #[error("git is not installed, which fetches repositories")]
    GitMissing,
    /// A repository cannot be fetched.
    #[error("cannot fetch {url}: {reason}")]
    Fetch {
        /// URL without credentials.
        url: String,
        /// Messages of git.
        reason: String,
    },
    /// The server of a repository that the user did not choose may not be contacted.
    #[error("{url} is not fetched: {reason}")]
    RefusedRemote {
        /// URL without credentials.
        url: String,
        /// Reason.
        reason: String,
    },
    /// A source is larger than what is fetched.
    #[error("{url} is too large: at most {} are fetched", ByteLimit(usize::try_from(*max).unwrap_or(usize::MAX)))]
    FetchTooLarge {
        /// URL without credentials.
        url: String,
        /// Limit in bytes.
        max: u64,
    },
    /// The fetch was interrupted by the user.
    #[error("the fetch of {url} was interrupted")]
    Interrupted {
        /// URL without credentials.
        url: String,
    },
    /// An archive is unusable.
    #[error("{}: {source}", path.display())]
    Archive {
        /// Path of the archive.
        path: PathBuf,
        /// Cause.
        source: ArchiveError,
    },
}

impl Coded for BundleError {
    fn code(&self) -> Code {
        match self {
            Self::Unreadable { .. } | Self::NotText { .. } => Code::Unreadable,
            Self::Unwritable { .. } => Code::Unwritable,
            Self::Rule { source, .. } => source.code(),
            Self::Link { .. } | Self::Special { .. } | Self::Name { .. } => Code::InvalidPath,
            Self::DocumentTooLarge { .. } | Self::FolderTooLarge { .. } => Code::TooLarge,
            Self::UnknownFormat { .. } => Code::BadArchive,
            Self::NoBundle { .. } | Self::NoDocument { .. } => Code::NoBundle,
            Self::NoId { .. } => Code::IdNeeded,
            Self::Exists { .. } => Code::Exists,
            Self::BadRecord { .. } => Code::BadRecord,
            Self::BadLockfile { .. } => Code::BadLockfile,
            Self::Busy { .. } => Code::Busy,
            Self::LeadsElsewhere { .. } => Code::LeadsElsewhere,
            Self::GitMissing => Code::GitMissing,
            Self::Fetch { .. } => Code::FetchFailed,
            Self::RefusedRemote { .. } => Code::UntrustedSource,
            Self::FetchTooLarge { .. } => Code::TooLarge,
            Self::Interrupted { .. } => Code::Interrupted,
            Self::Archive { source, .. } => source.code(),
        }
    }

    fn hint(&self) -> Option<&str> {
        match self {
            Self::Link { .. } => {
                Some("replace the link by a copy of the file, or list it in a .gitignore")
            }
            Self::GitMissing => {
                Some("install git, or download an archive of the repository and add that")
            }
            Self::Special { .. } => Some("remove it, or list it in a .gitignore"),
            Self::NoBundle { .. } => {
                Some("name a folder with a SKILL.md, a folder of such folders, or a Markdown file")
            }
            Self::UnknownFormat { .. } => Some(
                "archives are .zip, .skill, .tar, .tar.gz and .tar.zst; a document is UTF-8 text",
            ),
            Self::NoDocument { .. } => Some(
                "name a SKILL.md, the folder it is in, a folder of such folders, or an archive",
            ),
            Self::NoId { .. } => Some("set one with --id: lowercase letters, digits, '-' and '_'"),
            Self::Exists { .. } => Some("name an empty folder, or overwrite it with --force"),
            Self::BadRecord { .. } => Some(
                "remove the record; existing skills are then left alone unless --force is given",
            ),
            Self::BadLockfile { .. } => {
                Some("repair or remove it; `skills lock` writes what is installed")
            }
            Self::RefusedRemote { .. } => {
                Some("if you trust it, add the repository by its own URL")
            }
            Self::FetchTooLarge { .. } => {
                Some("add the skills from an archive or a folder that has only them")
            }
            Self::Busy { .. } => Some("wait until the other sync has finished"),
            Self::LeadsElsewhere { .. } => Some("name the folder explicitly to follow the link"),
            _ => None,
        }
    }
}
