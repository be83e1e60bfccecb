//! Watches whether the store can be reached and takes writes: `/readyz` says so, and answers how old the catalog may be.

use skills_http::Readiness;
use skills_registry::StoreHealth;
use tokio::sync::watch;

/// Updates readiness from the health of the store. Never returns, so that it can run beside other watches.
pub(crate) async fn watch_store(
    mut health: watch::Receiver<StoreHealth>,
    readiness: &Readiness,
) -> std::convert::Infallible {
    loop {
        {
            let health = health.borrow_and_update();
            readiness.set_store(health.outage, health.refused_write);
        }
        if health.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}
