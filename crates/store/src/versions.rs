//! Versions of entries as the [`Store`](crate::Store) trait has them. The rules of selection are in
//! [`selection`](crate::selection).
//!
//! An entry has versions 1, 2, 3 …, which never change. Removing the entry keeps them, and the next registration goes on
//! counting. A yanked version keeps its content; a purged or collected one keeps its number and digest only.

use std::sync::Arc;

use skills_core::{
    Code, Digest, EntryKey, EntryKind, Label, Layer, RuleError, Timestamp, VersionSelector,
    limits::MAX_LABELS,
};

use crate::{BatchError, EntryContent};

/// Condition and note of a put or a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PublishOptions {
    /// Message of the version.
    pub message: Option<String>,
    /// Number that the newest version must have; 0 for an entry that must not exist.
    pub expected_version: Option<u64>,
}

/// Change to the versions of one entry. The store resolves the selectors, so that resolution and change are one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionMutation {
    /// Register the content of an older version again.
    Rollback {
        /// The older version.
        to: VersionSelector,
        /// Condition, and message that follows `rollback to N`.
        options: PublishOptions,
    },
    /// Set a label to a version, or remove it.
    SetLabel {
        /// Label.
        label: Label,
        /// The version; `None` removes the label.
        version: Option<VersionSelector>,
        /// Number that the label must have now; 0 for none.
        expected: Option<u64>,
    },
    /// Stop serving a version by plain id, label and `latest`.
    Yank {
        /// The version.
        version: VersionSelector,
        /// Reason.
        reason: String,
    },
    /// Undo a yank.
    Unyank {
        /// The version.
        version: VersionSelector,
    },
    /// Yank a version and remove its content.
    Purge {
        /// The version.
        version: VersionSelector,
        /// Reason.
        reason: String,
    },
    /// Remove the content of a version that retention no longer keeps. Without effect on a version that has a label, is
    /// served or is the newest.
    Collect {
        /// Number of the version.
        version: u64,
    },
}

/// Labels of an entry with the numbers of their versions, sorted by label.
pub type Labels = Arc<[(Label, u64)]>;

/// Version numbers of an entry that serves one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionHeads {
    /// Number of the version that the plain id reads.
    pub served: u64,
    /// Number of the newest version.
    pub latest: u64,
    /// Labels.
    pub labels: Labels,
}

/// Reason why a version has no content any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It was purged.
    Purged,
    /// Retention took it.
    Collected,
}

impl Removal {
    /// Returns the name in storage.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Purged => "purged",
            Self::Collected => "collected",
        }
    }
}

/// Version of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVersion {
    /// Number, from 1.
    pub number: u64,
    /// Content digest.
    pub digest: Digest,
    /// Time of the first registration.
    pub created_at: Timestamp,
    /// Time of the last registration of the same content.
    pub registered_at: Timestamp,
    /// Actor of the first registration.
    pub actor: Arc<str>,
    /// Message.
    pub message: Option<String>,
    /// Author's own version.
    pub author_version: Option<String>,
    /// Size of all files in bytes.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Reason of a yank.
    pub yanked: Option<String>,
    /// Reason why the content is gone.
    pub removal: Option<Removal>,
}

impl StoredVersion {
    /// Returns whether the version may be served to callers that do not name it.
    #[must_use]
    pub const fn is_servable(&self) -> bool {
        self.yanked.is_none() && self.removal.is_none()
    }
}

/// Page of the versions of an entry, newest first. Collected versions are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionPage {
    /// Versions.
    pub versions: Vec<StoredVersion>,
    /// Number of versions in all pages.
    pub count: u64,
    /// Number of the served version; `None` for an entry that was removed, or whose versions are all yanked.
    pub served: Option<u64>,
    /// Labels; none for an entry that was removed.
    pub labels: Labels,
    /// True if the entry was not removed since its last registration.
    pub is_present: bool,
}

/// Result of looking up a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundVersion {
    /// The version, with its content unless that is gone.
    Found {
        /// The version.
        version: StoredVersion,
        /// Content.
        content: Option<Arc<EntryContent>>,
    },
    /// The label or `latest` exists, and all versions that it could mean are yanked. A number, a digest and an author's
    /// version name versions themselves: they find yanked ones too.
    AllYanked,
    /// The entry has no such version.
    Missing,
}

/// Rule for versions that are no longer kept. A version is kept if either limit keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Number of the newest versions of each entry that are kept.
    pub versions: Option<u64>,
    /// Time for which versions are kept.
    pub age: Option<std::time::Duration>,
}

impl Retention {
    /// Returns whether everything is kept.
    #[must_use]
    pub const fn keeps_all(&self) -> bool {
        self.versions.is_none() && self.age.is_none()
    }

