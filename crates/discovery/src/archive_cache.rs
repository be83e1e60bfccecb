//! Cache of archives: each version of a bundle is packed once.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use bytes::Bytes;
use skills_core::{
    Digest, SharedReservation, WorkAccount, WorkKind,
    work::{StopFlag, Turn, TurnEnd, Turns},
};
use skills_registry::{SizedLruCache, SkillRegistry, SkillRow, bundles};

use crate::artifact::{self, ArtifactError};

/// Capacity of the cache in bytes: a few of the largest bundles.
const MAX_BYTES: usize = 64 << 20;
/// Number of places where clients wait; those of one bundle wait at the same one, so it is packed once.
const STRIPES: usize = 16;

const ARCHIVE: WorkKind = WorkKind::compute("archive of a published bundle");

/// Archive and its digest.
#[derive(Debug, Clone)]
pub(crate) struct Archive {
    pub(crate) bytes: Bytes,
    pub(crate) digest: Digest,
    /// Reservation shared by all responses that send the archive.
    pub(crate) reservation: SharedReservation,
}

/// Id and content of a bundle: the id may be part of the root document's header.
type BundleVersion = (String, Digest);

/// LRU cache of archives, bounded by memory.
#[derive(Debug)]
pub(crate) struct ArchiveCache {
    archives: SizedLruCache<BundleVersion, Archive>,
    hasher: RandomState,
    stripes: [Turns<()>; STRIPES],
}

impl ArchiveCache {
    pub(crate) fn new() -> Self {
        Self {
            archives: SizedLruCache::new(MAX_BYTES),
            hasher: RandomState::new(),
            stripes: std::array::from_fn(|_| Turns::default()),
        }
    }

    fn cached(&self, row: &SkillRow) -> Option<Archive> {
        self.archives.get(&(row.id.to_string(), bundles::version(row)))
    }

    /// Returns the archive of a bundle, or packs it on the account of the client.
    pub(crate) async fn get(
        self: &Arc<Self>,
        skills: &Arc<dyn SkillRegistry>,
        row: &Arc<SkillRow>,
    ) -> Result<Archive, ArtifactError> {
        if let Some(cached) = self.cached(row) {
            return Ok(cached);
        }
        let account = WorkAccount::current();
        let version = (row.id.to_string(), bundles::version(row));
        let stripe = self.hasher.hash_one(&version) % STRIPES as u64;
        let stripe = &self.stripes[usize::try_from(stripe).unwrap_or_default()];
        let (cache, skills, row) = (Arc::clone(self), Arc::clone(skills), Arc::clone(row));
        let (own, bytes) = (account.clone(), artifact::archive_memory(&row));
        // The cache has room for the largest bundle.
        let find = |(): &()| self.archives.get(&version);
        let turn = move |(): &mut (), turn: &Turn<'_>| {
            own.block_on(cache.pack(&*skills, &row, turn.stop())).map(|_| TurnEnd::Over)
        };
        stripe.take(&account, (ARCHIVE, bytes), find, turn).await
    }

    /// Packs a bundle, unless it is cached. The thread is that of work on an account, which has reserved the memory.
    pub(crate) async fn pack(
        &self,
        skills: &dyn SkillRegistry,
        row: &SkillRow,
        stop: &StopFlag,
    ) -> Result<Archive, ArtifactError> {
        if let Some(cached) = self.cached(row) {
            return Ok(cached);
        }
        let bytes = artifact::archive(skills, row, stop).await?;
        let (digest, reservation) = (Digest::of(&bytes), SharedReservation::default());
        let archive = Archive { digest, bytes, reservation };
        let version = (row.id.to_string(), bundles::version(row));
        self.archives.put(version, archive.clone(), archive.bytes.len());
        Ok(archive)
    }
}
