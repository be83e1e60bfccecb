//! The bytes behind an entry. The same skill always gives the same bytes.

use std::io::{self, Write as _};

use bytes::Bytes;
use flate2::{Compression, GzBuilder};
use skills_core::{Bundle, agent_skill::AgentDocument, skill::ROOT_PATH};
use skills_registry::{RegistryError, SkillRow, Skills, bundles::read_row};

/// Why an artifact could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArtifactError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("an archive could not be written: {0}")]
    Archive(#[from] io::Error),
    #[error("the work was ended")]
    Ended,
}

/// The root document of a skill, with frontmatter.
pub(crate) async fn document(skills: &dyn Skills, row: &SkillRow) -> Result<Bytes, RegistryError> {
    let body = skills.read(&format!("{}{}", skills_core::uri::SCHEME, row.id)).await?.into_text();
    let header = header(row, &body);
    Ok(if header.is_empty() { body.into() } else { format!("{header}{body}").into() })
}

/// Whether the root document is served as it was registered: it says of itself what Agent Skills must say.
pub(crate) fn is_served_as_it_is(row: &SkillRow) -> bool {
    row.meta.agent.as_ref().is_some_and(|agent| !agent.name.is_empty())
}

/// What is put before a root document.
fn header(row: &SkillRow, body: &str) -> String {
    match is_served_as_it_is(row) {
        true => String::new(),
        false => AgentDocument::of(&row.id, &row.meta, body).header,
    }
}

/// A bundle as a `.tar.gz` with `SKILL.md` at its root.
pub(crate) async fn archive(skills: &dyn Skills, row: &SkillRow) -> Result<Bytes, ArtifactError> {
    let bundle = read_row(skills, row).await?;
    let header = header(row, bundle.root());
    let pack = move || pack(&header, &bundle);
    let packed = tokio::task::spawn_blocking(pack).await.map_err(|_| ArtifactError::Ended)?;
    Ok(packed?.into())
}

fn pack(header: &str, bundle: &Bundle<Bytes>) -> io::Result<Vec<u8>> {
    // No name and no time in the header: the bytes depend on the content alone.
    let gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    let root = format!("{header}{}", bundle.root());
    append(&mut archive, ROOT_PATH, root.as_bytes())?;
    for (path, bytes) in bundle.files() {
        append(&mut archive, path.as_str(), bytes)?;
    }
    let mut gzip = archive.into_inner()?;
    gzip.flush()?;
    gzip.finish()
}

fn append<W: io::Write>(archive: &mut tar::Builder<W>, path: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(0);
    archive.append_data(&mut header, path, bytes)
}
