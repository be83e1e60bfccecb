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

use std::time::Instant;

use self::{
    import::{Import, Imported},
    plan::Plan,
    progress::Progress,
};
use crate::{
    Failure,
    cli::{Add, Target},
    config::Config,
    work::blocking,
};

pub(super) async fn run(add: Add, target: Target, config: &Config) -> Result<(), Failure> {
    if add.watch {
        return watch::run(add, target, config).await;
    }
    let Add { paths, id, tier, dry_run, format, .. } = add;
    let import = Import::new(&target, config, tier.into(), dry_run);
    let plan = blocking(move || Plan::of(&paths, id));
    let (plan, ()) = tokio::join!(plan, import.open_early());
    let Plan { bundles, refused } = plan??;
    let mut progress = Progress::new(bundles.len(), format.json);
    let Imported { mut rows, lost } =
        import.run(bundles, |done| progress.show(done, Instant::now())).await;
    progress.clear();
    rows.extend(refused);
    rows.sort_by_key(|row| row.at);
    show::all(rows, dry_run, format.json, lost)
}
