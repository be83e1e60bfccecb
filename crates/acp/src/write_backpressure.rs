//! Backpressure from writing to reading: the SDK's queues are unbounded, so requests wait while responses are unread.

use tokio::sync::watch;

/// Most bytes of unwritten responses at which requests are still read.
const MAX_BYTES: usize = 1 << 20;

/// Number of bytes that are queued for writing.
#[derive(Debug, Default)]
pub(crate) struct WriteBackpressure(watch::Sender<usize>);

impl WriteBackpressure {
    pub(crate) fn queued(&self, bytes: usize) {
        self.0.send_modify(|pending| *pending += bytes);
    }

    pub(crate) fn record_written(&self, bytes: usize) {
        self.0.send_modify(|pending| *pending = pending.saturating_sub(bytes));
    }

    /// Waits until few enough bytes are queued.
    pub(crate) async fn wait_for_capacity(&self) {
        // The channel cannot be closed while it is borrowed.
        let _ = self.0.subscribe().wait_for(|pending| *pending < MAX_BYTES).await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn reading_waits_while_too_many_bytes_are_queued() {
        let backpressure = WriteBackpressure::default();
        backpressure.queued(MAX_BYTES - 1);
        assert!(backpressure.wait_for_capacity().now_or_never().is_some());
        backpressure.queued(1);
        assert!(backpressure.wait_for_capacity().now_or_never().is_none());
        backpressure.record_written(MAX_BYTES);
        assert!(backpressure.wait_for_capacity().now_or_never().is_some());
    }
}
