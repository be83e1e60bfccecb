//! `sync`: writes the registry's skills into the folders that agents read, and takes back only what it wrote.
//!
//! - `folders`: which folders those are
//! - `names`: what each skill is called there
//! - `keep`: keeping the folders in step, once
//! - `follow`: doing so again whenever the registry changes
//! - `show`: what is printed
//!
//! What may be written over and removed is decided in `skills_bundles::sync`.

mod folders;
mod follow;
mod keep;
mod names;
mod show;

use skills_bundles::sync::Options;

use crate::{
    Failure,
    cli::{Sync, Target},
    config::Config,
    connect,
};

pub(super) async fn run(sync: Sync, target: Target, config: &Config) -> Result<(), Failure> {
    let folders = folders::of(&sync)?;
    let options = Options { force: sync.force, dry_run: sync.dry_run };
    if sync.watch {
        return follow::run(folders, options, sync.format.json, target, config).await;
    }
    let skills = connect::open(&target, config, false).await?;
    let kept = keep::once(&*skills, &folders, options).await?;
    show::all(&kept, sync.dry_run, sync.format.json)
}
