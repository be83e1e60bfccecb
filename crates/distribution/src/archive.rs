//! Zip archives of skills. Their bytes depend on the files alone, so that a marketplace can pin their digests.
//!
//! An archive is packed in memory, one file at a time, into a buffer that it fits in: a bundle of the largest size needs no
//! more than its archive and its largest file, which is within the share of a client.

use std::{
    io::{Cursor, Write as _},
    sync::Arc,
};

use bytes::Bytes;
use lru::LruCache;
use parking_lot::Mutex;
use skills_core::{Digest, Tier, WorkAccount, WorkKind, work::StopFlag};
use skills_git::EntryMode;
use skills_registry::{SkillRegistry, SkillRow};
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::{
    error::DistributionError,
    row_memory::{scan_memory, total_bytes},
    skill_tree::{BlobIds, read_file},
};

/// Most remembered digests.
const MAX_DIGESTS: usize = 1 << 15;
/// Bytes that are compressed between two checks of the stop flag.
const STEP: usize = 1 << 20;
/// Bytes of an archive for each file besides its content and twice its path: two headers, and the ends of blocks.
const FILE_OVERHEAD: usize = 192;

const ARCHIVE: WorkKind = WorkKind::compute("zip archive of a skill");

/// Tier, id and content of a skill.
type ArchiveKey = (Tier, Arc<str>, Digest);

/// Digests of archives: computing one needs all files.
#[derive(Debug)]
pub(crate) struct ArchiveDigests(Mutex<LruCache<ArchiveKey, Digest>>);

impl Default for ArchiveDigests {
    fn default() -> Self {
        Self(Mutex::new(LruCache::unbounded()))
    }
}

impl ArchiveDigests {
    /// Returns the digest of a version's archive, if it is known.
    pub(crate) fn get(&self, row: &SkillRow) -> Option<Digest> {
        self.0.lock().get(&key(row)).copied()
    }

    /// Returns the digest of a version's archive. The thread is that of work on an account.
    pub(crate) async fn compute(
        &self,
        skills: &dyn SkillRegistry,
        blobs: &BlobIds,
        row: &SkillRow,
        (account, stop): (&WorkAccount, &StopFlag),
    ) -> Result<Digest, DistributionError> {
        let _reservation = account.memory().try_reserve(memory(row))?;
        let digest = Digest::of(&pack(skills, blobs, row, stop).await?);
        let mut digests = self.0.lock();
        digests.put(key(row), digest);
        if digests.len() > MAX_DIGESTS {
            digests.pop_lru();
        }
        Ok(digest)
    }
}

fn key(row: &SkillRow) -> ArchiveKey {
    (row.tier, Arc::clone(&row.id), row.meta.digest())
}

/// Archive and its digest.
pub(crate) struct Archive {
    pub(crate) bytes: Bytes,
    pub(crate) digest: Digest,
}

/// Packs a version of a skill, with `SKILL.md` at the archive's root.
pub(crate) async fn archive(
    skills: &Arc<dyn SkillRegistry>,
    blobs: &Arc<BlobIds>,
    row: &Arc<SkillRow>,
) -> Result<Archive, DistributionError> {
    let account = WorkAccount::current();
    let (skills, blobs, own) = (Arc::clone(skills), Arc::clone(blobs), account.clone());
    let (bytes, row) = (memory(row), Arc::clone(row));
    let packed = account.run(ARCHIVE, bytes, move |stop| {
        let bytes: Bytes = own.block_on(pack(&*skills, &blobs, &row, stop))?.into();
        Ok::<_, DistributionError>(Archive { digest: Digest::of(&bytes), bytes })
    });
    packed.await?
}

/// Returns the memory for packing a skill: the archive, and what is read at a time.
fn memory(row: &SkillRow) -> usize {
    max_size(row).saturating_add(scan_memory(row))
}

/// Returns the size of a skill's archive, at most. Deflate stores what it cannot compress.
fn max_size(row: &SkillRow) -> usize {
    let total = total_bytes(row);
    let names: usize = row.meta.files.iter().map(|file| 2 * file.path.len() + FILE_OVERHEAD).sum();
    total.saturating_add(total / 1024).saturating_add(names)
}

