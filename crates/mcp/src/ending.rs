//! The end in good order: first those who serve a stream hear of it, then the transport goes.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// How long a last word may take.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// A token that follows another one a moment later. Needs a Tokio runtime.
pub(crate) fn after(shutdown: &CancellationToken) -> CancellationToken {
    let after = CancellationToken::new();
    let (shutdown, cancelled) = (shutdown.clone(), after.clone());
    tokio::spawn(async move {
        shutdown.cancelled().await;
        tokio::time::sleep(LAST_WORDS).await;
        cancelled.cancel();
    });
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_follows_and_does_not_go_before() {
        let shutdown = CancellationToken::new();
        let after = after(&shutdown);
        assert!(!after.is_cancelled());
        shutdown.cancel();
        assert!(!after.is_cancelled());
        after.cancelled().await;
    }
}
