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

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skills_bundles::{
    lock::{LOCKFILE, LockEntry, Lockfile},
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

/// Prints the skills whose entries have no digest, which is how `npx skills` writes them.
fn note_unpinned(lock: &Lockfile) {
    let unpinned = lock.entries().filter(|(_, entry)| !entry.has_digest());
    let names: Vec<&str> = unpinned.map(|(name, _)| name).collect();
    if names.is_empty() {
        return;
    }
    let (count, names) = (counted(names.len(), "skill"), names.join(", "));
    let message = format!(
        "{count} pinned by the hash of npx skills only, which does not show where a file ends: {names}; \
         `skills install` adds a digest"
    );
    output::notice("note", &plain(&message));
}

/// Result of comparing a folder with the entry of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Unchanged,
    Modified,
    /// As locked, with more files.
    Extra,
    Missing,
}

impl Status {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Modified => "modified",
            Self::Extra => "extra",
            Self::Missing => "missing",
        }
    }
}

/// A skill of the lockfile in a folder.
struct Verified<'a> {
    name: &'a str,
    entry: &'a LockEntry,
    /// `None` for a skill that no folder has.
    folder: Option<&'a Path>,
    status: Status,
    /// Paths that nobody installed.
    extra: Vec<String>,
}

impl<'a> Verified<'a> {
    /// Compares a folder with an entry; `None` if the folder does not have the skill. `folders` are the paths of all.
    fn compare(
        name: &'a str,
        entry: &'a LockEntry,
        folder: &'a SyncFolder,
        folders: &[PathBuf],
    ) -> Result<Option<Self>, Failure> {
        let (status, extra) = match folder.installed(name)? {
            Some(installed) => {
                let mut extra = installed.other_entries().to_owned();
                let mut is_pinned = entry.pins(&installed.hashes());
                if !is_pinned {
                    let unrecorded = folder.unrecorded_files(name, &installed);
                    is_pinned = entry.pins(&installed.hashes_without(&unrecorded));
                    extra.extend(unrecorded);
                }
                extra.sort_unstable();
                let status = if !is_pinned {
                    Status::Modified
                } else if extra.is_empty() {
                    Status::Unchanged
                } else {
                    Status::Extra
                };
                (status, extra)
            }
            None if folder.is_obstructed(name) && !folder.is_linked_to(name, folders) => {
                (Status::Modified, vec![])
            }
            None => return Ok(None),
        };
        Ok(Some(Self { name, entry, folder: Some(folder.path()), status, extra }))
    }

    const fn is_problem(&self) -> bool {
        !matches!(self.status, Status::Unchanged)
    }

    fn to_json(&self) -> Value {
        let mut row = json!({ "name": self.name, "status": self.status.as_str() });
        if let Some(folder) = self.folder {
            row["folder"] = json!(folder.to_string_lossy());
        }
        if !self.extra.is_empty() {
            row["extra"] = json!(self.extra);
        }
        row["pinned_by"] = json!(if self.entry.has_digest() { "digest" } else { "npx_hash" });
        row
    }

    fn print(&self) -> Result<(), Failure> {
        let home = self.folder.map(|folder| folder.join(self.name));
        if self.status != Status::Extra {
            let place = home.as_ref().map_or_else(|| self.name.to_owned(), |it| output::path(it));
            output::line(&plain(&format!("{} {place}", self.status.as_str())))?;
        }
        for path in &self.extra {
            let place = home.as_ref().map_or_else(PathBuf::new, |home| home.join(path));
            output::line(&plain(&format!("extra {}", output::path(&place))))?;
        }
        Ok(())
    }
}

/// Compares the folders with the lockfile.
pub(super) fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    let lock = load()?;
    let folders = open_for_reading(&super::sync::folders::from_args(&args.dirs, &args.to, false)?)?;
    let paths: Vec<PathBuf> = folders.iter().map(|it| it.path().to_owned()).collect();
    let mut rows = Vec::new();
    for (name, entry) in lock.entries() {
        let before = rows.len();
        for folder in &folders {
            rows.extend(Verified::compare(name, entry, folder, &paths)?);
        }
        if rows.len() == before {
            let (folder, status) = (None, Status::Missing);
            rows.push(Verified { name, entry, folder, status, extra: vec![] });
        }
    }
    let problems: Vec<&Verified<'_>> = rows.iter().filter(|row| row.is_problem()).collect();
    note_unpinned(&lock);
    if args.format.json {
        let skills: Vec<Value> = rows.iter().map(Verified::to_json).collect();
        output::json(&json!({ "skills": skills, "problems": problems.len() }))?;
    } else {
        problems.iter().try_for_each(|row| row.print())?;
        let count = counted(lock.entries().count(), "skill");
        output::line(&format!("{count} in {LOCKFILE}, {}", counted(problems.len(), "problem")))?;
    }
    if problems.is_empty() {
        return Ok(());
    }
    let hint = if problems.iter().all(|row| row.status == Status::Extra) {
        "remove the files that nobody installed"
    } else {
        "restore them with `skills install`, or record them with `skills lock`"
    };
    let message = format!("{} not as in {LOCKFILE}", counted(problems.len(), "skill"));
    Err(Failure::new(Code::LockMismatch, message).hint(hint))
}
