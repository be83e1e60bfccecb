//! Reads whole bundles through the trait, for copies and exports.

use std::collections::HashMap;

use bytes::Bytes;
use skills_agent_skills::Bundle;
use skills_core::{
    BundlePath, Code, Digest, EntryKind, FileMeta, RuleError, SkillId, SkillMeta,
    bundle_path::{REPOSITORY_HEAD, repository_heads},
    limits::MAX_BUNDLE_BYTES,
    skill::ROOT_PATH,
    version::split_version,
};

use crate::{Catalog, RegistryError, SkillRegistry, SkillRow, api::file_uri};

/// Reads all files of a skill that may be written to a disk: see [`unwritable_files`]. For a registry that lists no
/// files, reads the root document. The id may have a version: `id@3`.
///
/// # Errors
/// When there is no such skill or version, or it changes while it is read.
pub async fn read_bundle(
    skills: &dyn SkillRegistry,
    id: &str,
) -> Result<Bundle<Bytes>, RegistryError> {
    let (id, version) = split_version(id)?;
    let id: SkillId = id.parse()?;
    if let Some(version) = version {
        let row = skills.skill_version(None, id.as_str(), &version).await?;
        return read_row(skills, &row).await;
    }
    let catalog = skills.catalog().await?;
    let not_found = || RegistryError::NotFound { kind: EntryKind::Skill, id: id.to_string() };
    read_row(skills, catalog.skill(id.as_str()).ok_or_else(not_found)?).await
}

/// Reads the bundle of a skill, given its row of a catalog.
///
/// # Errors
/// When the skill has changed, or is larger than a bundle may be; the rest is then not read.
pub async fn read_row(
    skills: &dyn SkillRegistry,
    row: &SkillRow,
) -> Result<Bundle<Bytes>, RegistryError> {
    let id = &row.id;
    let unwritable: Vec<&str> = unwritable_files(&row.meta).map(|(path, _)| path).collect();
    let is_written = |file: &&FileMeta| !unwritable.contains(&file.path.as_str());
    let files: Vec<&FileMeta> = row.meta.files.iter().filter(is_written).collect();
    let root = skills.read(&file_uri(row, ROOT_PATH)).await?.into_text();
    let (mut others, mut bytes) = (Vec::new(), root.len());
    for file in files.iter().filter(|file| file.path != ROOT_PATH) {
        let body = skills.read(&file_uri(row, &file.path)).await?.body;
        // The registry may send more than it listed.
        bytes += body.len();
        if bytes > MAX_BUNDLE_BYTES {
            return Err(RuleError::BundleTooLarge { bytes, max: MAX_BUNDLE_BYTES }.into());
        }
        others.push((file.path.parse()?, body));
    }
    let bits: HashMap<&str, Option<bool>> =
        files.iter().map(|file| (file.path.as_str(), file.executable)).collect();
    let bundle = Bundle::new(root, others)?
        .with_executable(|path| bits.get(path).copied().flatten())
        .with_provenance(row.meta.provenance.clone());
    if !files.is_empty() && !bundle.meta().files.iter().eq(files) {
        let message = format!("{id} was changed while it was read; try again");
        return Err(RegistryError::Remote { code: Code::Conflict.into(), message });
    }
    Ok(bundle)
}

/// Iterates over the files of a skill that can be read but must not be written to a disk, each with the rule that it
/// breaks. Earlier versions accepted them.
pub fn unwritable_files(meta: &SkillMeta) -> impl Iterator<Item = (&str, RuleError)> {
    let paths = || meta.files.iter().map(|file| file.path.as_str());
    // Most skills have one file.
    let heads = if meta.files.len() > 1 { repository_heads(paths()) } else { vec![] };
    paths().filter(|path| *path != ROOT_PATH).filter_map(move |path| {
        let is_head = heads.contains(&path);
        let head = || RuleError::Path { path: path.to_owned(), reason: REPOSITORY_HEAD };
        let error = path.parse::<BundlePath>().err().or_else(|| is_head.then(head))?;
        Some((path, error))
    })
}

/// Logs the files of stored skills that are never written to a disk.
pub fn log_unwritable_files(catalog: &Catalog) {
    for (_, row) in catalog.stored_skills() {
        for (path, error) in unwritable_files(&row.meta) {
            tracing::warn!(tier = %row.tier, id = %row.id, ?path, %error, "file is not exported or synced");
        }
    }
}

/// Returns a digest that identifies the version of a skill. For a registry that lists no digests it is made of the time
/// of registration.
#[must_use]
pub fn version(row: &SkillRow) -> Digest {
    if row.meta.files.is_empty() {
        Digest::of(row.registered_at.to_string().as_bytes())
    } else {
        row.meta.digest()
    }
}
