//! `sync --watch`: synchronizes folders whenever the registry changes.

use std::collections::HashSet;

use futures_util::StreamExt as _;
use skills_core::Code;
use skills_registry::SkillRegistry;
use skills_remote::is_unreachable;
use tokio_util::sync::CancellationToken;

use super::{
    print,
    sync_once::{SyncJob, sync_once},
};
use crate::{Failure, cli::Target, commands::WATCH_DEBOUNCE, config::Config, surface_registry};

pub(super) async fn run(
    job: SyncJob,
    json: bool,
    target: Target,
    config: &Config,
) -> Result<(), Failure> {
    let shutdown = CancellationToken::new();
    super::super::stop_on_signal(shutdown.clone())?;
    let watch = surface_registry::run("sync", &target, config, async |skills, _| {
        watch_registry(&*skills, &job, json).await
    });
    tokio::select! {
        result = watch => result,
        () = shutdown.cancelled() => Ok(()),
    }
}

async fn watch_registry(
    skills: &dyn SkillRegistry,
    job: &SyncJob,
    json: bool,
) -> Result<(), Failure> {
    // Subscribed before the first synchronization, so that no change is missed.
    let mut changes = skills.changes();
    let mut printed = HashSet::new();
    let mut is_first = true;
    loop {
        match sync_once(skills, job).await {
            Ok(report) => {
                printed = print::print_changes(&report, &printed, json)?;
                if std::mem::take(&mut is_first) {
                    print::print_ready(&job.folders, json)?;
                }
            }
            // The registry sends a change when it is reachable again.
            Err(failure) if may_return(failure.code) || !is_first => failure.print(json),
            Err(failure) => return Err(failure),
        }
        if changes.next().await.is_none() {
            return Err(Failure::new(Code::Internal, "the registry's change notifications ended"));
        }
        // Should the changes end meanwhile, the next wait for one ends.
        let _ = WATCH_DEBOUNCE.collect(&mut changes, drop).await;
    }
}

/// Returns whether an error may be one of a registry or database that cannot be reached now.
const fn may_return(code: Code) -> bool {
    is_unreachable(code) || matches!(code, Code::StoreUnavailable)
}
