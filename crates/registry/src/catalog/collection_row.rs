//! Row of a collection.

use std::sync::Arc;

use skills_core::{EntryKind, SkillCollection, Tier, Timestamp};
use skills_store::VersionHeads;

use crate::RegistryError;

/// Row of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionRow {
    /// Name of the collection.
    pub name: Arc<str>,
    /// Tier in which it is stored.
    pub tier: Tier,
    /// The collection.
    pub collection: SkillCollection,
    /// Time of registration of this version.
    pub registered_at: Timestamp,
    /// Version numbers; `None` in a registry without history.
    pub heads: Option<VersionHeads>,
    pub(super) corrupt: Option<Box<str>>,
}

impl CollectionRow {
    /// Returns the row unless it is corrupt.
    ///
    /// # Errors
    /// When the stored entry cannot be read.
    pub fn readable(&self) -> Result<&Self, RegistryError> {
        match &self.corrupt {
            Some(reason) => Err(RegistryError::CorruptEntry {
                kind: EntryKind::Collection,
                tier: self.tier,
                id: self.name.to_string(),
                reason: reason.to_string(),
            }),
            None => Ok(self),
        }
    }
}
