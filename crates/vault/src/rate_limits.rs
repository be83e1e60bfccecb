//! Fixed-window rate limiter: a number of uses of a key per clock minute, by the plan of its owner.
//!
//! The counters are in memory. They are exact because one server runs on a data directory: the store is locked. The
//! counters of the current minute survive a restart in the vault ([`Vault::save_windows`], [`Vault::windows`]).

use std::collections::HashMap;

use parking_lot::Mutex;
use skills_core::{Digest, Timestamp};

use crate::{Plan, Vault, VaultError, backend::Tables};

const MINUTE_MICROS: i64 = 60_000_000;
/// Number of locks; a key's lock is chosen by the first byte of its hash.
const SHARDS: usize = 64;

/// Returns the minute since 1970 of a time.
pub(crate) fn minute_of(now: Timestamp) -> u64 {
    u64::try_from(now.as_micros().div_euclid(MINUTE_MICROS)).unwrap_or_default()
}

/// Uses per minute, by plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanLimits {
    /// FREE.
    pub free: u32,
    /// STARTER.
    pub starter: u32,
    /// PRO.
    pub pro: u32,
    /// SCALE.
    pub scale: u32,
}

impl Default for PlanLimits {
    fn default() -> Self {
        Self { free: 30, starter: 60, pro: 300, scale: 1000 }
    }
}

impl PlanLimits {
    /// Returns the limit of a plan.
    #[must_use]
    pub const fn for_plan(&self, plan: Plan) -> u32 {
        match plan {
            Plan::Free => self.free,
            Plan::Starter => self.starter,
            Plan::Pro => self.pro,
            Plan::Scale => self.scale,
        }
    }
}

/// Result of a rate limit check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateDecision {
    /// Set if the use is allowed.
    pub allowed: bool,
    /// Uses per minute.
    pub limit: u32,
    /// Uses left in this minute.
    pub remaining: u32,
    /// End of the minute, in seconds since 1970.
    pub reset_at: u64,
    /// Seconds until the end of the minute, at least 1; set if the use is not allowed.
    pub retry_after: Option<u64>,
}

/// Uses of one key in one minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateWindow {
    /// SHA-256 of the key.
    pub hash: Digest,
    /// The minute since 1970.
    pub minute: u64,
    /// Number of uses.
    pub used: u32,
}

/// Counters of some keys in one minute.
#[derive(Debug, Default)]
struct Shard {
    minute: u64,
    used: HashMap<Digest, u32>,
}

impl Shard {
    /// Resets the counters when a new minute begins. A use that arrives late, from the previous minute, counts in the
    /// current one; only a clock that was set back by more restarts the counters.
    fn advance(&mut self, now: u64) {
        if now > self.minute || now + 1 < self.minute {
            // Replaced, not cleared, to free the memory of a peak.
            *self = Self { minute: now, used: HashMap::new() };
        }
    }
}

/// Rate limiter for all keys.
#[derive(Debug)]
pub struct RateLimits {
    limits: PlanLimits,
    shards: [Mutex<Shard>; SHARDS],
}

impl RateLimits {
    /// Creates a limiter with empty counters.
    #[must_use]
    pub fn new(limits: PlanLimits) -> Self {
        Self { limits, shards: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Adds saved counters of the current minute.
    pub fn resume(&self, windows: &[RateWindow], now: Timestamp) {
        let minute = minute_of(now);
        for window in windows.iter().filter(|window| window.minute == minute) {
            self.with_shard(&window.hash, |shard| {
                shard.advance(minute);
                let used = shard.used.entry(window.hash).or_default();
                *used = used.saturating_add(window.used);
            });
        }
    }

    /// Counts one use of a key if it is allowed.
    #[must_use]
    pub fn take(&self, hash: &Digest, plan: Plan, now: Timestamp) -> RateDecision {
        let limit = self.limits.for_plan(plan);
        let (minute, used, allowed) = self.with_shard(hash, |shard| {
            shard.advance(minute_of(now));
            let used = shard.used.entry(*hash).or_default();
            let allowed = *used < limit;
            *used += u32::from(allowed);
            (shard.minute, *used, allowed)
        });
        decision(limit, minute, used, allowed, now)
    }

    /// Returns the state of a key's limit without counting a use.
    #[must_use]
    pub fn peek(&self, hash: &Digest, plan: Plan, now: Timestamp) -> RateDecision {
        let limit = self.limits.for_plan(plan);
        let (minute, used) = self.with_shard(hash, |shard| {
            shard.advance(minute_of(now));
            (shard.minute, shard.used.get(hash).copied().unwrap_or_default())
        });
        decision(limit, minute, used, used < limit, now)
    }

    /// Returns the counters of the current minute.
    #[must_use]
    pub fn windows(&self, now: Timestamp) -> Vec<RateWindow> {
        let present = minute_of(now);
        let mut windows = vec![];
        for shard in &self.shards {
            let shard = shard.lock();
            if shard.minute >= present {
                let window = |(hash, used): (&Digest, &u32)| RateWindow {
                    hash: *hash,
                    minute: shard.minute,
                    used: *used,
                };
                windows.extend(shard.used.iter().map(window));
            }
        }
        windows
    }

    fn with_shard<T>(&self, hash: &Digest, f: impl FnOnce(&mut Shard) -> T) -> T {
        let shard = &self.shards[usize::from(hash.as_bytes()[0]) % SHARDS];
        f(&mut shard.lock())
    }
}

fn decision(limit: u32, minute: u64, used: u32, allowed: bool, now: Timestamp) -> RateDecision {
    let reset_at = (minute + 1) * 60;
    RateDecision {
        allowed,
        limit,
        remaining: limit.saturating_sub(used),
        reset_at,
        retry_after: (!allowed).then(|| reset_at.saturating_sub(now.as_secs()).max(1)),
    }
}

/// Saves one counter and deletes those of past minutes.
pub(crate) fn save(
    tables: &mut dyn Tables,
    window: &RateWindow,
    now: Timestamp,
) -> Result<(), VaultError> {
    tables.remove_rate_windows(Some(minute_of(now)))?;
    tables.put_rate_window(window)
}

impl Vault {
    /// Replaces the saved counters.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn save_windows(&self, windows: &[RateWindow]) -> Result<(), VaultError> {
        self.backend.write(|tables| {
            tables.remove_rate_windows(None)?;
            windows.iter().try_for_each(|window| tables.put_rate_window(window))
        })
    }

    /// Returns the saved counters of the current minute and later ones.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn windows(&self, now: Timestamp) -> Result<Vec<RateWindow>, VaultError> {
        self.backend.read(|tables| tables.rate_windows(minute_of(now)))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        thread,
    };