async fn pack(
    skills: &dyn SkillRegistry,
    blobs: &BlobIds,
    row: &SkillRow,
    stop: &StopFlag,
) -> Result<Vec<u8>, DistributionError> {
    let objects = blobs.scanned_objects(skills, row, true).await?;
    let mut files: Vec<_> = objects.files.into_iter().chain(objects.left_out).collect();
    files.sort_by(|left, right| left.path.cmp(&right.path));
    let mut archive = ZipWriter::new(Cursor::new(Vec::with_capacity(max_size(row))));
    for file in files {
        let mode = if file.mode == EntryMode::Executable { 0o755 } else { 0o644 };
        let bytes = match file.bytes {
            Some(bytes) => bytes,
            None => read_file(skills, row, &file.path).await?,
        };
        // The default time is a constant.
        let options = SimpleFileOptions::default().unix_permissions(mode);
        archive.start_file(file.path.as_str(), options)?;
        for part in bytes.chunks(STEP) {
            stop.check()?;
            archive.write_all(part).map_err(zip::result::ZipError::from)?;
        }
    }
    let mut bytes = archive.finish()?.into_inner();
    bytes.shrink_to_fit();
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use skills_agent_skills::Bundle;
    use skills_core::{Layer, limits::MAX_BUNDLE_BYTES};
    use skills_registry::{Registry, RegistryConfig};
    use skills_store::MemoryStore;

    use super::*;
    use crate::pack_entries::PackEntries;

    /// Bytes that no compression makes fewer.
    fn noise(length: usize) -> Bytes {
        let mut state = 7_u64;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        std::iter::repeat_with(next).flat_map(u64::to_le_bytes).take(length).collect()
    }

    #[tokio::test]
    async fn an_archive_is_no_larger_than_the_memory_that_it_reserves() {
        let registry =
            Registry::open(Arc::new(MemoryStore::new()), None, RegistryConfig::default()).unwrap();
        let bundle = |files: Vec<(String, Bytes)>| {
            let files = files.into_iter().map(|(path, bytes)| (path.parse().unwrap(), bytes));
            Bundle::new("# A\n\nText.\n".to_owned(), files.collect()).unwrap()
        };
        let many = (0..500).map(|number| (format!("folder-{number}/file"), noise(100 + number)));
        for (id, bundle) in [
            ("many", bundle(many.collect())),
            ("large", bundle(vec![("large.bin".to_owned(), noise(3_000_000))])),
        ] {
            registry.register_bundle("t", &Layer::Official, id, bundle).await.unwrap();
            let row = Arc::clone(registry.catalog().stored(id).unwrap());
            let skills: Arc<dyn SkillRegistry> = Arc::clone(&registry) as _;
            let blobs = Arc::new(BlobIds::new(Arc::<PackEntries>::default()));
            let archive = archive(&skills, &blobs, &row).await.unwrap();
            assert!(archive.bytes.len() <= max_size(&row), "{id}: {}", archive.bytes.len());
        }
    }

    #[test]
    fn a_bundle_of_the_largest_size_is_packed_within_the_share_of_a_client() {
        let meta = |sizes: &[usize]| {
            let mut meta =
                Bundle::<Bytes>::new("# A\n\nText.\n".to_owned(), vec![]).unwrap().meta().clone();
            let file = meta.files[0].clone();
            meta.files.extend(sizes.iter().map(|size| skills_core::FileMeta {
                path: format!("{size}.bin"),
                size: *size as u64,
                ..file.clone()
            }));
            meta
        };
        let root = 11;
        for sizes in [vec![MAX_BUNDLE_BYTES - root], vec![16 << 20, (16 << 20) - root]] {
            let pinned = skills_registry::ReadVersion::new(1, None);
            let at = skills_core::Timestamp::from_micros(1);
            let row = SkillRow::of_version("a".into(), Tier::Official, meta(&sizes), at, pinned);
            let account =
                skills_core::WorkAccounts::new(skills_core::MemoryBudget::default()).open();
            assert!(account.memory().try_reserve(memory(&row)).is_ok(), "{sizes:?}");
        }
    }
}
