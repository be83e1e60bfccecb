//! Bodies, through a cache of bounded size.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use lru::LruCache;
use skills_core::Digest;
use skills_store::{Store, StoreError};

use crate::RegistryError;

#[derive(Debug)]
pub(crate) struct Blobs {
    store: Arc<dyn Store>,
    cache: Mutex<Cache>,
}

#[derive(Debug)]
struct Cache {
    entries: LruCache<Digest, Bytes>,
    bytes: usize,
    max_bytes: usize,
}

impl Blobs {
    pub(crate) fn new(store: Arc<dyn Store>, max_bytes: usize) -> Self {
        let entries = LruCache::unbounded();
        Self { store, cache: Mutex::new(Cache { entries, bytes: 0, max_bytes }) }
    }

    /// The bytes with this digest, or `None` when the store does not have them.
    pub(crate) async fn get(&self, digest: Digest) -> Result<Option<Bytes>, RegistryError> {
        if let Some(bytes) = self.cached(&digest) {
            return Ok(Some(bytes));
        }
        let store = Arc::clone(&self.store);
        let read = move || -> Result<Option<Bytes>, StoreError> { store.blob(&digest) };
        let bytes =
            tokio::task::spawn_blocking(read).await.map_err(|_| RegistryError::Closed)??;
        if let Some(bytes) = &bytes {
            self.remember(digest, bytes.clone());
        }
        Ok(bytes)
    }

    fn cached(&self, digest: &Digest) -> Option<Bytes> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).entries.get(digest).cloned()
    }

    fn remember(&self, digest: Digest, bytes: Bytes) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.bytes += bytes.len();
        if let Some((_, replaced)) = cache.entries.push(digest, bytes) {
            cache.bytes -= replaced.len();
        }
        while cache.bytes > cache.max_bytes
            && let Some((_, evicted)) = cache.entries.pop_lru()
        {
            cache.bytes -= evicted.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use skills_store::MemoryStore;

    use super::*;

    #[test]
    fn the_cache_stays_within_its_bound_and_keeps_the_newest() {
        let blobs = Blobs::new(Arc::new(MemoryStore::new()), 100);
        for number in 0..20_u8 {
            let bytes = Bytes::from(vec![number; 30]);
            blobs.remember(Digest::of(&bytes), bytes.clone());
            blobs.remember(Digest::of(&bytes), bytes);
        }
        let cache = blobs.cache.lock().unwrap();
        assert_eq!((cache.entries.len(), cache.bytes), (3, 90));
        assert!(cache.entries.contains(&Digest::of(&[19; 30])));
    }
}
