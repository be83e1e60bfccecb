//! Grace period at shutdown: open streams end first, then the transport closes.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Time in which streams send their last messages.
const GRACE_PERIOD: Duration = Duration::from_millis(250);

/// Returns a token that is cancelled a grace period after `shutdown`. Needs a Tokio runtime.
pub(crate) fn after_grace_period(shutdown: &CancellationToken) -> CancellationToken {
    let delayed = CancellationToken::new();
    let (shutdown, cancelled) = (shutdown.clone(), delayed.clone());
    tokio::spawn(async move {
        shutdown.cancelled().await;
        tokio::time::sleep(GRACE_PERIOD).await;
        cancelled.cancel();
    });
    delayed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_delayed_token_is_cancelled_after_shutdown_and_not_before() {
        let shutdown = CancellationToken::new();
        let delayed = after_grace_period(&shutdown);
        assert!(!delayed.is_cancelled());
        shutdown.cancel();
        assert!(!delayed.is_cancelled());
        delayed.cancelled().await;
    }
}
