//! How much is waiting to be written. The queues of the SDK have no bound, so who asks has to wait instead.

use tokio::sync::watch;

/// More than this is not answered ahead of a client that does not read, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Counts what is waiting, in bytes.
#[derive(Debug)]
pub(crate) struct Backlog(watch::Sender<usize>);

impl Default for Backlog {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Backlog {
    pub(crate) fn add(&self, bytes: usize) {
        self.0.send_modify(|waiting| *waiting += bytes);
    }

    pub(crate) fn done(&self, bytes: usize) {
        self.0.send_modify(|waiting| *waiting = waiting.saturating_sub(bytes));
    }

    /// Waits until there is room for more.
    pub(crate) async fn is_short(&self) {
        // It cannot be closed while it is borrowed.
        let _ = self.0.subscribe().wait_for(|waiting| *waiting < MAX_BYTES).await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn who_asks_waits_while_much_is_waiting() {
        let backlog = Backlog::default();
        backlog.add(MAX_BYTES - 1);
        assert!(backlog.is_short().now_or_never().is_some());
        backlog.add(1);
        assert!(backlog.is_short().now_or_never().is_none());
        backlog.done(MAX_BYTES);
        assert!(backlog.is_short().now_or_never().is_some());
    }
}
