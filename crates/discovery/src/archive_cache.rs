//! Cache of archives: each version of a bundle is packed once.

use std::hash::{BuildHasher as _, RandomState};

use bytes::Bytes;
use skills_core::{Digest, MemoryBudget, SharedReservation};
use skills_registry::{SizedLruCache, SkillRegistry, SkillRow, bundles};
use tokio::sync::{Mutex, Semaphore};

use crate::artifact::{self, ArtifactError};

/// Capacity of the cache in bytes: a few of the largest bundles.
const MAX_BYTES: usize = 64 << 20;
/// Number of archives packed concurrently.
const MAX_PACKING: usize = 2;
/// Memory for each byte of a bundle while it is packed: its files, and the archive in a growing buffer.
const PACKING_WEIGHT: usize = 3;
/// Number of locks; concurrent requests for one bundle wait for the same one, so it is packed once.
const STRIPES: usize = 16;

/// Archive and its digest.
#[derive(Debug, Clone)]
pub(crate) struct Archive {
    pub(crate) bytes: Bytes,
    pub(crate) digest: Digest,
    /// Reservation shared by all responses that send the archive.
    pub(crate) reservation: SharedReservation,
}

/// LRU cache of archives, bounded by memory.
#[derive(Debug)]
pub(crate) struct ArchiveCache {
    /// Keyed by id and content of the bundle: the id may be part of the root document's header.
    archives: SizedLruCache<(String, Digest), Archive>,
    hasher: RandomState,
    stripes: [Mutex<()>; STRIPES],
    packing: Semaphore,
    budget: MemoryBudget,
}

impl ArchiveCache {
    pub(crate) fn new(budget: MemoryBudget) -> Self {
        Self {
            archives: SizedLruCache::new(MAX_BYTES),
            hasher: RandomState::new(),
            stripes: [(); STRIPES].map(|()| Mutex::new(())),
            packing: Semaphore::new(MAX_PACKING),
            budget,
        }
    }

    /// Returns the archive of a bundle, or packs it. The memory for packing is reserved from the client's share, or from
    /// the process-wide budget if there is none.
    pub(crate) async fn get(
        &self,
        skills: &dyn SkillRegistry,
        row: &SkillRow,
        share: Option<&MemoryBudget>,
    ) -> Result<Archive, ArtifactError> {
        let version = (row.id.to_string(), bundles::version(row));
        if let Some(cached) = self.archives.get(&version) {
            return Ok(cached);
        }
        let stripe = self.hasher.hash_one(&version) % STRIPES as u64;
        let _lock = self.stripes[usize::try_from(stripe).unwrap_or_default()].lock().await;
        if let Some(cached) = self.archives.get(&version) {
            return Ok(cached);
        }
        let _permit = self.packing.acquire().await;
        let content = row.meta.files.iter().map(|file| file.size).sum::<u64>();
        let content = usize::try_from(content).unwrap_or(usize::MAX);
        let budget = share.unwrap_or(&self.budget);
        let _reservation = budget.try_reserve(content.saturating_mul(PACKING_WEIGHT))?;
        let bytes = artifact::archive(skills, row).await?;
        let archive = Archive {
            digest: Digest::of(&bytes),
            bytes,
            reservation: SharedReservation::default(),
        };
        self.archives.put(version, archive.clone(), archive.bytes.len());
        Ok(archive)
    }
}
