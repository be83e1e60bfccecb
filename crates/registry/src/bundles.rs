//! Whole bundles, through the trait: for those who copy or export.

use bytes::Bytes;
use skills_core::{Bundle, Digest, Kind, SkillId, skill::ROOT_PATH, uri::SCHEME};

use crate::{RegistryError, SkillRow, Skills};

/// Reads every file of a skill. Of a registry that does not tell which there are, it is the root document.
///
/// # Errors
/// When there is no such skill, or it changes while it is read.
pub async fn read_bundle(skills: &dyn Skills, id: &str) -> Result<Bundle<Bytes>, RegistryError> {
    let id: SkillId = id.parse()?;
    let catalog = skills.catalog().await?;
    let not_found = || RegistryError::NotFound { kind: Kind::Skill, id: id.to_string() };
    read_row(skills, catalog.skill(id.as_str()).ok_or_else(not_found)?).await
}

/// The same of a skill whose row in a catalog is known.
///
/// # Errors
/// When it is something else by now, or changes while it is read.
pub async fn read_row(skills: &dyn Skills, row: &SkillRow) -> Result<Bundle<Bytes>, RegistryError> {
    let (id, files) = (&row.id, &row.meta.files);
    let root = skills.read(&format!("{SCHEME}{id}")).await?.into_text();
    let mut others = Vec::new();
    for file in files.iter().filter(|file| file.path != ROOT_PATH) {
        let body = skills.read(&format!("{SCHEME}{id}/{}", file.path)).await?.body;
        others.push((file.path.parse()?, body));
    }
    let bundle = Bundle::new(root, others)?;
    if !files.is_empty() && bundle.meta().files != *files {
        let message = format!("{id} was changed while it was read; try again");
        return Err(RegistryError::Remote { code: "conflict".to_owned(), message });
    }
    Ok(bundle)
}

/// What identifies a version of a skill. A registry that tells no digests still tells when it was registered.
#[must_use]
pub fn version(row: &SkillRow) -> Digest {
    match row.meta.files.is_empty() {
        true => Digest::of(row.registered_at.to_string().as_bytes()),
        false => row.meta.digest(),
    }
}
