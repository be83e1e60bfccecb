//! `sync --watch`: keeps folders in step whenever the registry changes.

use std::{collections::HashSet, path::PathBuf, time::Duration};

use futures_util::StreamExt as _;
use skills_bundles::sync::Options;
use skills_registry::{Changes, Skills, remote::is_lost};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{keep, show};
use crate::{Failure, cli::Target, config::Config, connect, open};

/// No news for so long, and what has changed is written.
const QUIET: Duration = Duration::from_millis(75);
/// When news never ends, it is written all the same.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) async fn run(
    folders: Vec<PathBuf>,
    options: Options,
    json: bool,
    mut target: Target,
    config: &Config,
) -> Result<(), Failure> {
    if target.url.is_none() && target.data_dir.is_some() {
        let message = "a store is changed by nobody else while it is open here";
        return Err(Failure::new("cannot_watch", message)
            .hint("start `skills serve` on it, and name its bus with --url"));
    }
    target.url = Some(connect::url(&target));
    let shutdown = CancellationToken::new();
    super::super::stop_on_signal(shutdown.clone())?;
    let followed = open::run("sync", &target, config, async |skills| {
        follow(&*skills, &folders, options, json).await
    });
    tokio::select! {
        followed = followed => followed,
        () = shutdown.cancelled() => Ok(()),
    }
}

async fn follow(
    skills: &dyn Skills,
    folders: &[PathBuf],
    options: Options,
    json: bool,
) -> Result<(), Failure> {
    // Before the first look, so that nothing happens in between.
    let mut changes = skills.changes();
    let mut said = HashSet::new();
    let mut is_first = true;
    loop {
        match keep::once(skills, folders, options).await {
            Ok(kept) => {
                said = show::news(&kept, &said, json)?;
                if std::mem::take(&mut is_first) {
                    show::ready(folders, json)?;
                }
            }
            // There is news when it is back.
            Err(failure) if is_lost(&failure.code) || !is_first => failure.print(json),
            Err(failure) => return Err(failure),
        }
        if next(&mut changes).await.is_none() {
            return Err(Failure::new("internal", "there is no more news of the registry"));
        }
    }
}

/// Waits for news and until it is quiet again.
async fn next(changes: &mut Changes) -> Option<()> {
    changes.next().await?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        match timeout(QUIET, changes.next()).await {
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break,
        }
    }
    Some(())
}
