//! How often a key may be used: a fixed number of times in a minute of the clock, by the tier of its owner.
//!
//! The counts are in memory, so they are exact for one process, and a data directory has one that serves: the
//! store is locked. What was counted of the present minute is kept in the vault over a restart
//! ([`Vault::save_windows`], [`Vault::windows`]).

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use rusqlite::{Connection, params};
use skills_core::{Digest, Timestamp};

use crate::{AccountTier, Vault, VaultError};

const MINUTE_MICROS: i64 = 60_000_000;
/// Keys are counted apart by the first byte of their hash, so that few wait for each other.
const SHARDS: usize = 64;

/// The minute since 1970 that a moment is in.
pub(crate) fn minute_of(now: Timestamp) -> u64 {
    u64::try_from(now.as_micros().div_euclid(MINUTE_MICROS)).unwrap_or_default()
}

/// Uses in a minute, for each tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierLimits {
    /// FREE.
    pub free: u32,
    /// STARTER.
    pub starter: u32,
    /// PRO.
    pub pro: u32,
    /// SCALE.
    pub scale: u32,
}

impl Default for TierLimits {
    fn default() -> Self {
        Self { free: 30, starter: 60, pro: 300, scale: 1000 }
    }
}

impl TierLimits {
    /// That of a tier.
    #[must_use]
    pub const fn of(&self, tier: AccountTier) -> u32 {
        match tier {
            AccountTier::Free => self.free,
            AccountTier::Starter => self.starter,
            AccountTier::Pro => self.pro,
            AccountTier::Scale => self.scale,
        }
    }
}

/// Whether a key may be used now, and what to say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may.
    pub allowed: bool,
    /// Uses in a minute.
    pub limit: u32,
    /// What is left of them.
    pub remaining: u32,
    /// When all of them are there again, in seconds since 1970.
    pub reset_at: u64,
    /// In how many seconds that is, at least one; for who may not.
    pub retry_after: Option<u64>,
}

/// What was counted of one key in one minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The key.
    pub hash: Digest,
    /// The minute since 1970.
    pub minute: u64,
    /// How often it was used.
    pub used: u32,
}

/// One minute of some keys; when the next begins, the counts go.
#[derive(Debug, Default)]
struct Shard {
    minute: u64,
    used: HashMap<Digest, u32>,
}

impl Shard {
    /// Takes up the minute of `now`. Who comes late to the end of a minute is counted in the next; only a
    /// clock that was set back takes it back.
    fn advance(&mut self, now: u64) {
        if now > self.minute || now + 1 < self.minute {
            // Not cleared: what many keys once needed is given back.
            *self = Self { minute: now, used: HashMap::new() };
        }
    }
}

/// The counts of all keys.
#[derive(Debug)]
pub struct RateLimits {
    limits: TierLimits,
    shards: [Mutex<Shard>; SHARDS],
}

