//! Watches whether a shared store can be reached: `/readyz` and the answers say how old the catalog may be.

use skills_http::Readiness;
use skills_registry::StoreHealth;
use tokio::sync::watch;

/// Updates readiness from the reachability of the store. Never returns, so that it can run beside other watches.
pub(crate) async fn watch_store(
    mut health: watch::Receiver<StoreHealth>,
    readiness: &Readiness,
) -> std::convert::Infallible {
    loop {
        readiness.set_outage(health.borrow_and_update().outage);
        if health.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}
