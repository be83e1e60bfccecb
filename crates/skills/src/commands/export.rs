//! `export`: writes the files of a skill into a folder. `--kv` is another matter: [`super::keyspace`].

use serde_json::json;
use skills_registry::bundles::read_bundle;

use super::keyspace;
use crate::{
    Failure,
    cli::{Export, Target},
    config::Config,
    connect, output,
    work::blocking,
};

pub(super) async fn run(options: Export, target: &Target, config: &Config) -> Result<(), Failure> {
    let Export { id: Some(id), dir: Some(dir), force, format, .. } = options else {
        return keyspace::export(target, config).await;
    };
    let skills = connect::open(target, config, false).await?;
    let bundle = read_bundle(&*skills, &id).await?;
    let to = dir.clone();
    let written = blocking(move || skills_bundles::export(bundle, &to, force)).await??;
    if format.json {
        let (written, unchanged) = (written.written, written.unchanged);
        return Ok(output::json(&json!({ "id": id, "written": written, "unchanged": unchanged }))?);
    }
    let dir = output::path(&dir);
    let count = output::counted(written.written + written.unchanged, "file");
    let unchanged = match written.unchanged {
        0 => String::new(),
        unchanged => format!(", {unchanged} unchanged"),
    };
    Ok(output::line(&format!("exported {count} to {dir}{unchanged}"))?)
}
