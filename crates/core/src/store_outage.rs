//! Outage of a shared store: the age of what is in memory, and whether it may still be used. Stores that can be read and
//! take no writes.

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

/// Time for which a store counts as full after it refused a write: only another write shows whether it has space again.
const FULL_FOR: Duration = Duration::from_mins(1);

/// Reason for which a store that can be read takes no writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRefusal {
    /// It is read-only, as a standby is.
    ReadOnly,
    /// Its disk is full.
    Full,
}

impl WriteRefusal {
    /// Returns the sentence about it.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::ReadOnly => "the store is read-only: reads go on, writes fail",
            Self::Full => "the disk of the store is full: reads go on, writes fail",
        }
    }
}

/// Write that the store refused, and none succeeded since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedWrite {
    /// Reason of the store.
    pub refusal: WriteRefusal,
    /// Time of the write.
    pub at: Instant,
}

impl RefusedWrite {
    /// Returns the reason for which the store takes no writes, as far as is known.
    #[must_use]
    pub fn current(&self, now: Instant) -> Option<WriteRefusal> {
        let is_over = self.refusal == WriteRefusal::Full
            && now.saturating_duration_since(self.at) >= FULL_FOR;
        (!is_over).then_some(self.refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_full_for_a_while_and_read_only_until_it_is_not() {
        let at = Instant::now();
        let current = |refusal, seconds| {
            RefusedWrite { refusal, at }.current(at + Duration::from_secs(seconds))
        };
        assert_eq!(current(WriteRefusal::Full, 59), Some(WriteRefusal::Full));
        assert_eq!(current(WriteRefusal::Full, 60), None);
        assert_eq!(current(WriteRefusal::ReadOnly, 1_000_000), Some(WriteRefusal::ReadOnly));
    }

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
