//! Rules that decide which version of an entry a selector means, and which versions retention must keep. Every store
//! answers the queries of [`VersionIndex`]; the decisions are here alone.

use std::collections::BTreeSet;

use skills_core::{DigestPrefix, VersionSelector};

use crate::{Labels, Removal, StoredVersion};

/// Use that a version is selected for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectionPurpose {
    /// Reads, promotions and rollbacks. `latest` and labels fall back to an older version if theirs is yanked, and a
    /// digest or an author's version prefers a version that is not.
    Read,
    /// Yanks, purges and their reversal. No version is skipped because of its state, so that the same request means the
    /// same version when it is repeated.
    Withdraw,
}

/// State that a version must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredState {
    /// Neither yanked nor removed.
    Servable,
    /// Not taken by retention.
    Kept,
    /// Any state.
    Any,
}

impl RequiredState {
    /// Returns whether a version has the state.
    #[must_use]
    pub fn admits(self, version: &StoredVersion) -> bool {
        match self {
            Self::Servable => version.is_servable(),
            Self::Kept => version.removal != Some(Removal::Collected),
            Self::Any => true,
        }
    }
}

/// Content that a version must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredContent<'a> {
    /// Any content.
    Any,
    /// Content digest that begins with these digits.
    Digest(&'a DigestPrefix),
    /// The author's own version.
    AuthorVersion(&'a str),
}

impl RequiredContent<'_> {
    /// Returns whether a version has the content.
    #[must_use]
    pub fn admits(self, version: &StoredVersion) -> bool {
        match self {
            Self::Any => true,
            Self::Digest(prefix) => prefix.matches(&version.digest),
            Self::AuthorVersion(text) => version.author_version.as_deref() == Some(text),
        }
    }
}

/// Conditions on a version; all must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionCriteria<'a> {
    /// Largest number.
    pub limit: Option<u64>,
    /// Content.
    pub content: RequiredContent<'a>,
    /// State.
    pub state: RequiredState,
}

impl VersionCriteria<'_> {
    /// Creates the conditions on the version that an entry, or a label at `limit`, serves.
    #[must_use]
    pub const fn servable(limit: Option<u64>) -> Self {
        Self { limit, content: RequiredContent::Any, state: RequiredState::Servable }
    }

    /// Returns whether a version meets the conditions.
    #[must_use]
    pub fn admits(&self, version: &StoredVersion) -> bool {
        self.limit.is_none_or(|limit| version.number <= limit)
            && self.state.admits(version)
            && self.content.admits(version)
    }
}

/// Versions of one entry, as a store looks them up.
pub trait VersionIndex {
    /// Error of a lookup.
    type Error;

    /// Returns whether the entry was not removed since its last registration.
    fn is_present(&self) -> bool;

    /// Returns the number of the newest version.
    fn latest(&self) -> u64;

    /// Returns the labels.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn labels(&self) -> Result<Labels, Self::Error>;

    /// Returns the number of the newest version that meets some conditions.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn newest(&self, criteria: &VersionCriteria<'_>) -> Result<Option<u64>, Self::Error>;
}

/// Version that a selector means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectedNumber {
    /// Number of the version. A number that the selector names may not exist.
    Number(u64),
    /// The label or `latest` exists, and all versions that it could mean are yanked or purged.
    AllYanked,
    /// There is no such version.
    Missing,
}

/// Returns the version that a selector means.
///
/// # Errors
/// When the store cannot be read.
pub fn select_version<I: VersionIndex>(
    index: &I,
    selector: &VersionSelector,
    purpose: SelectionPurpose,
) -> Result<SelectedNumber, I::Error> {
    let content = match selector {
        VersionSelector::Number(number) => return Ok(SelectedNumber::Number(*number)),
        VersionSelector::Latest if index.is_present() => {
            return select_pointed(index, index.latest(), purpose);
        }
        VersionSelector::Latest => return Ok(SelectedNumber::Missing),
        VersionSelector::Digest(prefix) => RequiredContent::Digest(prefix),
        VersionSelector::Name(name) => {
            let labels = index.labels()?;
            let labelled = labels.iter().find(|(label, _)| label.as_str() == name);
            if let Some((_, number)) = labelled {
                return select_pointed(index, *number, purpose);
            }
            RequiredContent::AuthorVersion(name)
        }
    };
    // A version that retention took comes last, so that a reader learns that it existed.
    let states: &[RequiredState] = match purpose {
        SelectionPurpose::Read => {
            &[RequiredState::Servable, RequiredState::Kept, RequiredState::Any]
        }
        SelectionPurpose::Withdraw => &[RequiredState::Kept, RequiredState::Any],
    };
    for state in states {
        let criteria = VersionCriteria { limit: None, content, state: *state };
        if let Some(number) = index.newest(&criteria)? {
            return Ok(SelectedNumber::Number(number));
        }
    }
    Ok(SelectedNumber::Missing)
}

/// Returns the version that `latest` or a label means when it points at a number.
fn select_pointed<I: VersionIndex>(
    index: &I,
    number: u64,
    purpose: SelectionPurpose,
) -> Result<SelectedNumber, I::Error> {
    if purpose == SelectionPurpose::Withdraw {
        return Ok(SelectedNumber::Number(number));
    }
    let newest = index.newest(&VersionCriteria::servable(Some(number)))?;
    Ok(newest.map_or(SelectedNumber::AllYanked, SelectedNumber::Number))
}

/// Returns the versions that retention must keep: the newest, those with a label, and those that the plain id, `latest` and
/// each label serve.
///
/// # Errors
/// When the store cannot be read.
pub fn protected_versions<I: VersionIndex>(index: &I) -> Result<BTreeSet<u64>, I::Error> {
    let labels = index.labels()?;
    let labelled = labels.iter().map(|(_, number)| *number);
    let pointed: BTreeSet<u64> = labelled.chain([index.latest()]).collect();
    let mut protected = pointed.clone();
    if index.is_present() {
        for number in pointed {
            protected.extend(index.newest(&VersionCriteria::servable(Some(number)))?);
        }
    }
    Ok(protected)
}

/// Kind of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishKind {
    /// Content that a client sends. Workers register at every start, so that alone must not undo a yank.
    Registration,
    /// Content of an older version that a user wants back.
    Rollback,
}

impl PublishKind {
    /// Returns whether registering the content of the newest version again makes no new version.
    #[must_use]
    pub const fn repeats(self, is_yanked: bool, removal: Option<Removal>) -> bool {
        let is_same = match self {
            Self::Registration => true,
            Self::Rollback => !is_yanked,
        };
        is_same && removal.is_none()
    }
}
