//! Lookups of entries and their versions. Versions are not in the catalog: they are read from the store through a cache.

use std::sync::Arc;

use skills_core::{
    AvailableVersions, Caller, EntryKey, EntryKind, Layer, PromptDefinition, PromptName, SkillId,
    Tier, VersionError, VersionSelector, WorkAccount, WorkKind,
};
use skills_store::{EntryContent, FoundVersion, Removal, Store, StoreError};

use crate::{
    ReadVersion, Registry, RegistryError, SkillRow,
    version_cache::{SelectedContent, SelectedVersion},
};

/// Reading entries, versions and the log from the store.
pub(crate) const READ: WorkKind = WorkKind::io("reading the store");

/// Memory of a page of versions or of the log: a message for each of them.
pub(crate) const PAGE_BYTES: usize = 512 << 10;
/// Memory of the content of a version: its list of files.
const CONTENT_BYTES: usize = 2 << 20;

impl Registry {
    /// Returns the key of the entry that a name means for a caller: in a tier, or where the name resolves to, even if that
    /// entry serves nothing. An entry that was removed is found by its versions; an unknown one is taken to be official.
    ///
    /// Does not wait if a tier is given or the entry is in the catalog.
    ///
    /// # Errors
    /// When the name is invalid, or a private entry is requested without a key.
    pub async fn entry_key(
        &self,
        caller: &Caller,
        kind: EntryKind,
        tier: Option<Tier>,
        name: &str,
    ) -> Result<EntryKey, RegistryError> {
        let id: Arc<str> = match kind {
            EntryKind::Skill | EntryKind::Collection => name.parse::<SkillId>()?.to_shared(),
            EntryKind::Prompt => name.parse::<PromptName>()?.to_shared(),
        };
        let catalog = self.catalog_for(caller);
        let stored = catalog.stored_entry(kind, tier, name);
        let listed = stored.map(|(tier, id)| (tier, Arc::clone(id)));
        let key = |layer, id| EntryKey { kind, layer, id };
        let layer = |tier| caller.layer(tier).ok_or(RegistryError::KeyNeeded);
        match (listed, tier) {
            (Some((tier, id)), _) => Ok(key(layer(tier)?, id)),
            (None, Some(tier)) => Ok(key(layer(tier)?, id)),
            (None, None) => {
                let layers = visible_layers(caller);
                let keys = layers.into_iter().map(|layer| key(layer, Arc::clone(&id))).collect();
                let known = self.first_with_versions(keys).await?;
                Ok(known.unwrap_or_else(|| key(Layer::Official, id)))
            }
        }
    }

    /// Returns the first of some entries that has versions.
    async fn first_with_versions(
        &self,
        keys: Vec<EntryKey>,
    ) -> Result<Option<EntryKey>, RegistryError> {
        self.read_store(PAGE_BYTES, move |store| {
            for key in keys {
                if store.versions(&key, None, 1)?.count > 0 {
                    return Ok(Some(key));
                }
            }
            Ok(None)
        })
        .await
    }

    /// Reads the store on a blocking thread, on the current account. What is read takes at most `bytes` of memory.
    pub(crate) async fn read_store<T: Send + 'static>(
        &self,
        bytes: usize,
        read: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, RegistryError> {
        let store = Arc::clone(self.store());
        Ok(WorkAccount::current().run(READ, bytes, move |_| read(&*store)).await??)
    }

    /// Looks up a version of an entry, in a cache of bounded size.
    pub(crate) async fn select_version(
        &self,
        key: &EntryKey,
        selector: &VersionSelector,
    ) -> Result<Arc<SelectedVersion>, RegistryError> {
        let cache = &self.publisher().versions;
        if let Some(found) = cache.get(key, selector) {
            return Ok(found);
        }
        let generation = cache.generation(key);
        let (wanted, entry) = (selector.clone(), key.clone());
        let lookup =
            self.read_store(CONTENT_BYTES, move |store| store.version(&entry, &wanted)).await?;
        let (version, content) = match lookup {
            FoundVersion::Found { version, content } => (version, content),
            FoundVersion::AllYanked => {
                let error = VersionError::AllYanked { kind: key.kind, id: key.id.to_string() };
                return Err(error.into());
            }
            FoundVersion::Missing => return Err(self.missing_version(key, selector).await?),
        };
        let weight = content.as_deref().map_or(0, EntryContent::weight);
        let content = match content.as_deref() {
            Some(EntryContent::Skill(meta)) => {
                let pinned = ReadVersion::new(version.number, version.yanked.clone());
                let (id, tier, at) = (Arc::clone(&key.id), key.layer.tier(), version.registered_at);
                let row = SkillRow::of_version(id, tier, meta.clone(), at, pinned);
                SelectedContent::Skill(Arc::new(row))
            }
            Some(EntryContent::Prompt(definition)) => SelectedContent::Prompt(definition.clone()),
            Some(EntryContent::Collection(collection)) => {
                SelectedContent::Collection(collection.clone())
            }
            Some(EntryContent::Corrupt { reason, .. }) => SelectedContent::Corrupt(reason.clone()),
            None => SelectedContent::Gone,
        };
        let found = Arc::new(SelectedVersion { version, content });
        cache.put(key.clone(), selector.clone(), generation, &found, weight);
        Ok(found)
    }

