//! `add`: registers skills from folders, archives, documents and repositories. `update`: fetches them again.
//!
//! - `plan`: assigns ids to the bundles that `fetch` has found
//! - `import`: reads, validates and registers them concurrently
//! - `conflict`: content of another source under the same id
//! - `known_sources`: sources that the user added from this machine
//! - `row`: result of one bundle; `print`: output
//! - `watch`: repeats the import when files change

mod conflict;
mod import;
mod known_sources;
mod plan;
mod print;
mod row;
pub(super) mod update;
mod watch;

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use self::{
    import::{Import, ImportOptions, Imported},
    plan::{ImportPlan, Naming},
};
use crate::{
    Failure,
    blocking::blocking,
    cli::{AddArgs, ConflictArg, Target},
    config::Config,
    fetch::{ChosenBy, DEFAULT_HOST, Fetcher},
    interrupt::interruptible,
    progress::Progress,
};

pub(super) async fn run(args: AddArgs, target: Target, config: &Config) -> Result<(), Failure> {
    if args.watch {
        return watch::run(args, target, config).await;
    }
    let cancelled = Arc::new(AtomicBool::new(false));
    interruptible(&cancelled, add(args, target, config, Arc::clone(&cancelled))).await
}

async fn add(
    args: AddArgs,
    target: Target,
    config: &Config,
    cancelled: Arc<AtomicBool>,
) -> Result<(), Failure> {
    let options = import_options(&args);
    let AddArgs { sources, id, prefix, host, insecure, dry_run, format, .. } = args;
    let import = Import::new(&target, config, options);
    let naming = Naming { id, prefix: prefix.unwrap_or_default() };
    let host = host.as_deref().or(config.git_host.as_deref()).unwrap_or(DEFAULT_HOST);
    let fetcher = Fetcher::new(host, insecure, format.json, cancelled);
    let plan = async {
        let found = fetcher.find_all(sources).await?;
        blocking(move || ImportPlan::new(found, naming)).await?
    };
    let (plan, ()) = tokio::join!(plan, import.open_existing());
    let ImportPlan { bundles, rejected } = plan?;
    let mut progress = Progress::new(bundles.len(), format.json);
    let Imported { mut rows, aborted } =
        import.run(bundles, |done| progress.show(done, Instant::now())).await;
    progress.clear();
    rows.extend(rejected);
    rows.sort_by_key(|row| row.at);
    print::print_report(rows, dry_run, format.json, aborted)
}

fn import_options(args: &AddArgs) -> ImportOptions {
    let on_conflict = if args.replace { ConflictArg::Replace } else { args.on_conflict };
    ImportOptions {
        tier: args.tier.into(),
        on_conflict,
        plain: args.plain,
        dry_run: args.dry_run,
        chosen_by: ChosenBy::User,
        publish: args.publish.clone().into(),
    }
}
