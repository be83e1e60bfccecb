//! Periodic collection: removes the content of versions that the configured retention rule no longer keeps.
//!
//! The registry collects in small batches between the writes of clients, so a collection may run at any time.

use std::{sync::Arc, time::Duration};

use skills_core::{Code, Coded as _};
use skills_registry::{CollectRequest, Collected, Registry};
use tokio_util::task::AbortOnDropHandle;

use crate::config::RetentionSettings;

/// Time between two collections.
const INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Actor of collections in the change log.
const ACTOR: &str = "retention";

impl From<RetentionSettings> for CollectRequest {
    fn from(RetentionSettings { versions, days }: RetentionSettings) -> Self {
        Self { versions, days, dry_run: false }
    }
}

/// Starts a task that collects now and then once an hour, until the handle is dropped. `None` if the rule keeps all
/// versions. Requires a Tokio runtime.
pub(crate) fn collect_periodically(
    registry: &Arc<Registry>,
    rule: RetentionSettings,
) -> Option<AbortOnDropHandle<()>> {
    let collect = || tokio::spawn(collect_forever(Arc::clone(registry), rule.into()));
    (rule != RetentionSettings::default()).then(|| AbortOnDropHandle::new(collect()))
}

async fn collect_forever(registry: Arc<Registry>, rule: CollectRequest) {
    loop {
        match registry.collect(ACTOR, &rule).await {
            Ok(Collected { versions: 0, .. }) => {}
            Ok(Collected { versions, bytes, .. }) => {
                tracing::info!(versions, bytes, "old versions removed");
            }
            // The store stays without history for as long as it is open.
            Err(error) if error.code() == Code::Unsupported => {
                return tracing::warn!(%error, "retention has no effect");
            }
            Err(error) => tracing::warn!(%error, "removing old versions failed"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
