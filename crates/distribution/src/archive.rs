//! Zip archives of skills. Their bytes depend on the files alone, so that a marketplace can pin their digests.

use std::{
    io::{Cursor, Write as _},
    sync::Arc,
};

use bytes::Bytes;
use lru::LruCache;
use parking_lot::Mutex;
use skills_core::{Digest, MemoryBudget, Tier, VersionSelector};
use skills_git::EntryMode;
use skills_registry::{SkillRegistry, SkillRow};
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::{
    error::DistributionError,
    history::FolderSkill,
    skill_tree::{BlobIds, read_file},
};

/// Most remembered digests.
const MAX_DIGESTS: usize = 1 << 15;
/// Memory for each byte of a skill while it is packed: its files, and the archive in a growing buffer.
const PACKING_WEIGHT: usize = 3;

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
    /// Returns the digest of the archive of a skill's version.
    pub(crate) async fn get(
        &self,
        skills: &dyn SkillRegistry,
        blobs: &BlobIds,
        skill: &FolderSkill,
        budget: &MemoryBudget,
    ) -> Result<Digest, DistributionError> {
        let selector = VersionSelector::Number(skill.version);
        let row = skills.skill_version(Some(skill.tier), &skill.id, &selector).await?;
        let key = (skill.tier, Arc::clone(&skill.id), row.meta.digest());
        if let Some(known) = self.0.lock().get(&key) {
            return Ok(*known);
        }
        let digest = Digest::of(&archive(skills, blobs, &row, budget).await?);
        let mut digests = self.0.lock();
        digests.put(key, digest);
        if digests.len() > MAX_DIGESTS {
            digests.pop_lru();
        }
        Ok(digest)
    }
}

/// Packs a version of a skill, with `SKILL.md` at the archive's root.
pub(crate) async fn archive(
    skills: &dyn SkillRegistry,
    blobs: &BlobIds,
    row: &SkillRow,
    budget: &MemoryBudget,
) -> Result<Bytes, DistributionError> {
    let bytes = usize::try_from(row.meta.total_bytes()).unwrap_or(usize::MAX);
    let _reservation = budget.try_reserve(bytes.saturating_mul(PACKING_WEIGHT))?;
    let objects = blobs.objects(skills, row).await?;
    let mut files = Vec::with_capacity(objects.files.len());
    for file in objects.files.into_iter().chain(objects.left_out) {
        let bytes = read_file(skills, row, &file.path).await?;
        files.push((file.path, file.mode == EntryMode::Executable, bytes));
    }
    files.sort_by(|left, right| left.0.cmp(&right.0));
    let packed = tokio::task::spawn_blocking(move || pack(&files)).await;
    let packed = packed.map_err(|_| DistributionError::Cancelled)?;
    Ok(packed?.into())
}

fn pack(files: &[(String, bool, Bytes)]) -> zip::result::ZipResult<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, is_executable, bytes) in files {
        let mode = if *is_executable { 0o755 } else { 0o644 };
        // The default time is a constant.
        let options = SimpleFileOptions::default().unix_permissions(mode);
        archive.start_file(path.as_str(), options)?;
        archive.write_all(bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}
