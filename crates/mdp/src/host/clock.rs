//! Clock of a host.

use std::time::Duration;

use skills_core::Timestamp;
use tokio::time::Instant;

/// Milliseconds since the start of the host, convertible to timestamps. Tests can pause it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
    started_at: Timestamp,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), started_at: Timestamp::now() }
    }

    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn since(&self, then: u64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(then))
    }

    pub(super) fn timestamp(&self, then: u64) -> Timestamp {
        self.started_at.saturating_add(Duration::from_millis(then))
    }
}
