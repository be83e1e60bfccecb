//! Fingerprints of the change log, by which a server notices that its store lost commits.

use std::ops::RangeInclusive;

use crate::Change;

/// Newest revision of a store, and the fingerprint of a part of its change log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogFingerprint {
    /// Revision of the newest change, or 0.
    pub revision: u64,
    /// Fingerprint of the part; `None` from a copy of the store that may lag behind it.
    pub fingerprint: Option<Fingerprint>,
}

/// Sum of the times of changes, in microseconds. Times increase strictly, so a log that lost changes has a smaller one, and
/// one that gave their revisions out again has another one. (An exclusive or would be the same for any four changes of
/// a group, which have consecutive times.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fingerprint(pub i128);

impl Fingerprint {
    /// Returns the fingerprint of one change.
    #[must_use]
    pub fn of(change: &Change) -> Self {
        Self(change.at.as_micros().into())
    }

    /// Returns the fingerprint of the changes of both, which have none in common.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// Returns the fingerprint of the changes without others that are among them.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }

    /// Returns the fingerprint of the changes with some revisions.
    pub(crate) fn of_part(changes: &[Change], revisions: &RangeInclusive<u64>) -> Self {
        let part = changes.iter().filter(|change| revisions.contains(&change.revision));
        part.map(Self::of).fold(Self::default(), Self::plus)
    }
}
