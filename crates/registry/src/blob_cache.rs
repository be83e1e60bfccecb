//! Reads of blobs through a cache of bounded size.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use skills_core::{Digest, WorkAccount, WorkKind, work::StopFlag};
use skills_store::{Store, StoreError};

use crate::{RegistryError, SizedLruCache};

/// Reading a file from the store. Surfaces reserve the memory of files before they read them, and hold it afterwards.
const READ: WorkKind = WorkKind::io("reading a file from the store");

#[derive(Debug)]
pub(crate) struct BlobCache {
    store: Arc<dyn Store>,
    cache: SizedLruCache<Digest, Bytes>,
    direct_reads: DirectReads,
}

impl BlobCache {
    pub(crate) fn new(store: Arc<dyn Store>, max_bytes: usize) -> Self {
        let cache = SizedLruCache::new(max_bytes);
        Self { store, cache, direct_reads: DirectReads::new() }
    }

    /// Returns the bytes with this digest, or `None` when the store does not have them.
    pub(crate) async fn get(&self, digest: Digest) -> Result<Option<Bytes>, RegistryError> {
        if let Some(bytes) = self.cache.get(&digest) {
            return Ok(Some(bytes));
        }
        let bytes = self.read(digest, false).await?;
        if let Some(bytes) = &bytes {
            self.cache.put(digest, bytes.clone(), bytes.len());
        }
        Ok(bytes)
    }

    /// Returns the bytes with this digest without caching them, for passes over many blobs: each is read once, and would
    /// displace those that are read often. If `may_block`, the calling thread may wait for the disk.
    pub(crate) async fn get_uncached(
        &self,
        digest: Digest,
        may_block: bool,
    ) -> Result<Option<Bytes>, RegistryError> {
        match self.cache.get(&digest) {
            Some(bytes) => Ok(Some(bytes)),
            None => self.read(digest, may_block).await,
        }
    }

    async fn read(&self, digest: Digest, may_block: bool) -> Result<Option<Bytes>, RegistryError> {
        if self.store.is_local() && may_block {
            Ok(self.store.blob(&digest)?)
        } else if self.store.is_local() && self.direct_reads.are_fast() {
            Ok(self.direct_reads.time(|| self.store.blob(&digest))?)
        } else {
            self.read_on_blocking_thread(digest).await
        }
    }

    /// Removes blobs that the store no longer has.
    pub(crate) fn forget(&self, digests: &[Digest]) {
        for digest in digests {
            self.cache.remove(digest);
        }
    }

    /// Removes all blobs.
    pub(crate) fn clear(&self) {
        self.cache.clear();
    }

    async fn read_on_blocking_thread(
        &self,
        digest: Digest,
    ) -> Result<Option<Bytes>, RegistryError> {
        let store = Arc::clone(&self.store);
        let read = move |_: &StopFlag| store.blob(&digest);
        Ok(WorkAccount::current().run(READ, 0, read).await??)
    }
}

/// Decides whether blobs are read on the caller's thread.
///
/// While the system caches the file, reading a blob costs less than passing it between threads. A read that waits for
/// the disk stops all tasks of its thread, so after a slow one blobs are read on blocking threads for a while.
#[derive(Debug)]
struct DirectReads {
    created: Instant,
    /// End of that while, in microseconds since the creation.
    resume_at: AtomicU64,
}

impl DirectReads {
    /// Duration of a read that waited for the disk.
    const SLOW: Duration = Duration::from_millis(1);
    /// Pause after a slow read, as a multiple of its duration: slow reads take at most 5 % of a thread's time.
    const PAUSE_FACTOR: u32 = 20;

    fn new() -> Self {
        Self { created: Instant::now(), resume_at: AtomicU64::new(0) }
    }

    fn micros_at(&self, time: Instant) -> u64 {
        u64::try_from((time - self.created).as_micros()).unwrap_or(u64::MAX)
    }

    fn are_fast(&self) -> bool {
        let resume_at = self.resume_at.load(Ordering::Relaxed);
        resume_at == 0 || self.micros_at(Instant::now()) >= resume_at
    }

    fn time<T>(&self, read: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let started = Instant::now();
        let outcome = read();
        let ended = Instant::now();
        let duration = ended - started;
        if duration > Self::SLOW {
            let resume_at = ended + duration * Self::PAUSE_FACTOR;
            self.resume_at.store(self.micros_at(resume_at), Ordering::Relaxed);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_slow_read_pauses_direct_reads() {
        let reads = DirectReads::new();
        assert!(reads.are_fast());
        reads.time(|| Ok(())).unwrap();
        let slow = || {
            thread::sleep(20 * DirectReads::SLOW);
            Ok(())
        };
        reads.time(slow).unwrap();
        let least = DirectReads::SLOW * 20 * DirectReads::PAUSE_FACTOR;
        let paused_until = reads.resume_at.load(Ordering::Relaxed);
        assert!(paused_until >= u64::try_from(least.as_micros()).unwrap());
        reads.resume_at.store(u64::MAX, Ordering::Relaxed);
        assert!(!reads.are_fast());
        reads.resume_at.store(reads.micros_at(Instant::now()), Ordering::Relaxed);
        assert!(reads.are_fast());
    }
}
