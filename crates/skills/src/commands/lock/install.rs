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
    lock::{FolderHashes, LOCKFILE, Lockfile},
    sync::{DesiredSkill, FolderLocation, Options, SyncFolder, SyncOutcome, Writer},
};
use skills_core::Code;

use super::{
    DIR, Verified,
    available::{self, AvailableSkill, LockedSkill},
    host, load, note_unpinned, open_for_reading,
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
    output::{self, counted, plain},
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
    let Wanted { stale, unpinned } = wanted_skills(&lock, &locations)?;
    let names: Vec<String> = lock.entries().map(|(name, _)| name.to_owned()).collect();
    let fetched = if frozen { stale } else { [stale, unpinned.clone()].concat() };
    let mut skills = match fetched.as_slice() {
        [] => vec![],
        names => available::fetch(&lock, names, &fetcher).await?,
    };
    if frozen {
        check_frozen(&skills)?;
    } else {
        skills.retain(|skill| !unpinned.contains(&skill.name) || can_be_pinned(skill));
    }
    let adopted = copied_by_npx(&skills, &locations)?;
    let options = Options { force, dry_run, writer: Writer::Install };
    let mut report = SyncReport::default();
    let (mut ready, mut pins) = (Vec::new(), Vec::new());
    for skill in skills {
        let is_as_locked = skill.is_as_locked();
        match skill.available {
            Ok(AvailableSkill { hashes, artifact_digest, desired, .. }) => {
                if !is_as_locked {
                    let message = format!("{} has other content than {LOCKFILE}", skill.name);
                    output::notice("changed", &message);
                }
                pins.push((skill.name, Pin { hashes, artifact_digest }));
                ready.push(desired);
            }
            Err(failure) => report.rows.push(failed_row(skill.name, failure)),
        }
    }
    is_writing.store(true, Ordering::Relaxed);
    let written = write_skills(locations.clone(), ready, names, options, &lock, adopted).await?;
    report.rows.extend(written);
    report.rows.sort_by(|one, other| (&one.folder, &one.name).cmp(&(&other.folder, &other.name)));
    if !dry_run && !frozen {
        pins.iter().for_each(|(name, pin)| set_entry(&mut lock, &report.rows, name, pin));
        lock.save(Path::new(DIR))?;
    }
    note_unpinned(&lock);
    note_extra_paths(&lock, &locations)?;
    print_report(&report, dry_run, format.json)
}

/// Skills of the lockfile to fetch.
#[derive(Debug, Default)]
struct Wanted {
    /// Skills that a folder does not have as the lockfile says.
    stale: Vec<String>,
    /// Other skills whose entry has no digest yet.
    unpinned: Vec<String>,
}

/// Returns the skills to fetch.
fn wanted_skills(lock: &Lockfile, locations: &[FolderLocation]) -> Result<Wanted, Failure> {
    let folders = open_for_reading(locations)?;
    let mut wanted = Wanted::default();
    for (name, entry) in lock.entries() {
        let paths: Vec<PathBuf> = folders.iter().map(|it| it.path().to_owned()).collect();
        let mut is_current = folders.len() == locations.len();
        for folder in folders.iter().filter(|folder| !folder.is_linked_to(name, &paths)) {
            is_current &= folder.installed_hashes(name).is_some_and(|hashes| entry.pins(&hashes));
        }
        if !is_current {
            wanted.stale.push(name.to_owned());
        } else if !entry.has_digest() {
            wanted.unpinned.push(name.to_owned());
        }
    }
    Ok(wanted)
}

/// Returns whether a digest of an installed skill can be added to its entry: its source must have the locked content.
/// Otherwise the skill and its entry stay as they are.
fn can_be_pinned(skill: &LockedSkill) -> bool {
    let reason = match &skill.available {
        Ok(_) if skill.is_as_locked() => return true,
        Ok(_) => "its source has other content now",
        Err(failure) => failure.message.as_str(),
    };
    output::notice("note", &plain(&format!("no digest for {}: {reason}", skill.name)));
    false
}

/// Returns the folders and names of skills that `npx skills` copied from the locked source, as far as its hash shows. Every
/// file of such a skill can be replaced by that of the source.
fn copied_by_npx(
    skills: &[LockedSkill],
    locations: &[FolderLocation],
) -> Result<HashSet<(PathBuf, String)>, Failure> {
    let folders = open_for_reading(locations)?;
    let mut copied = HashSet::new();
    for skill in skills.iter().filter(|skill| skill.is_as_locked()) {
        let Ok(available) = &skill.available else { continue };
        for folder in &folders {
            // From a repository it leaves files out, from a site it loses executable bits.
            let written_by_npx = [&available.copied_hash, &available.hashes.npx];
            let hashes = folder.installed_hashes(&skill.name);
            if hashes.is_some_and(|hashes| written_by_npx.contains(&&hashes.npx)) {
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

/// Hashes of a skill for its entry.
#[derive(Debug)]
pub(super) struct Pin {
    pub(super) hashes: FolderHashes,
    /// Digest of the artifact of a site.
    pub(super) artifact_digest: Option<String>,
}

/// Sets the hashes of a skill in the lockfile, if every folder has it now. An edited skill stays at its version.
pub(super) fn set_entry(lock: &mut Lockfile, rows: &[Row], name: &str, pin: &Pin) {
    let is_kept = |row: &Row| matches!(row.outcome, Ok(SyncOutcome::Skipped(_)) | Err(_));
    if rows.iter().filter(|row| row.name == name).any(is_kept) {
        return;
    }
    if let Some(entry) = lock.get_mut(name) {
        if !entry.pins(&pin.hashes) {
            entry.set_artifact_digest(pin.artifact_digest.as_deref());
        }
        entry.set_hashes(&pin.hashes);
    }
}

/// Prints the paths in the folders of locked skills that nobody installed. They stay.
fn note_extra_paths(lock: &Lockfile, locations: &[FolderLocation]) -> Result<(), Failure> {
    for folder in open_for_reading(locations)? {
        for (name, entry) in lock.entries() {
            let Ok(Some(found)) = Verified::compare(name, entry, &folder, &[]) else { continue };
            for path in found.extra {
                let place = output::path(&folder.path().join(name).join(path));
                output::notice("extra", &plain(&format!("nobody installed {place}")));
            }
        }
    }
    Ok(())
}
