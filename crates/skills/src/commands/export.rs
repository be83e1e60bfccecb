//! `export`: writes the files of a skill to a folder. `export --kv` is in [`super::keyspace`].

use std::sync::Arc;

use serde_json::json;
use skills_core::{EntryKind, SkillId, uri::SCHEME};
use skills_registry::{
    ReadVersion, RegistryError, SkillRegistry, SkillRow,
    bundles::{read_row, unwritable_files},
};

use super::{
    keyspace,
    versions::{parse_address, warn_if_yanked},
};
use crate::{
    Failure,
    blocking::blocking,
    cli::{ExportArgs, Target},
    config::Config,
    connect, output,
};

pub(super) async fn run(args: ExportArgs, target: &Target, config: &Config) -> Result<(), Failure> {
    let ExportArgs { id: Some(id), dir: Some(dir), force, format, .. } = args else {
        return keyspace::export(target, config).await;
    };
    let skills = connect::open(target, config, false).await?;
    let row = find(&*skills, &id).await;
    super::warn_about_rejected_rows(&*skills);
    let row = row?;
    let bundle = read_row(&*skills, &row).await?;
    let skipped: Vec<String> =
        unwritable_files(&row.meta).map(|(_, error)| error.to_string()).collect();
    let version = row.pinned.as_deref();
    let to = dir.clone();
    let written = blocking(move || skills_bundles::export(bundle, &to, force)).await??;
    if format.json {
        let (written, unchanged) = (written.written, written.unchanged);
        let mut answer = json!({ "id": id, "written": written, "unchanged": unchanged });
        if let Some(ReadVersion { version, .. }) = version {
            answer["version"] = json!(version);
        }
        if !skipped.is_empty() {
            answer["left_out"] = json!(skipped);
        }
        return Ok(output::json(&answer)?);
    }
    warn_if_yanked(&id, version.and_then(|version| version.yanked.as_deref()));
    for error in skipped {
        output::notice("left out", &output::plain(&error));
    }
    let dir = output::path(&dir);
    let count = output::counted(written.written + written.unchanged, "file");
    let unchanged = match written.unchanged {
        0 => String::new(),
        unchanged => format!(", {unchanged} unchanged"),
    };
    Ok(output::line(&format!("exported {count} to {dir}{unchanged}"))?)
}

/// Finds the row of a skill, or of one of its versions.
pub(super) async fn find(
    skills: &dyn SkillRegistry,
    address: &str,
) -> Result<Arc<SkillRow>, Failure> {
    let (id, version) = parse_address(address)?;
    let id: SkillId = id.parse().map_err(RegistryError::from)?;
    if let Some(version) = version {
        return Ok(skills.skill_version(None, id.as_str(), &version).await?);
    }
    if let Some(row) = skills.catalog().await?.skill(id.as_str()) {
        return Ok(Arc::clone(row));
    }
    // A read says why nothing is served.
    let not_found = RegistryError::NotFound { kind: EntryKind::Skill, id: id.to_string() };
    let read = skills.read(&format!("{SCHEME}{id}")).await;
    Err(read.err().unwrap_or(not_found).into())
}