    /// Returns the error for a version that an entry does not have.
    async fn missing_version(
        &self,
        key: &EntryKey,
        selector: &VersionSelector,
    ) -> Result<RegistryError, RegistryError> {
        let available = self.available_versions(key).await?;
        let (kind, id) = (key.kind, key.id.to_string());
        Ok(match available {
            None => RegistryError::NotFound { kind, id },
            Some(available) => {
                VersionError::NotFound { kind, id, selector: selector.to_string(), available }
                    .into()
            }
        })
    }

    /// Returns the newest versions of an entry for an error; `None` if it never existed.
    async fn available_versions(
        &self,
        key: &EntryKey,
    ) -> Result<Option<AvailableVersions>, RegistryError> {
        let entry = key.clone();
        let page = self
            .read_store(PAGE_BYTES, move |store| {
                store.versions(&entry, None, AvailableVersions::LISTED)
            })
            .await?;
        let numbers: Vec<u64> = page.versions.iter().map(|version| version.number).collect();
        Ok((page.count > 0).then(|| AvailableVersions::new(numbers, page.count)))
    }

    /// Returns the error for a version that retention took.
    pub(crate) async fn collected_error(
        &self,
        key: &EntryKey,
        version: u64,
    ) -> Result<RegistryError, RegistryError> {
        let available = self.available_versions(key).await?.unwrap_or_default();
        Ok(VersionError::Collected { id: key.id.to_string(), version, available }.into())
    }

    /// Returns the version if its content is there.
    pub(crate) async fn readable_version(
        &self,
        key: &EntryKey,
        selector: &VersionSelector,
    ) -> Result<Arc<SelectedVersion>, RegistryError> {
        let found = self.select_version(key, selector).await?;
        let (id, version) = (key.id.to_string(), found.version.number);
        match (found.version.removal, &found.content) {
            (Some(Removal::Purged), _) => {
                let reason = found.version.yanked.clone().unwrap_or_default();
                Err(VersionError::Purged { id, version, reason }.into())
            }
            (Some(Removal::Collected), _) => Err(self.collected_error(key, version).await?),
            (None, SelectedContent::Corrupt(reason)) => Err(corrupt(key, version, reason)),
            (None, SelectedContent::Gone) => Err(corrupt(key, version, "its metadata is missing")),
            (
                None,
                SelectedContent::Skill(_)
                | SelectedContent::Prompt(_)
                | SelectedContent::Collection(_),
            ) => Ok(found),
        }
    }

    /// Returns the row of one version of a skill.
    ///
    /// # Errors
    /// When there is no such version, or its content is gone.
    pub async fn skill_version_as(
        &self,
        caller: &Caller,
        tier: Option<Tier>,
        id: &str,
        version: &VersionSelector,
    ) -> Result<Arc<SkillRow>, RegistryError> {
        let key = self.entry_key(caller, EntryKind::Skill, tier, id).await?;
        let found = self.readable_version(&key, version).await?;
        match &found.content {
            SelectedContent::Skill(row) => Ok(Arc::clone(row)),
            _ => Err(corrupt(&key, found.version.number, "it is not a skill")),
        }
    }

    /// Returns the definition of one version of a prompt.
    pub(crate) async fn prompt_version_as(
        &self,
        caller: &Caller,
        name: &PromptName,
        version: &VersionSelector,
    ) -> Result<PromptDefinition, RegistryError> {
        let key = self.entry_key(caller, EntryKind::Prompt, None, name.as_str()).await?;
        let found = self.readable_version(&key, version).await?;
        match &found.content {
            SelectedContent::Prompt(definition) => Ok(definition.clone()),
            _ => Err(corrupt(&key, found.version.number, "it is not a prompt")),
        }
    }

    /// Returns a better error than `not found` for an entry whose versions are all yanked.
    pub(crate) async fn explain_missing(
        &self,
        caller: &Caller,
        kind: EntryKind,
        tier: Option<Tier>,
        id: &str,
        error: RegistryError,
    ) -> RegistryError {
        let Ok(key) = self.entry_key(caller, kind, tier, id).await else { return error };
        let page = self.read_store(PAGE_BYTES, move |store| store.versions(&key, None, 0)).await;
        match page {
            Ok(page) if page.is_present && page.served.is_none() && page.count > 0 => {
                VersionError::AllYanked { kind, id: id.to_owned() }.into()
            }
            _ => error,
        }
    }
}

/// Returns the layers that a caller sees, in the order of resolution.
pub(crate) fn visible_layers(caller: &Caller) -> Vec<Layer> {
    Tier::ALL.into_iter().filter_map(|tier| caller.layer(tier)).collect()
}

fn corrupt(key: &EntryKey, version: u64, reason: &str) -> RegistryError {
    RegistryError::CorruptEntry {
        kind: key.kind,
        tier: key.layer.tier(),
        id: format!("{}@{version}", key.id),
        reason: reason.to_owned(),
    }
}
