//! Outage of a shared store: the age of what is in memory, and whether it may still be used.

use std::time::{Duration, Instant};

/// Outage of a store that several servers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOutage {
    /// Time of the last contact before the failure.
    pub last_contact: Instant,
    /// Age after which what is in memory may not be used any more; `None` for as long as the outage takes.
    pub max_stale: Option<Duration>,
}

impl StoreOutage {
    /// Returns the time since the last contact: what is in memory may lack changes of other servers since then.
    #[must_use]
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last_contact)
    }

    /// Returns whether what is in memory is too old to be used.
    #[must_use]
    pub fn is_stale(&self, now: Instant) -> bool {
        self.max_stale.is_some_and(|max_stale| self.age(now) > max_stale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_stale_after_the_limit_and_never_without_one() {
        let (last_contact, limit) = (Instant::now(), Duration::from_secs(30));
        let after = |seconds| last_contact + Duration::from_secs(seconds);
        let limited = StoreOutage { last_contact, max_stale: Some(limit) };
        assert!(!limited.is_stale(after(30)));
        assert!(limited.is_stale(after(31)));
        assert_eq!(limited.age(after(31)).as_secs(), 31);
        assert!(!StoreOutage { max_stale: None, ..limited }.is_stale(after(1_000_000)));
    }
}
