//! Watches the search index while it is built: `/readyz` tells that searches do not find everything yet.

use skills_http::Readiness;
use skills_registry::search::IndexProgress;
use tokio::sync::watch;

/// Updates readiness from the progress of the index. Never returns, so that it can run beside other watches.
pub(crate) async fn watch_index(
    mut progress: watch::Receiver<IndexProgress>,
    readiness: &Readiness,
) -> std::convert::Infallible {
    readiness.set_indexing(true);
    let _ = progress.wait_for(|progress| progress.is_complete).await;
    readiness.set_indexing(false);
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_watch_ends_with_the_build_and_not_with_the_server() {
        let (sender, progress) = watch::channel(IndexProgress::default());
        let readiness = Readiness::default();
        let watch = watch_index(progress, &readiness);
        tokio::pin!(watch);
        assert!(futures_util::poll!(watch.as_mut()).is_pending());
        assert!(readiness.is_indexing());
        sender.send_modify(|progress| progress.is_complete = true);
        assert!(futures_util::poll!(watch.as_mut()).is_pending());
        assert!(!readiness.is_indexing());
    }
}
