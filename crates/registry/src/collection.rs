//! Removal of the content of old versions.

use skills_core::{EntryKey, Timestamp};
use skills_store::{CollectionSize, Effect, Mutation, Retention, Store, VersionMutation};

use crate::{CollectRequest, Collected, Registry, RegistryError, version_lookup::PAGE_BYTES};

/// Versions that a collection removes at once; writes of clients go between two of these batches.
const COLLECTED_AT_ONCE: usize = 64;

impl Registry {
    /// Removes the content of versions that a retention rule no longer keeps, in small batches between the writes of
    /// clients. What was removed stays removed if the process ends on the way.
    ///
    /// # Errors
    /// When the store fails, or keeps no history.
    pub async fn collect(
        &self,
        actor: &str,
        request: &CollectRequest,
    ) -> Result<Collected, RegistryError> {
        let (retention, dry_run) = (Retention::from(*request), request.dry_run);
        let now = Timestamp::now();
        if retention.keeps_all() {
            return Ok(Collected::new(CollectionSize::default(), dry_run));
        }
        if dry_run {
            let read = move |store: &dyn Store| store.expired_size(&retention, now);
            let size = self.read_store(PAGE_BYTES, read).await?;
            return Ok(Collected::new(size, dry_run));
        }
        let mut size = CollectionSize::default();
        let mut from: Option<EntryKey> = None;
        loop {
            let start = from.clone();
            let expired = self
                .read_store(PAGE_BYTES, move |store| {
                    store.expired(&retention, now, start.as_ref(), COLLECTED_AT_ONCE)
                })
                .await?;
            from = expired.versions.last().map(|(key, _)| key.clone());
            let batch = expired.versions.into_iter().map(|(key, version)| Mutation::Version {
                key,
                change: VersionMutation::Collect { version },
            });
            let freed = self.submit(actor, batch.collect(), |result| Ok(erased(&result?))).await?;
            size.versions += freed.versions;
            size.bytes += freed.bytes;
            if !expired.has_more || freed.versions == 0 {
                break;
            }
        }
        while self.read_store(0, Store::release_space).await? {}
        Ok(Collected::new(size, dry_run))
    }
}

fn erased(effects: &[Effect]) -> CollectionSize {
    let sizes = effects.iter().filter_map(|effect| match effect {
        Effect::Erased { bytes, .. } => Some(CollectionSize { versions: 1, bytes: *bytes }),
        _ => None,
    });
    sizes.fold(CollectionSize::default(), |sum, size| CollectionSize {
        versions: sum.versions + size.versions,
        bytes: sum.bytes + size.bytes,
    })
}
