//! Commands for `skills-lock.json` of the current directory.
//!
//! - `available`: what the sources of the lockfile have now
//! - `install`: writes skills to the folders of agents
//! - `write`: `lock`, which records what is there
//! - `update`: `update` and `outdated`
//!
//! `skills_bundles::lock` has the format, `skills_bundles::sync` decides what may be overwritten.

mod available;
mod install;
mod update;
mod write;

pub(super) use self::{
    install::install,
    update::{outdated, update},
    write::write,
};

use std::path::Path;

use serde_json::json;
use skills_bundles::{
    lock::{LOCKFILE, Lockfile},
    sync::{FolderLocation, Options, SyncFolder, Writer},
};
use skills_core::Code;

use crate::{
    Failure,
    cli::VerifyArgs,
    config::Config,
    output::{self, counted, plain},
};

/// Directory of the lockfile.
const DIR: &str = ".";

/// Reads the lockfile of the current directory.
fn load() -> Result<Lockfile, Failure> {
    Lockfile::load(Path::new(DIR))?.ok_or_else(|| {
        Failure::new(Code::NotFound, format!("there is no {LOCKFILE} in this directory"))
            .hint("write one with `skills lock`, or run the command in the folder of a project")
    })
}

/// Returns whether the current directory has a lockfile.
pub(super) fn exists() -> bool {
    Path::new(DIR).join(LOCKFILE).exists()
}

/// Returns the host of `owner/repo` in the lockfile.
fn host(config: &Config) -> &str {
    config.git_host.as_deref().unwrap_or(crate::fetch::DEFAULT_HOST)
}

/// Opens folders without writing to them.
fn open_for_reading(folders: &[FolderLocation]) -> Result<Vec<SyncFolder>, Failure> {
    let options = Options { dry_run: true, writer: Writer::Install, ..Options::default() };
    let folders = folders.iter().filter(|folder| folder.exists());
    Ok(folders.map(|it| SyncFolder::open_at(it, options)).collect::<Result<_, _>>()?)
}

/// Compares the folders with the lockfile.
pub(super) fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let lock = load()?;
    let folders = open_for_reading(&super::sync::folders::from_args(&args.dirs, &args.to, false)?)?;
    let mut rows = Vec::new();
    for (name, entry) in lock.entries() {
        let mut found = false;
        for folder in &folders {
            let Some(hash) = folder.installed_hash(name)? else { continue };
            found = true;
            let status = if Some(hash) == entry.hash() { "unchanged" } else { "modified" };
            rows.push((name.to_owned(), Some(folder.path().to_owned()), status));
        }
        if !found {
            rows.push((name.to_owned(), None, "missing"));
        }
    }
    let problems = rows.iter().filter(|(_, _, status)| *status != "unchanged").count();
    if args.format.json {
        let rows = rows.iter().map(|(name, folder, status)| {
            let mut row = json!({ "name": name, "status": status });
            if let Some(folder) = folder {
                row["folder"] = json!(folder.to_string_lossy());
            }
            row
        });
        output::json(&json!({ "skills": rows.collect::<Vec<_>>(), "problems": problems }))?;
    } else {
        for (name, folder, status) in rows.iter().filter(|(_, _, status)| *status != "unchanged") {
            let place = folder.as_ref().map(|folder| folder.join(name));
            let place = place.map_or_else(|| name.clone(), |place| output::path(&place));
            output::line(&plain(&format!("{status} {place}")))?;
        }
        let count = counted(lock.entries().count(), "skill");
        output::line(&format!("{count} in {LOCKFILE}, {}", counted(problems, "problem")))?;
    }
    if problems == 0 {
        return Ok(());
    }
    let message = format!("{} not as in {LOCKFILE}", counted(problems, "skill"));
    Err(Failure::new(Code::LockMismatch, message)
        .hint("restore them with `skills install`, or record them with `skills lock`"))
}
