//! Watches the search index: `/readyz` tells while searches do not find everything.

use skills_http::Readiness;
use skills_registry::search::IndexProgress;
use tokio::sync::watch;

/// Updates readiness from the progress of the index. Never returns, so that it can run beside other watches.
pub(crate) async fn watch_index(
    mut progress: watch::Receiver<IndexProgress>,
    readiness: &Readiness,
) -> std::convert::Infallible {
    let is_indexing = |progress: &IndexProgress| !progress.is_complete || progress.unread > 0;
    loop {
        for state in [true, false] {
            if progress.wait_for(|progress| is_indexing(progress) == state).await.is_err() {
                return std::future::pending().await;
            }
            readiness.set_indexing(state);
        }
    }
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
        sender.send_modify(|progress| progress.unread = 1);
        assert!(futures_util::poll!(watch.as_mut()).is_pending());
        assert!(readiness.is_indexing(), "a text is not searchable yet");
        sender.send_modify(|progress| progress.unread = 0);
        assert!(futures_util::poll!(watch.as_mut()).is_pending());
        assert!(!readiness.is_indexing());
    }
}
