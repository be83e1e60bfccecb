//! Bytes of a published skill. They depend on the content of the skill alone.

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::{Compression, GzBuilder};
use skills_agent_skills::Bundle;
use skills_core::{
    Coded as _, WorkError,
    skill::ROOT_PATH,
    work::{StopFlag, Stopped},
};
use skills_http::is_unavailable;
use skills_registry::{
    RegistryError, SkillRegistry, SkillRow, available::agent_header, bundles::read_row,
};

/// Failure to build an artifact.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArtifactError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("cannot write the archive: {0}")]
    Archive(#[from] io::Error),
    #[error(transparent)]
    Work(#[from] WorkError),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl ArtifactError {
    /// Returns whether the same request may succeed later, so that nothing may be left out of an index.
    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            Self::Registry(error) => is_unavailable(error.code()),
            Self::Work(WorkError::OverBudget(_) | WorkError::Busy) | Self::Stopped(_) => true,
            Self::Archive(_) | Self::Work(WorkError::Panicked(_)) => false,
        }
    }
}

/// Returns the root document of a skill, with frontmatter.
pub(crate) async fn document(
    skills: &dyn SkillRegistry,
    row: &SkillRow,
) -> Result<Bytes, RegistryError> {
    let body = skills.document(row, ROOT_PATH).await?.body;
    let header = agent_header(row, &String::from_utf8_lossy(&body));
    Ok(if header.is_empty() { body } else { [header.as_bytes(), &body].concat().into() })
}

/// Memory of a file in an archive besides its content and twice its path: two headers of tar, and their padding.
const FILE_OVERHEAD: usize = 2560;
/// Bytes of an archive besides its files, with those that a root document grows by.
const OVERHEAD: usize = 128 << 10;

/// Returns the memory for packing a bundle: its files, and the archive in a buffer that it fits in.
pub(crate) fn archive_memory(row: &SkillRow) -> usize {
    content(row).saturating_add(max_size(row))
}

fn content(row: &SkillRow) -> usize {
    usize::try_from(row.meta.total_bytes()).unwrap_or(usize::MAX)
}

/// Returns the size of an archive, at most. Deflate stores what it cannot compress.
fn max_size(row: &SkillRow) -> usize {
    let names: usize = row.meta.files.iter().map(|file| 2 * file.path.len() + FILE_OVERHEAD).sum();
    let tar = content(row).saturating_add(names);
    tar.saturating_add(tar / 1024).saturating_add(OVERHEAD)
}

/// Packs a bundle as a `.tar.gz` with `SKILL.md` at its root. The thread is that of work on an account.
pub(crate) async fn archive(
    skills: &dyn SkillRegistry,
    row: &SkillRow,
    stop: &StopFlag,
) -> Result<Bytes, ArtifactError> {
    let bundle = read_row(skills, row).await?;
    let header = agent_header(row, bundle.root());
    Ok(pack(&header, &bundle, max_size(row), stop)?.into())
}

fn pack(
    header: &str,
    bundle: &Bundle<Bytes>,
    max_size: usize,
    stop: &StopFlag,
) -> Result<Vec<u8>, ArtifactError> {
    // No name and no time in the gzip header: the bytes depend on the content alone.
    let buffer = Vec::with_capacity(max_size);
    let gzip = GzBuilder::new().mtime(0).write(buffer, Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    let root = format!("{header}{}", bundle.root());
    append(&mut archive, ROOT_PATH, root.as_bytes(), false)?;
    for (file, bytes) in bundle.files() {
        stop.check()?;
        append(&mut archive, &file.path, bytes, file.is_executable(bytes))?;
    }
    let mut gzip = archive.into_inner()?;
    gzip.flush()?;
    let mut packed = gzip.finish()?;
    // The cache keeps it.
    packed.shrink_to_fit();
    Ok(packed)
}

fn append<W: io::Write>(
    archive: &mut tar::Builder<W>,
    path: &str,
    bytes: &[u8],
    executable: bool,
) -> io::Result<()> {
    // Installers read names from the plain header: 100 bytes, and 155 of a prefix. Longer names follow in an entry of their own.
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(bytes.len() as u64);
    header.set_mode(if executable { 0o755 } else { 0o644 });
    header.set_mtime(0);
    archive.append_data(&mut header, path, bytes)
}