impl RateLimits {
    /// With nothing counted yet.
    #[must_use]
    pub fn new(limits: TierLimits) -> Self {
        Self { limits, shards: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Takes up what was counted before, as far as it is of the present minute.
    pub fn resume(&self, windows: &[Window], now: Timestamp) {
        let minute = minute_of(now);
        for window in windows.iter().filter(|window| window.minute == minute) {
            self.with(&window.hash, |shard| {
                shard.advance(minute);
                let used = shard.used.entry(window.hash).or_default();
                *used = used.saturating_add(window.used);
            });
        }
    }

    /// Counts one use of a key, if it is allowed.
    #[must_use]
    pub fn take(&self, hash: &Digest, tier: AccountTier, now: Timestamp) -> Decision {
        let limit = self.limits.of(tier);
        let (minute, used, allowed) = self.with(hash, |shard| {
            shard.advance(minute_of(now));
            let used = shard.used.entry(*hash).or_default();
            let allowed = *used < limit;
            *used += u32::from(allowed);
            (shard.minute, *used, allowed)
        });
        decision(limit, minute, used, allowed, now)
    }

    /// What would be decided, without counting.
    #[must_use]
    pub fn peek(&self, hash: &Digest, tier: AccountTier, now: Timestamp) -> Decision {
        let limit = self.limits.of(tier);
        let (minute, used) = self.with(hash, |shard| {
            shard.advance(minute_of(now));
            (shard.minute, shard.used.get(hash).copied().unwrap_or_default())
        });
        decision(limit, minute, used, used < limit, now)
    }

    /// What is counted of the present minute.
    #[must_use]
    pub fn windows(&self, now: Timestamp) -> Vec<Window> {
        let present = minute_of(now);
        let mut windows = vec![];
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            if shard.minute >= present {
                let window = |(hash, used): (&Digest, &u32)| Window {
                    hash: *hash,
                    minute: shard.minute,
                    used: *used,
                };
                windows.extend(shard.used.iter().map(window));
            }
        }
        windows
    }

    fn with<T>(&self, hash: &Digest, look: impl FnOnce(&mut Shard) -> T) -> T {
        let shard = &self.shards[usize::from(hash.as_bytes()[0]) % SHARDS];
        look(&mut shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn decision(limit: u32, minute: u64, used: u32, allowed: bool, now: Timestamp) -> Decision {
    let reset_at = (minute + 1) * 60;
    let now = u64::try_from(now.as_micros() / 1_000_000).unwrap_or_default();
    Decision {
        allowed,
        limit,
        remaining: limit.saturating_sub(used),
        reset_at,
        retry_after: (!allowed).then(|| reset_at.saturating_sub(now).max(1)),
    }
}

/// Keeps one count and forgets those of minutes that are over, in the transaction of who asks.
pub(crate) fn save(
    transaction: &Connection,
    window: &Window,
    now: Timestamp,
) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM rate WHERE minute < ?1", [minute_of(now)])?;
    insert(transaction, window)
}

fn insert(transaction: &Connection, window: &Window) -> rusqlite::Result<()> {
    let Window { hash, minute, used } = window;
    let sql = "INSERT OR REPLACE INTO rate (hash, minute, used) VALUES (?1, ?2, ?3)";
    transaction.prepare_cached(sql)?.execute(params![hash.as_bytes(), minute, used]).map(|_| ())
}

impl Vault {
    /// Keeps what was counted, instead of what was kept before.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save_windows(&self, windows: &[Window]) -> Result<(), VaultError> {
        self.file.write(|transaction| {
            transaction.execute("DELETE FROM rate", [])?;
            Ok(windows.iter().try_for_each(|window| insert(transaction, window))?)
        })
    }

    /// What is kept of the present minute and of later ones.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn windows(&self, now: Timestamp) -> Result<Vec<Window>, VaultError> {
        self.file.read(|connection| {
            let sql =
                "SELECT hash, minute, used FROM rate WHERE minute >= ?1 ORDER BY hash, minute";
            let mut statement = connection.prepare_cached(sql)?;
            let windows = statement.query_map([minute_of(now)], |row| {
                let hash = Digest::from_bytes(row.get(0)?);
                Ok(Window { hash, minute: row.get(1)?, used: row.get(2)? })
            })?;
            Ok(windows.collect::<rusqlite::Result<_>>()?)
        })
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
    use crate::vault::testing::vault;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn exactly_the_limit_passes_however_many_ask_at_once() {
        let limits = RateLimits::new(TierLimits::default());
        for (number, tier) in AccountTier::ALL.into_iter().enumerate() {
            let hash = Digest::of(&number.to_le_bytes());
            let passed = AtomicU32::new(0);
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        for _ in 0..200 {
                            let allowed = limits.take(&hash, tier, at(60)).allowed;
                            passed.fetch_add(u32::from(allowed), Ordering::Relaxed);
                        }
                    });
                }
            });
            assert_eq!(passed.into_inner(), TierLimits::default().of(tier), "{tier}");
        }
    }

    #[test]
    fn what_is_said_of_a_decision() {
        let limits = RateLimits::new(TierLimits { free: 2, ..TierLimits::default() });
        let hash = Digest::of(b"k");
        let take = |seconds| limits.take(&hash, AccountTier::Free, at(seconds));
        let first = take(120);
        let allowed =
            Decision { allowed: true, limit: 2, remaining: 1, reset_at: 180, retry_after: None };
        assert_eq!(first, allowed);
        assert_eq!(limits.peek(&hash, AccountTier::Free, at(120)), first, "a look does not count");
        assert_eq!(take(150), Decision { remaining: 0, ..allowed });
        let denied = Decision { allowed: false, remaining: 0, retry_after: Some(1), ..allowed };
        assert_eq!(take(179), denied);
        assert_eq!(limits.take(&hash, AccountTier::Pro, at(179)).remaining, 297);
        assert_eq!(take(180), Decision { reset_at: 240, ..allowed });
    }

    #[test]
    fn minutes_that_are_over_take_no_room() {
        let limits = RateLimits::new(TierLimits::default());
        for minute in 0..50 {
            for number in 0..100_u32 {
                let hash = Digest::of(&number.to_le_bytes());
                let _ = limits.take(&hash, AccountTier::Free, at(minute * 60));
            }
        }
        let kept: usize = limits.shards.iter().map(|shard| shard.lock().unwrap().used.len()).sum();
        assert!(kept <= 100, "{kept}");
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out() {
        let limits = RateLimits::new(TierLimits { free: 1, ..TierLimits::default() });
        let hash = Digest::of(b"k");
        let take = |seconds| limits.take(&hash, AccountTier::Free, at(seconds)).allowed;
        assert!(take(36_000) && !take(36_000));
        assert!(!take(35_999), "the end of the minute before is not a second chance");
        assert!(take(60) && !take(60));
    }

    #[test]
    fn counts_outlive_a_restart_within_their_minute() {
        let (vault, _dir) = vault();
        let limits = RateLimits::new(TierLimits::default());
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        for hash in [a, a, b] {
            let _ = limits.take(&hash, AccountTier::Free, at(60));
        }
        vault.save_windows(&limits.windows(at(61))).unwrap();
        let kept = vault.windows(at(62)).unwrap();
        assert_eq!(kept.len(), 2);
        let next = RateLimits::new(TierLimits::default());
        next.resume(&kept, at(63));
        assert_eq!(next.take(&a, AccountTier::Free, at(63)).remaining, 27);
        next.resume(&kept, at(120));
        assert_eq!(next.take(&a, AccountTier::Free, at(120)).remaining, 29);
        assert_eq!(vault.windows(at(120)).unwrap(), []);
        vault.save_windows(&[]).unwrap();
        assert_eq!(vault.windows(at(62)).unwrap(), []);
    }

    proptest! {
        #[test]
        fn counts_as_a_plain_model_does(
            uses in proptest::collection::vec((0_u8..4, 0_i64..400), 1..200),
            limit in 0_u32..6,
        ) {
            let limits = RateLimits::new(TierLimits { free: limit, ..TierLimits::default() });
            let mut uses = uses;
            uses.sort_by_key(|(_, second)| *second);
            let mut model: HashMap<(u8, i64), u32> = HashMap::new();
            for (key, second) in uses {
                let used = model.entry((key, second / 60)).or_default();
                let allowed = *used < limit;
                *used += u32::from(allowed);
                let decision = limits.take(&Digest::of(&[key]), AccountTier::Free, at(second));
                prop_assert_eq!((decision.allowed, decision.remaining), (allowed, limit - *used));
            }
        }
    }
}
