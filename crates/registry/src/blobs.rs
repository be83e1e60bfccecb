//! Bodies, through a cache of bounded size.

use std::sync::Arc;

use bytes::Bytes;
use skills_core::Digest;
use skills_store::{Store, StoreError};

use crate::{Kept, RegistryError};

#[derive(Debug)]
pub(crate) struct Blobs {
    store: Arc<dyn Store>,
    cache: Kept<Digest, Bytes>,
}

impl Blobs {
    pub(crate) fn new(store: Arc<dyn Store>, max_bytes: usize) -> Self {
        Self { store, cache: Kept::new(max_bytes) }
    }

    /// The bytes with this digest, or `None` when the store does not have them.
    pub(crate) async fn get(&self, digest: Digest) -> Result<Option<Bytes>, RegistryError> {
        if let Some(bytes) = self.cache.get(&digest) {
            return Ok(Some(bytes));
        }
        let store = Arc::clone(&self.store);
        let read = move || -> Result<Option<Bytes>, StoreError> { store.blob(&digest) };
        let bytes =
            tokio::task::spawn_blocking(read).await.map_err(|_| RegistryError::Closed)??;
        if let Some(bytes) = &bytes {
            self.cache.put(digest, bytes.clone(), bytes.len());
        }
        Ok(bytes)
    }
}
