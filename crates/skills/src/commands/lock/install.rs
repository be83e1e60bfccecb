//! `install`: writes the skills of the lockfile to the folders of agents.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use skills_bundles::{
    lock::{LOCKFILE, Lockfile},
    sync::{DesiredSkill, FolderLocation, Options, SyncFolder, SyncOutcome, Writer},
};
use skills_core::Code;

use super::{
    DIR,
    available::{self, AvailableSkill, LockedSkill},
    host, load, open_for_reading,
};
use crate::{
    Failure,
    blocking::blocking,
    cli::InstallArgs,
    commands::sync::{
        folders,
        print::print_report,
        sync_once::{Row, SyncReport},
    },
    config::Config,
    fetch::Fetcher,
    interrupt::interruptible_until,
    output::{self, counted},
};

pub(in super::super) async fn install(args: InstallArgs, config: &Config) -> Result<(), Failure> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let fetcher =
        Fetcher::new(host(config), args.insecure, args.format.json, Arc::clone(&cancelled));
    let is_writing = AtomicBool::new(false);
    interruptible_until(&is_writing, &cancelled, run(args, fetcher, &is_writing)).await
}

async fn run(args: InstallArgs, fetcher: Fetcher, is_writing: &AtomicBool) -> Result<(), Failure> {
    let InstallArgs { dirs, to, frozen, force, dry_run, format, .. } = args;
    let mut lock = load()?;
    let locations = folders::from_args(&dirs, &to, false)?;
    let stale = stale_skills(&lock, &locations)?;
    let names: Vec<String> = lock.entries().map(|(name, _)| name.to_owned()).collect();
    let skills =
        if stale.is_empty() { vec![] } else { available::fetch(&lock, &stale, &fetcher).await? };
    if frozen {
        check_frozen(&skills)?;
    }
    let adopted = copied_by_npx(&skills, &locations)?;
    let options = Options { force, dry_run, writer: Writer::Install };
    let mut report = SyncReport::default();
    let (mut ready, mut changed) = (Vec::new(), Vec::new());
    for skill in skills {
        if !skill.is_as_locked()
            && let Ok(AvailableSkill { hash, digest, .. }) = &skill.available
        {
            output::notice("changed", &format!("{} has other content than {LOCKFILE}", skill.name));
            changed.push((skill.name.clone(), hash.clone(), digest.clone()));
        }
        match skill.available {
            Ok(available) => ready.push(available.desired),
            Err(failure) => report.rows.push(failed_row(skill.name, failure)),
        }
    }
    is_writing.store(true, Ordering::Relaxed);
    let written = write_skills(locations, ready, names, options, &lock, adopted).await?;
    report.rows.extend(written);
    for (name, hash, digest) in changed {
        set_entry(&mut lock, &report.rows, &name, &hash, digest.as_deref());
    }
    report.rows.sort_by(|one, other| (&one.folder, &one.name).cmp(&(&other.folder, &other.name)));
    if !dry_run && !frozen {
        lock.save(Path::new(DIR))?;
    }
    print_report(&report, dry_run, format.json)
}

/// Returns the skills that a folder does not have as the lockfile says.
fn stale_skills(lock: &Lockfile, locations: &[FolderLocation]) -> Result<Vec<String>, Failure> {
    let folders = open_for_reading(locations)?;
    let mut stale = Vec::new();
    for (name, entry) in lock.entries() {
        let paths: Vec<PathBuf> = folders.iter().map(|it| it.path().to_owned()).collect();
        let mut is_current = folders.len() == locations.len();
        for folder in folders.iter().filter(|folder| !folder.is_linked_to(name, &paths)) {
            // A folder that cannot be read, such as one that is too large, was not written by this command.
            let hash = folder.installed_hash(name).ok().flatten();
            is_current &= hash.is_some() && hash == entry.hash();
        }
        if !is_current {
            stale.push(name.to_owned());
        }
    }
    Ok(stale)
}

