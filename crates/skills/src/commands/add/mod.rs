//! `add`: registers what is in folders, archives and documents.
//!
//! - `plan`: which bundles there are, and under which ids
//! - `import`: reading, judging and registering them, many at a time
//! - `show`: what is printed
//! - `progress`: what is printed meanwhile
//! - `watch`: doing so again whenever something changes

mod import;
mod plan;
mod progress;
mod show;
mod watch;

use self::{
    import::{Import, Imported},
    plan::Plan,
    progress::Progress,
};
use crate::{
    Failure,
    cli::{Add, Target},
    config::Config,
};

pub(super) async fn run(add: Add, target: Target, config: &Config) -> Result<(), Failure> {
    if add.watch {
        return watch::run(add, target, config).await;
    }
    let Add { paths, id, tier, dry_run, format, .. } = add;
    let plan = blocking(move || Plan::of(&paths, id)).await??;
    let Plan { bundles, refused } = plan;
    let mut progress = Progress::new(bundles.len(), format.json);
    let import = Import::new(&target, config, tier.into(), dry_run);
    let Imported { mut rows, lost } = import.run(bundles, |done| progress.show(done)).await;
    progress.clear();
    rows.extend(refused);
    rows.sort_by_key(|row| row.at);
    show::all(rows, dry_run, format.json, lost)
}

/// Work that waits for a disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Failure::new("internal", error.to_string()))
}
