//! `update` and `outdated` for the lockfile.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};
use skills_bundles::{
    lock::{FolderHashes, LOCKFILE, Lockfile},
    sync::{FolderLocation, Options, Writer},
};

use super::{
    DIR,
    available::{self, AvailableSkill, LockedSkill},
    exists, host,
    install::{Pin, failed_row, set_entry, write_skills},
    load, open_for_reading,
};
use crate::{
    Failure,
    cli::{OutdatedArgs, Target, UpdateArgs},
    commands::{
        add,
        sync::{folders, print::print_report, sync_once::SyncReport},
    },
    config::Config,
    environment,
    fetch::Fetcher,
    interrupt::{interruptible, interruptible_until},
    output::{self, Confirmation, counted, plain},
};

/// Digits of a hash in messages.
const SHOWN_DIGITS: usize = 12;

/// Updates the skills of the lockfile, or those of the registry if there is none or the user names a registry.
pub(in super::super) async fn update(
    args: UpdateArgs,
    target: &Target,
    config: &Config,
) -> Result<(), Failure> {
    let cancelled = Arc::new(AtomicBool::new(false));
    // A directory or a store of the environment is that of every command, and no choice for this one.
    let is_named = target.data_dir != environment::path("SKILLS_DATA_DIR")
        || target.store != environment::text("SKILLS_STORE")?;
    let has_registry = args.registry || is_named || target.url.is_some();
    if has_registry || !exists() {
        let update = add::update::run(args, target, config, Arc::clone(&cancelled));
        return interruptible(&cancelled, update).await;
    }
    let json = args.format.json;
    let fetcher = Fetcher::new(host(config), args.insecure, json, Arc::clone(&cancelled));
    let is_writing = AtomicBool::new(false);
    let update = update_lock(args, fetcher, &is_writing);
    interruptible_until(&is_writing, &cancelled, update).await
}

async fn update_lock(
    args: UpdateArgs,
    fetcher: Fetcher,
    is_writing: &AtomicBool,
) -> Result<(), Failure> {
    let UpdateArgs { ids, yes, plan, force, format, .. } = args;
    let mut lock = load()?;
    let skills = available::fetch(&lock, &ids, &fetcher).await?;
    let changes = skills.iter().filter(|skill| is_changed(skill)).count();
    let is_plan = plan || (format.json && !yes);
    if !format.json {
        print_plan(&skills)?;
    }
    if is_plan || changes == 0 {
        if format.json {
            output::json(&to_json(&skills))?;
        }
        return first_failure(&skills);
    }
    if !yes {
        let question = format!("Update {}?", counted(changes, "skill"));
        match add::update::confirm(question).await? {
            Confirmation::Yes => {}
            Confirmation::No => return Ok(()),
            Confirmation::NotAsked => {
                output::notice("note", "apply the changes with `skills update --yes`");
                return first_failure(&skills);
            }
        }
    }
    let locations = folders::from_args(&[], &[], false)?;
    let adopted = unedited(&lock, &locations)?;
    let mut report = SyncReport::default();
    let (mut ready, mut pins) = (Vec::new(), Vec::new());
    for skill in skills {
        let is_as_locked = skill.is_as_locked();
        match skill.available {
            Ok(_) if is_as_locked => {}
            Ok(AvailableSkill { hashes, artifact_digest, desired, .. }) => {
                pins.push((skill.name, Pin { hashes, artifact_digest }));
                ready.push(desired);
            }
            Err(failure) => report.rows.push(failed_row(skill.name, failure)),
        }
    }
    let names = lock.entries().map(|(name, _)| name.to_owned()).collect();
    let options = Options { force, dry_run: false, writer: Writer::Install };
    is_writing.store(true, Ordering::Relaxed);
    report.rows.extend(write_skills(locations, ready, names, options, &lock, adopted).await?);
    pins.iter().for_each(|(name, pin)| set_entry(&mut lock, &report.rows, name, pin));
    lock.save(Path::new(DIR))?;
    print_report(&report, false, format.json)
}

/// Returns the folders and names of skills that are as the lockfile says.
fn unedited(
    lock: &Lockfile,
    locations: &[FolderLocation],
) -> Result<HashSet<(PathBuf, String)>, Failure> {
    let folders = open_for_reading(locations)?;
    let mut unedited = HashSet::new();
    for (name, entry) in lock.entries() {
        for folder in &folders {
            if folder.installed_hashes(name).is_some_and(|hashes| entry.pins(&hashes)) {
                unedited.insert((folder.path().to_owned(), name.to_owned()));
            }
        }
    }
    Ok(unedited)
}

fn is_changed(skill: &LockedSkill) -> bool {
    skill.available.is_ok() && !skill.is_as_locked()
}

/// Lists the skills whose sources have other content.
pub(in super::super) async fn outdated(args: OutdatedArgs, config: &Config) -> Result<(), Failure> {
    let cancelled = Arc::new(AtomicBool::new(false));
    let json = args.format.json;
    let fetcher = Fetcher::new(host(config), args.insecure, json, Arc::clone(&cancelled));
    let outdated = async {
        let skills = available::fetch(&load()?, &args.names, &fetcher).await?;
        if json {
            output::json(&to_json(&skills))?;
        } else {
            print_plan(&skills)?;
        }
        first_failure(&skills)
    };
    interruptible(&cancelled, outdated).await
}

/// Prints a line for each skill that differs, and a summary.
fn print_plan(skills: &[LockedSkill]) -> Result<(), Failure> {
    for skill in skills.iter().filter(|skill| !skill.is_as_locked()) {
        match &skill.available {
            Ok(available) => {
                let FolderHashes { npx, digest } = &available.hashes;
                // Other files with the hash of `npx skills` have another digest.
                let (locked, now) = match &skill.locked {
                    Some(locked) if locked == npx => (skill.locked_digest.as_deref(), digest),
                    locked => (locked.as_deref(), npx),
                };
                let locked = locked.map_or("no hash", short);
                output::line(&plain(&format!("{} {locked} -> {}", skill.name, short(now))))?;
            }
            Err(failure) => failure.print(false),
        }
    }
    let changed = skills.iter().filter(|skill| is_changed(skill)).count();
    let failed = skills.iter().filter(|skill| skill.available.is_err()).count();
    let count = counted(skills.len(), "skill");
    Ok(output::line(&format!("{count} in {LOCKFILE}, {changed} outdated, {failed} failed"))?)
}

fn to_json(skills: &[LockedSkill]) -> Value {
    let row = |skill: &LockedSkill| {
        let (locked, digest) = (&skill.locked, &skill.locked_digest);
        let mut row = json!({ "name": skill.name, "locked": locked, "locked_digest": digest });
        match &skill.available {
            Ok(available) => {
                row["available"] = json!(available.hashes.npx);
                row["available_digest"] = json!(available.hashes.digest);
                row["status"] = json!(if skill.is_as_locked() { "current" } else { "outdated" });
            }
            Err(failure) => {
                row["status"] = json!("failed");
                row["error"] = failure.to_json();
            }
        }
        row
    };
    json!({ "skills": skills.iter().map(row).collect::<Vec<_>>() })
}

/// Returns an error if a source could not be read.
fn first_failure(skills: &[LockedSkill]) -> Result<(), Failure> {
    skills.iter().find_map(|skill| skill.available.as_ref().err().cloned()).map_or(Ok(()), Err)
}

fn short(hash: &str) -> &str {
    let digits = hash.strip_prefix("sha256:").unwrap_or(hash);
    digits.get(..SHOWN_DIGITS).unwrap_or(digits)
}
