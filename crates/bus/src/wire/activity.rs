//! Time of the last message of a peer, by which a half-open connection is found.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

use super::queue::Queue;

/// Time of the last activity of the peer, in milliseconds since the start of the connection.
pub(crate) struct Activity {
    start: Instant,
    last_ms: AtomicU64,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), last_ms: AtomicU64::new(0) }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn record(&self) {
        self.last_ms.store(self.elapsed_ms(), Ordering::Relaxed);
    }

    fn idle_time(&self) -> Duration {
        let last = self.last_ms.load(Ordering::Relaxed);
        Duration::from_millis(self.elapsed_ms().saturating_sub(last))
    }

    /// Queues a ping at each interval. Returns when the peer has sent nothing, not even a pong, for `idle_timeout`.
    pub(crate) async fn ping_until_idle(
        &self,
        queue: &Queue,
        ping_interval: Duration,
        idle_timeout: Duration,
    ) {
        let mut tick = tokio::time::interval(ping_interval);
        tick.tick().await;
        loop {
            tick.tick().await;
            if self.idle_time() > idle_timeout {
                return;
            }
            queue.ping();
        }
    }
}
