//! Errors of requests about versions of an entry, for stores and registries alike.

use std::fmt;

use crate::{Code, Coded, EntryKind};

/// Numbers of the versions that an error names.
const MAX_LISTED: usize = 8;

/// Versions that an entry has, newest first, for the message of an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AvailableVersions {
    /// Newest numbers.
    numbers: Vec<u64>,
    /// Number of all versions.
    count: u64,
}

impl AvailableVersions {
    /// Most numbers that are worth reading from a store.
    pub const LISTED: usize = MAX_LISTED;

    /// Creates the list from the newest numbers and the number of all versions.
    #[must_use]
    pub fn new(mut numbers: Vec<u64>, count: u64) -> Self {
        numbers.truncate(MAX_LISTED);
        Self { numbers, count }
    }
}

impl fmt::Display for AvailableVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.numbers.split_first() else {
            return f.write_str("it has none");
        };
        write!(f, "it has {first}")?;
        for number in rest {
            write!(f, ", {number}")?;
        }
        match self.count.saturating_sub(self.numbers.len() as u64) {
            0 => Ok(()),
            more => write!(f, " and {more} older"),
        }
    }
}

/// Error of a request about versions of an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The entry has no such version.
    #[error("{} {id} has no version {selector}; {available}", kind.as_str())]
    NotFound {
        /// Kind of the entry.
        kind: EntryKind,
        /// Id or name.
        id: String,
        /// Requested version.
        selector: String,
        /// Versions that the entry has.
        available: AvailableVersions,
    },
    /// Every version that could be served is yanked.
    #[error(
        "{} not found: all versions of {id} that could be served are yanked; read one by its number",
        kind.as_str()
    )]
    AllYanked {
        /// Kind of the entry.
        kind: EntryKind,
        /// Id or name.
        id: String,
    },
    /// The version is yanked, so it cannot be promoted or rolled back to.
    #[error("version {version} of {id} is yanked: {reason}")]
    Yanked {
        /// Id or name.
        id: String,
        /// Number of the version.
        version: u64,
        /// Reason of the yank.
        reason: String,
    },
    /// The content of the version was purged.
    #[error("version {version} of {id} was purged: {reason}")]
    Purged {
        /// Id or name.
        id: String,
        /// Number of the version.
        version: u64,
        /// Reason of the purge.
        reason: String,
    },
    /// Retention removed the content of the version.
    #[error("version {version} of {id} is no longer kept; {available}")]
    Collected {
        /// Id or name.
        id: String,
        /// Number of the version.
        version: u64,
        /// Versions that the entry has.
        available: AvailableVersions,
    },
    /// The newest version is not the expected one.
    #[error("the newest version of {id} is {current}, not {expected}")]
    Conflict {
        /// Id or name.
        id: String,
        /// Expected number; 0 for no entry.
        expected: u64,
        /// Current number; 0 for no entry.
        current: u64,
    },
    /// The label is not at the expected version.
    #[error("label {label} of {id} is at version {current}, not {expected}")]
    LabelMoved {
        /// Id or name.
        id: String,
        /// Label.
        label: String,
        /// Expected number; 0 for no label.
        expected: u64,
        /// Current number; 0 for no label.
        current: u64,
    },
    /// There is no such entry.
    #[error("{} not found: {id}", kind.as_str())]
    NoEntry {
        /// Kind of the entry.
        kind: EntryKind,
        /// Id or name.
        id: String,
    },
    /// The entry has no such label.
    #[error("{} {id} has no label {label}", kind.as_str())]
    NoLabel {
        /// Kind of the entry.
        kind: EntryKind,
        /// Id or name.
        id: String,
        /// Label.
        label: String,
    },
}

impl VersionError {
    /// Returns the version that is there instead of the expected one.
    #[must_use]
    pub const fn current(&self) -> Option<u64> {
        match self {
            Self::Conflict { current, .. } | Self::LabelMoved { current, .. } => Some(*current),
            _ => None,
        }
    }
}

impl Coded for VersionError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. }
            | Self::AllYanked { .. }
            | Self::NoEntry { .. }
            | Self::NoLabel { .. } => Code::NotFound,
            Self::Yanked { .. } => Code::Yanked,
            Self::Purged { .. } => Code::Purged,
            Self::Collected { .. } => Code::Collected,
            Self::Conflict { .. } => Code::VersionConflict,
            Self::LabelMoved { .. } => Code::LabelMoved,
        }
    }

    fn hint(&self) -> Option<&str> {
        match self {
            Self::Conflict { .. } => Some("read the newest version, and publish on top of it"),
            Self::LabelMoved { .. } => Some("read the labels again, and decide again"),
            Self::Yanked { .. } => Some("undo the yank first, or choose another version"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_newest_versions() {
        for (numbers, count, words) in [
            (vec![], 0, "it has none"),
            (vec![2, 1], 2, "it has 2, 1"),
            ((11..=20).rev().collect(), 20, "it has 20, 19, 18, 17, 16, 15, 14, 13 and 12 older"),
        ] {
            assert_eq!(AvailableVersions::new(numbers, count).to_string(), words);
        }
    }
}