/// Returns the folders and names of skills that `npx skills` copied from the locked source. It leaves files out that the
/// hash in the lockfile counts.
fn copied_by_npx(
    skills: &[LockedSkill],
    locations: &[FolderLocation],
) -> Result<HashSet<(PathBuf, String)>, Failure> {
    let folders = open_for_reading(locations)?;
    let mut copied = HashSet::new();
    for skill in skills.iter().filter(|skill| skill.is_as_locked()) {
        let Ok(available) = &skill.available else { continue };
        for folder in &folders {
            let hash = folder.installed_hash(&skill.name).ok().flatten();
            if hash.as_ref() == Some(&available.npx_hash) {
                copied.insert((folder.path().to_owned(), skill.name.clone()));
            }
        }
    }
    Ok(copied)
}

/// Fails if a source does not have the content of the lockfile.
fn check_frozen(skills: &[LockedSkill]) -> Result<(), Failure> {
    let mut different = Vec::new();
    for skill in skills {
        match &skill.available {
            Err(failure) => return Err(failure.clone()),
            Ok(_) if !skill.is_as_locked() => different.push(skill.name.as_str()),
            Ok(_) => {}
        }
    }
    if different.is_empty() {
        return Ok(());
    }
    let (count, names) = (counted(different.len(), "skill"), different.join(", "));
    let message = format!("{count} with other content than {LOCKFILE}: {names}");
    Err(Failure::new(Code::LockMismatch, message)
        .hint("see the changes with `skills update --plan`; nothing was written"))
}

pub(super) fn failed_row(name: String, failure: Failure) -> Row {
    Row { folder: PathBuf::new(), name, id: None, outcome: Err(failure) }
}

/// Writes skills to folders, and removes those that the lockfile no longer has. `adopted` are skills whose files are
/// known to be those of the lockfile, whichever program wrote them.
pub(super) async fn write_skills(
    locations: Vec<FolderLocation>,
    skills: Vec<DesiredSkill>,
    names: Vec<String>,
    options: Options,
    lock: &Lockfile,
    adopted: HashSet<(PathBuf, String)>,
) -> Result<Vec<Row>, Failure> {
    // A project without skills gets no folder.
    let is_needed = |it: &FolderLocation| lock.entries().next().is_some() || it.exists();
    let locations: Vec<FolderLocation> = locations.into_iter().filter(is_needed).collect();
    blocking(move || {
        let mut rows = Vec::new();
        let paths: Vec<PathBuf> = locations.iter().map(|it| it.path().to_owned()).collect();
        for location in &locations {
            let mut folder = SyncFolder::open_at(location, options)?;
            let path = folder.path().to_owned();
            for (_, name) in adopted.iter().filter(|(folder, _)| *folder == path) {
                folder.adopt(name)?;
            }
            let wanted: Vec<&DesiredSkill> =
                skills.iter().filter(|it| !folder.is_linked_to(&it.name, &paths)).collect();
            let outcomes = folder.put(&wanted)?;
            for (skill, outcome) in wanted.into_iter().zip(outcomes) {
                let (folder, name) = (path.clone(), skill.name.clone());
                let outcome = outcome.map_err(Failure::from);
                rows.push(Row { folder, name, id: None, outcome });
            }
            let names: HashSet<&str> = names.iter().map(String::as_str).collect();
            for (name, outcome) in folder.finish(&names)? {
                let outcome = outcome.map_err(Failure::from);
                rows.push(Row { folder: path.clone(), name, id: None, outcome });
            }
        }
        Ok(rows)
    })
    .await?
}

/// Sets the hash of a skill in the lockfile, if every folder has it now. An edited skill stays at its version.
pub(super) fn set_entry(
    lock: &mut Lockfile,
    rows: &[Row],
    name: &str,
    hash: &str,
    digest: Option<&str>,
) {
    let is_kept = |row: &Row| matches!(row.outcome, Ok(SyncOutcome::Skipped(_)) | Err(_));
    if rows.iter().filter(|row| row.name == name).any(is_kept) {
        return;
    }
    if let Some(entry) = lock.get_mut(name) {
        entry.set_hash(hash);
        entry.set_digest(digest);
    }
}
