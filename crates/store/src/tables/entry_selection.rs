//! Versions of an entry that selectors mean, and the errors for those that cannot be used.

use std::convert::Infallible;

use skills_core::{AvailableVersions, EntryKey, VersionError, VersionSelector};

use super::entries::{Entry, Version};
use crate::{
    BatchError, FoundVersion, Labels, Removal,
    selection::{SelectedNumber, SelectionPurpose, VersionCriteria, VersionIndex, select_version},
};

/// Result of selecting a version.
enum Selection<'a> {
    Found(&'a Version),
    AllYanked,
    Missing,
}

impl VersionIndex for Entry {
    type Error = Infallible;

    fn is_present(&self) -> bool {
        self.is_present
    }

    fn latest(&self) -> u64 {
        Self::latest(self)
    }

    fn labels(&self) -> Result<Labels, Infallible> {
        Ok(Self::labels(self))
    }

    fn newest(&self, criteria: &VersionCriteria<'_>) -> Result<Option<u64>, Infallible> {
        Ok(Self::newest(self, criteria))
    }
}

impl Entry {
    pub(crate) fn find(&self, selector: &VersionSelector) -> FoundVersion {
        match self.select(selector, SelectionPurpose::Read) {
            Selection::Found(version) => FoundVersion::Found {
                version: version.info.clone(),
                content: version.content.clone(),
            },
            Selection::AllYanked => FoundVersion::AllYanked,
            Selection::Missing => FoundVersion::Missing,
        }
    }

    fn select(&self, selector: &VersionSelector, purpose: SelectionPurpose) -> Selection<'_> {
        let Ok(selected) = select_version(self, selector, purpose);
        match selected {
            SelectedNumber::Number(number) => {
                self.get(number).map_or(Selection::Missing, Selection::Found)
            }
            SelectedNumber::AllYanked => Selection::AllYanked,
            SelectedNumber::Missing => Selection::Missing,
        }
    }

    pub(super) fn missing(&self, key: &EntryKey, selector: &VersionSelector) -> BatchError {
        let (kind, id) = (key.kind, key.id.to_string());
        let page = self.page(None, AvailableVersions::LISTED);
        if page.count == 0 {
            return VersionError::NoEntry { kind, id }.into();
        }
        let numbers = page.versions.iter().map(|version| version.number).collect();
        let available = AvailableVersions::new(numbers, page.count);
        VersionError::NotFound { kind, id, selector: selector.to_string(), available }.into()
    }

    /// Returns a version that retention has not taken.
    pub(super) fn find_existing(
        &self,
        key: &EntryKey,
        selector: &VersionSelector,
        purpose: SelectionPurpose,
    ) -> Result<&Version, BatchError> {
        let (kind, id) = (key.kind, key.id.to_string());
        let version = match self.select(selector, purpose) {
            Selection::Found(version) => version,
            Selection::AllYanked => return Err(VersionError::AllYanked { kind, id }.into()),
            Selection::Missing => return Err(self.missing(key, selector)),
        };
        if version.info.removal == Some(Removal::Collected) {
            let page = self.page(None, AvailableVersions::LISTED);
            let numbers = page.versions.iter().map(|version| version.number).collect();
            let available = AvailableVersions::new(numbers, page.count);
            let version = version.info.number;
            return Err(VersionError::Collected { id, version, available }.into());
        }
        Ok(version)
    }

    /// Returns a version that may be yanked or unyanked.
    pub(super) fn withdrawable(
        &self,
        key: &EntryKey,
        selector: &VersionSelector,
    ) -> Result<&Version, BatchError> {
        self.readable(key, selector, SelectionPurpose::Withdraw)
    }

    /// Returns a version whose content is there.
    fn readable(
        &self,
        key: &EntryKey,
        selector: &VersionSelector,
        purpose: SelectionPurpose,
    ) -> Result<&Version, BatchError> {
        let found = self.find_existing(key, selector, purpose)?;
        let (id, version) = (key.id.to_string(), found.info.number);
        match (&found.info.removal, &found.info.yanked) {
            (Some(_), reason) => {
                let reason = reason.clone().unwrap_or_default();
                Err(VersionError::Purged { id, version, reason }.into())
            }
            (None, _) => Ok(found),
        }
    }

    /// Returns a version that may be promoted or rolled back to.
    pub(super) fn usable(
        &self,
        key: &EntryKey,
        selector: &VersionSelector,
    ) -> Result<&Version, BatchError> {
        let found = self.readable(key, selector, SelectionPurpose::Read)?;
        match &found.info.yanked {
            Some(reason) => {
                let (id, version) = (key.id.to_string(), found.info.number);
                Err(VersionError::Yanked { id, version, reason: reason.clone() }.into())
            }
            None => Ok(found),
        }
    }
}
