//! Collections of skills: listing, reading and writing them. They are stored like skills and prompts, with versions and in
//! the change log.

use serde::{Deserialize, Serialize};
use skills_core::{EntryKey, EntryKind, Layer, SkillCollection, SkillId, Tier};
use skills_store::{EntryContent, Mutation};

use crate::{
    Catalog, CollectionRow, PublishRequest, Published, Registry, RegistryError,
    pending_write::PendingWrite,
    writing::{to_published, to_removed},
};

/// Message of [`RegistryError::Unsupported`] where collections cannot be stored.
pub(crate) const NO_COLLECTIONS: &str = "this registry does not store collections";

/// A collection as surfaces show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionInfo {
    /// Name of the collection.
    pub name: String,
    /// Tier in which it is stored.
    pub tier: Tier,
    /// Title, description and skills.
    #[serde(flatten)]
    pub collection: SkillCollection,
    /// Time of registration in RFC 3339.
    pub registered_at: String,
    /// Number of the version, in a registry with history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

impl From<&CollectionRow> for CollectionInfo {
    fn from(row: &CollectionRow) -> Self {
        Self {
            name: row.name.to_string(),
            tier: row.tier,
            collection: row.collection.clone(),
            registered_at: row.registered_at.to_string(),
            version: row.heads.as_ref().map(|heads| heads.served),
        }
    }
}

impl Catalog {
    /// Lists the collections that their names resolve to, sorted by name.
    #[must_use]
    pub fn collection_infos(&self) -> Vec<CollectionInfo> {
        self.collections().filter_map(|row| row.readable().ok()).map(Into::into).collect()
    }

    /// Returns the collection that a name resolves to.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn collection_info(&self, name: &str) -> Result<CollectionInfo, RegistryError> {
        let name: SkillId = name.parse()?;
        let row = self.collection(name.as_str()).ok_or_else(|| RegistryError::NotFound {
            kind: EntryKind::Collection,
            id: name.to_string(),
        })?;
        Ok(row.readable()?.into())
    }
}

impl Registry {
    /// Stores a collection, under a condition on its newest version.
    pub fn put_collection(
        &self,
        actor: &str,
        layer: &Layer,
        name: &str,
        collection: SkillCollection,
        request: PublishRequest,
    ) -> PendingWrite<Published> {
        if !self.stores_collections() {
            return PendingWrite::reject(RegistryError::Unsupported(NO_COLLECTIONS));
        }
        let put = || {
            let id = name.parse::<SkillId>()?.to_shared();
            layer.check_writable()?;
            let options = request.check()?;
            let content = EntryContent::Collection(collection.validate()?);
            Ok(vec![Mutation::Put { layer: layer.clone(), id, content, blobs: vec![], options }])
        };
        self.submit_checked(actor, put(), to_published)
    }

    /// Removes a collection. Returns whether it existed.
    pub fn remove_collection(&self, actor: &str, layer: &Layer, name: &str) -> PendingWrite<bool> {
        if !self.stores_collections() {
            return PendingWrite::reject(RegistryError::Unsupported(NO_COLLECTIONS));
        }
        let batch = name.parse::<SkillId>().map(|name| {
            let (kind, layer, id) = (EntryKind::Collection, layer.clone(), name.to_shared());
            vec![Mutation::Remove(EntryKey { kind, layer, id })]
        });
        self.submit_checked(actor, batch, to_removed)
    }

    /// Returns whether the store is one of its own, and not the state of an engine, which has no shape for collections.
    fn stores_collections(&self) -> bool {
        std::sync::Arc::clone(self.store()).as_concurrent().is_none()
    }
}