    /// Returns the time before which versions are too old, if age counts.
    #[must_use]
    pub fn oldest_kept(&self, now: Timestamp) -> Option<Timestamp> {
        let age = i64::try_from(self.age?.as_micros()).unwrap_or(i64::MAX);
        Some(Timestamp::from_micros(now.as_micros().saturating_sub(age)))
    }
}

/// Versions that retention no longer keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpiredVersions {
    /// Entries and numbers, in the order of their keys.
    pub versions: Vec<(EntryKey, u64)>,
    /// Whether there may be more after the last of them.
    pub has_more: bool,
}

/// Size of what a collection removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CollectionSize {
    /// Number of versions.
    pub versions: u64,
    /// Bytes of the files that no other version has.
    pub bytes: u64,
}

/// Filter of the change log. All given conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogFilter {
    /// Kind of the entry.
    pub kind: Option<EntryKind>,
    /// Layers of entries; `None` for all.
    pub layers: Option<Vec<Layer>>,
    /// Id or name.
    pub id: Option<Arc<str>>,
    /// Earliest time.
    pub since: Option<Timestamp>,
    /// Text that the actor contains.
    pub actor: Option<String>,
}

impl LogFilter {
    /// Returns whether a record passes the filter.
    pub(crate) fn matches(&self, record: &LogRecord) -> bool {
        let key = &record.key;
        self.kind.is_none_or(|kind| kind == key.kind)
            && self.layers.as_ref().is_none_or(|layers| layers.contains(&key.layer))
            && self.id.as_ref().is_none_or(|id| *id == key.id)
            && self.since.is_none_or(|since| record.at >= since)
            && self.actor.as_ref().is_none_or(|actor| record.actor.contains(actor.as_str()))
    }
}

/// Act that the change log records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Content was registered.
    Put {
        /// Version with this content; `None` in a store without history.
        version: Option<u64>,
        /// Whether the registration created the version.
        is_new: bool,
        /// Message of the version.
        message: Option<String>,
    },
    /// The entry was removed.
    Remove,
    /// A label was set or removed.
    Label {
        /// Label.
        label: Label,
        /// Version that had it before.
        from: Option<u64>,
        /// Version that has it now.
        to: Option<u64>,
    },
    /// A version was yanked.
    Yank {
        /// Number of the version.
        version: u64,
        /// Reason.
        reason: String,
    },
    /// A yank was undone.
    Unyank {
        /// Number of the version.
        version: u64,
    },
    /// The content of a version was purged.
    Purge {
        /// Number of the version.
        version: u64,
        /// Reason.
        reason: String,
    },
    /// Retention took a version.
    Collect {
        /// Number of the version.
        version: u64,
    },
}

impl Action {
    /// Returns the name in storage and in the log.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Put { .. } => "put",
            Self::Remove => "remove",
            Self::Label { to: Some(_), .. } => "label",
            Self::Label { to: None, .. } => "unlabel",
            Self::Yank { .. } => "yank",
            Self::Unyank { .. } => "unyank",
            Self::Purge { .. } => "purge",
            Self::Collect { .. } => "collect",
        }
    }

    /// Returns the version that the act is about.
    #[must_use]
    pub const fn version(&self) -> Option<u64> {
        match self {
            Self::Put { version, .. } | Self::Label { to: version, .. } => *version,
            Self::Remove => None,
            Self::Yank { version, .. }
            | Self::Unyank { version }
            | Self::Purge { version, .. }
            | Self::Collect { version } => Some(*version),
        }
    }

    /// Returns the message of a version, or the reason of a yank or purge.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        match self {
            Self::Put { message, .. } => message.as_deref(),
            Self::Yank { reason, .. } | Self::Purge { reason, .. } => Some(reason),
            Self::Remove | Self::Label { .. } | Self::Unyank { .. } | Self::Collect { .. } => None,
        }
    }
}

/// Record of the change log, without content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    /// Revision; grows by one with each change.
    pub revision: u64,
    /// Time.
    pub at: Timestamp,
    /// Actor.
    pub actor: Arc<str>,
    /// Changed entry.
    pub key: EntryKey,
    /// Act.
    pub action: Action,
    /// Number of the served version before the change.
    pub before: Option<u64>,
    /// Number of the served version after the change.
    pub served: Option<u64>,
}

/// Record of the change log with the content that the plain id read afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedRecord {
    /// The record.
    pub record: LogRecord,
    /// Content of the version that was served then; `None` if there was none, or if its content is gone by now.
    pub content: Option<Arc<EntryContent>>,
}

/// Returns the message of a rollback.
#[must_use]
pub fn rollback_message(to: u64, message: Option<&str>) -> String {
    match message {
        Some(message) => format!("rollback to {to}: {message}"),
        None => format!("rollback to {to}"),
    }
}

/// Returns the error for one label too many.
pub(crate) fn too_many_labels(id: String) -> BatchError {
    let error = RuleError::TooManyLabels { id, max: MAX_LABELS };
    BatchError::Failed { code: Code::TooLarge.into(), message: error.to_string() }
}
