//! Rate limiter for log lines that a client can cause, so that no client can fill a disk with them.
//!
//! The caller passes the current time.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Allows a number of lines in each period and counts the suppressed ones.
#[derive(Debug)]
pub struct LogLimiter {
    lines: u32,
    period: Duration,
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    start: Option<Instant>,
    written: u32,
    suppressed: u64,
}

impl Default for LogLimiter {
    /// Allows one line a minute, for warnings with a constant text.
    fn default() -> Self {
        Self::new(1, Duration::from_secs(60))
    }
}

impl LogLimiter {
    /// Creates a limiter of `lines` in each period.
    #[must_use]
    pub fn new(lines: u32, period: Duration) -> Self {
        Self { lines, period, window: Mutex::default() }
    }

    /// Returns the number of lines suppressed since the last one if a line may be written now, otherwise `None`.
    pub fn check(&self, now: Instant) -> Option<u64> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.start.is_none_or(|start| now.duration_since(start) >= self.period) {
            window.start = Some(now);
            window.written = 0;
        }
        if window.written >= self.lines {
            window.suppressed += 1;
            return None;
        }
        window.written += 1;
        Some(std::mem::take(&mut window.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suppressed_lines_are_counted_and_reported_with_the_next() {
        let limiter = LogLimiter::new(2, Duration::from_secs(1));
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let reported: Vec<_> =
            [0, 1, 2, 999, 1000, 1001, 1002].map(|ms| limiter.check(at(ms))).into();
        assert_eq!(reported, [Some(0), Some(0), None, None, Some(2), Some(0), None]);
    }
}