    use proptest::prelude::*;

    use super::*;
    use crate::vault::testing::{TestSite, contract};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn exactly_the_limit_passes_under_concurrency() {
        let limits = RateLimits::new(PlanLimits::default());
        for (number, plan) in Plan::ALL.into_iter().enumerate() {
            let hash = Digest::of(&number.to_le_bytes());
            let passed = AtomicU32::new(0);
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        for _ in 0..200 {
                            let allowed = limits.take(&hash, plan, at(60)).allowed;
                            passed.fetch_add(u32::from(allowed), Ordering::Relaxed);
                        }
                    });
                }
            });
            assert_eq!(passed.into_inner(), PlanLimits::default().for_plan(plan), "{plan}");
        }
    }

    #[test]
    fn a_decision_has_limit_remaining_and_reset() {
        let limits = RateLimits::new(PlanLimits { free: 2, ..PlanLimits::default() });
        let hash = Digest::of(b"k");
        let take = |seconds| limits.take(&hash, Plan::Free, at(seconds));
        let first = take(120);
        let allowed = RateDecision {
            allowed: true,
            limit: 2,
            remaining: 1,
            reset_at: 180,
            retry_after: None,
        };
        assert_eq!(first, allowed);
        assert_eq!(limits.peek(&hash, Plan::Free, at(120)), first, "a peek does not count");
        assert_eq!(take(150), RateDecision { remaining: 0, ..allowed });
        let denied = RateDecision { allowed: false, remaining: 0, retry_after: Some(1), ..allowed };
        assert_eq!(take(179), denied);
        assert_eq!(limits.take(&hash, Plan::Pro, at(179)).remaining, 297);
        assert_eq!(take(180), RateDecision { reset_at: 240, ..allowed });
    }

    #[test]
    fn past_minutes_take_no_memory() {
        let limits = RateLimits::new(PlanLimits::default());
        for minute in 0..50 {
            for number in 0..100_u32 {
                let hash = Digest::of(&number.to_le_bytes());
                let _ = limits.take(&hash, Plan::Free, at(minute * 60));
            }
        }
        let counters: usize = limits.shards.iter().map(|shard| shard.lock().used.len()).sum();
        assert!(counters <= 100, "{counters}");
    }

    #[test]
    fn a_clock_that_is_set_back_locks_no_key_out() {
        let limits = RateLimits::new(PlanLimits { free: 1, ..PlanLimits::default() });
        let hash = Digest::of(b"k");
        let take = |seconds| limits.take(&hash, Plan::Free, at(seconds)).allowed;
        assert!(take(36_000) && !take(36_000));
        assert!(!take(35_999), "the end of the minute before is not a second chance");
        assert!(take(60) && !take(60));
    }

    contract! {
        counters_survive_a_restart_within_their_minute,
    }

    fn counters_survive_a_restart_within_their_minute(site: &TestSite) {
        let vault = site.vault();
        let limits = RateLimits::new(PlanLimits::default());
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        for hash in [a, a, b] {
            let _ = limits.take(&hash, Plan::Free, at(60));
        }
        vault.save_windows(&limits.windows(at(61))).unwrap();
        let saved = vault.windows(at(62)).unwrap();
        assert_eq!(saved.len(), 2);
        let next = RateLimits::new(PlanLimits::default());
        next.resume(&saved, at(63));
        assert_eq!(next.take(&a, Plan::Free, at(63)).remaining, 27);
        next.resume(&saved, at(120));
        assert_eq!(next.take(&a, Plan::Free, at(120)).remaining, 29);
        assert_eq!(vault.windows(at(120)).unwrap(), []);
        vault.save_windows(&[]).unwrap();
        assert_eq!(vault.windows(at(62)).unwrap(), []);
    }

    proptest! {
        #[test]
        fn counts_like_a_reference_model(
            uses in proptest::collection::vec((0_u8..4, 0_i64..400), 1..200),
            limit in 0_u32..6,
        ) {
            let limits = RateLimits::new(PlanLimits { free: limit, ..PlanLimits::default() });
            let mut uses = uses;
            uses.sort_by_key(|(_, second)| *second);
            let mut model: HashMap<(u8, i64), u32> = HashMap::new();
            for (key, second) in uses {
                let used = model.entry((key, second / 60)).or_default();
                let allowed = *used < limit;
                *used += u32::from(allowed);
                let decision = limits.take(&Digest::of(&[key]), Plan::Free, at(second));
                prop_assert_eq!((decision.allowed, decision.remaining), (allowed, limit - *used));
            }
        }
    }
}
