//! Memory for reading the files of a skill.

use skills_registry::SkillRow;

/// Most bytes of small files that are held together while the ids of a skill's files are computed.
const HELD: usize = 1 << 20;
/// Most bytes that a root document grows by, since it has the frontmatter that Agent Skills require.
const HEADER: usize = 64 << 10;

/// Returns the bytes of all files of a skill as clients get them, at most.
pub(crate) fn total_bytes(row: &SkillRow) -> usize {
    usize::try_from(row.meta.total_bytes()).unwrap_or(usize::MAX).saturating_add(HEADER)
}

/// Returns the bytes of the largest file of a skill as clients get it, at most.
pub(crate) fn largest_file(row: &SkillRow) -> usize {
    let largest = row.meta.files.iter().map(|file| file.size).max().unwrap_or_default();
    usize::try_from(largest).unwrap_or(usize::MAX).saturating_add(HEADER)
}

/// Returns the memory for computing the ids of a skill's files: the largest one, and small ones that are held.
pub(crate) fn scan_memory(row: &SkillRow) -> usize {
    largest_file(row).saturating_add(total_bytes(row).min(HELD))
}
