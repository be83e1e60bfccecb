//! Bytes of a published skill. They depend on the content of the skill alone.

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::{Compression, GzBuilder};
use skills_agent_skills::Bundle;
use skills_core::{Coded as _, OverBudget, skill::ROOT_PATH};
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
    #[error("the task that packs the archive was cancelled")]
    Cancelled,
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
}

impl ArtifactError {
    /// Returns whether the same request may succeed later, so that nothing may be left out of an index.
    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            Self::Registry(error) => is_unavailable(error.code()),
            Self::OverBudget(_) => true,
            Self::Archive(_) | Self::Cancelled => false,
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

/// Packs a bundle as a `.tar.gz` with `SKILL.md` at its root.
pub(crate) async fn archive(
    skills: &dyn SkillRegistry,
    row: &SkillRow,
) -> Result<Bytes, ArtifactError> {
    let bundle = read_row(skills, row).await?;
    let header = agent_header(row, bundle.root());
    let pack = move || pack(&header, &bundle);
    let packed = tokio::task::spawn_blocking(pack).await.map_err(|_| ArtifactError::Cancelled)?;
    Ok(packed?.into())
}

fn pack(header: &str, bundle: &Bundle<Bytes>) -> io::Result<Vec<u8>> {
    // No name and no time in the gzip header: the bytes depend on the content alone.
    let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    let root = format!("{header}{}", bundle.root());
    append(&mut archive, ROOT_PATH, root.as_bytes(), false)?;
    for (file, bytes) in bundle.files() {
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
