//! Whole bundles, through the trait: for those who copy or export.

use bytes::Bytes;
use skills_core::{Bundle, SkillId, skill::ROOT_PATH, uri::SCHEME};

use crate::{RegistryError, Skills};

/// Reads every file of a skill. Of a registry that does not tell which there are, it is the root document.
///
/// # Errors
/// When there is no such skill, or it changes while it is read.
pub async fn read_bundle(skills: &dyn Skills, id: &str) -> Result<Bundle<Bytes>, RegistryError> {
    let id: SkillId = id.parse()?;
    let root = skills.read(&format!("{SCHEME}{id}")).await?.into_text();
    let catalog = skills.catalog().await?;
    let files = catalog.skill(id.as_str()).map(|row| row.meta.files.clone()).unwrap_or_default();
    let mut others = Vec::new();
    for file in files.iter().filter(|file| file.path != ROOT_PATH) {
        let body = skills.read(&format!("{SCHEME}{id}/{}", file.path)).await?.body;
        others.push((file.path.parse()?, body));
    }
    let bundle = Bundle::new(root, others)?;
    if !files.is_empty() && bundle.meta().files != files {
        let message = format!("{id} was changed while it was read; try again");
        return Err(RegistryError::Remote { code: "conflict".to_owned(), message });
    }
    Ok(bundle)
}
