//! The time of a host.

use std::time::Duration;

use skills_core::Timestamp;
use tokio::time::Instant;

/// Milliseconds since the host began, and what they are for people. A test can stop it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
    began: Timestamp,
}

impl Clock {
    pub(super) fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let micros = i64::try_from(now.unwrap_or_default().as_micros()).unwrap_or(i64::MAX);
        Self { start: Instant::now(), began: Timestamp::from_micros(micros) }
    }

    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn since(&self, then: u64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(then))
    }

    pub(super) fn moment(&self, then: u64) -> Timestamp {
        let micros = i64::try_from(then).unwrap_or(i64::MAX).saturating_mul(1000);
        Timestamp::from_micros(self.began.as_micros().saturating_add(micros))
    }
}
