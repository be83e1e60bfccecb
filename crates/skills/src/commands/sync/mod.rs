//! `sync`: writes the registry's skills to the folders that agents read, and removes only what it wrote.
//!
//! - `folders`: the folders to write
//! - `names`: the folder name of each skill
//! - `sync_once`: one synchronization
//! - `watch`: synchronizes again when the registry changes
//! - `print`: output
//!
//! `skills_bundles::sync` decides what may be overwritten and removed.

pub(super) mod folders;
mod names;
pub(super) mod print;
pub(super) mod sync_once;
mod watch;

use skills_bundles::sync::Options;

use self::sync_once::SyncJob;
use crate::{
    Failure,
    cli::{SyncArgs, Target},
    config::Config,
    connect,
};

pub(super) async fn run(args: SyncArgs, target: Target, config: &Config) -> Result<(), Failure> {
    let folders = folders::from_args(&args.dirs, &args.to, args.user)?;
    let options = Options { force: args.force, dry_run: args.dry_run, ..Options::default() };
    let job = SyncJob { folders, selected: args.skills, options };
    if args.watch {
        return watch::run(job, args.format.json, target, config).await;
    }
    let skills = connect::open(&target, config, false).await?;
    let report = sync_once::sync_once(&*skills, &job).await?;
    print::print_report(&report, args.dry_run, args.format.json)
}
