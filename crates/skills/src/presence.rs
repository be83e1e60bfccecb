//! Announces the functions of this server's workers to the other servers on the same database.

use std::{sync::Arc, time::Duration};

use skills_bus::Hub;
use skills_core::work::run_own;
use skills_registry::Registry;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// Interval of renewals: a lease outlives two that fail.
const RENEWAL: Duration = Duration::from_secs(3);
/// Time in which changes are collected: a worker registers many functions at once.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Longest wait at the end for the last announcement, by which other servers forget this one at once.
pub(crate) const WITHDRAWAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts to announce, if other servers may share the store.
pub(crate) fn announce(
    registry: &Arc<Registry>,
    hub: &Hub,
    server: String,
    shutdown: CancellationToken,
) -> Option<AbortOnDropHandle<()>> {
    if !registry.has_presence() {
        return None;
    }
    let announcing = run(Arc::clone(registry), hub.clone(), server, shutdown);
    Some(AbortOnDropHandle::new(tokio::spawn(announcing)))
}

async fn run(registry: Arc<Registry>, hub: Hub, server: String, shutdown: CancellationToken) {
    let mut changes = hub.function_changes();
    let mut announced: Vec<String> = vec![];
    let mut is_failed = false;
    loop {
        let functions = if shutdown.is_cancelled() { vec![] } else { hub.worker_functions() };
        let is_changed = functions != announced || is_failed;
        let (registry, server) = (Arc::clone(&registry), server.clone());
        let names = functions.clone();
        let announced_now = run_own("announcement of functions", move || {
            registry.announce_functions(&server, &names, is_changed)
        });
        is_failed = match announced_now.await {
            Ok(Ok(())) => false,
            Ok(Err(error)) => {
                tracing::debug!(%error, "functions not announced to other servers");
                true
            }
            Err(_) => true,
        };
        announced = functions;
        if shutdown.is_cancelled() {
            return;
        }
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
                tokio::time::sleep(DEBOUNCE).await;
                changes.mark_unchanged();
            }
            () = tokio::time::sleep(RENEWAL) => {}
            () = shutdown.cancelled() => {}
        }
    }
}

/// Returns the name of this machine.
pub(crate) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}
