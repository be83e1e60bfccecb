//! Fixed-window rate limiter: a number of uses of a key per clock minute, by the plan of its owner.
//!
//! On a data directory the counters are in memory. They are exact because one server runs on it: the store is locked. The
//! counters of the current minute survive a restart in the vault ([`Vault::save_windows`], [`Vault::windows`]). Servers
//! that share a database count together (`shared`).

mod shared;

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use skills_core::{Digest, Timestamp};

use self::shared::SharedQueue;
use crate::{
    Plan, Vault, VaultError,
    backend::{RateGrant, RateRequest, Tables},
};

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

/// Counters of this process.
#[derive(Debug)]
struct Counters([Mutex<Shard>; SHARDS]);

impl Counters {
    fn with_shard<T>(&self, hash: &Digest, minute: u64, f: impl FnOnce(&mut Shard) -> T) -> T {
        let mut shard = self.0[usize::from(hash.as_bytes()[0]) % SHARDS].lock();
        shard.advance(minute);
        f(&mut shard)
    }

    /// Counts uses as far as the limit allows.
    fn take(&self, request: &RateRequest) -> RateGrant {
        self.with_shard(&request.hash, request.minute, |shard| {
            let used = shard.used.entry(request.hash).or_default();
            let granted = request.allowed.saturating_sub(*used).min(request.asked);
            *used += granted;
            RateGrant { granted, used: *used }
        })
    }

    /// Sets the number of uses.
    fn set(&self, hash: &Digest, minute: u64, used: u32) {
        self.with_shard(hash, minute, |shard| {
            shard.used.insert(*hash, used);
        });
    }
}

/// Rate limiter for all keys.
#[derive(Debug)]
pub struct RateLimits {
    limits: PlanLimits,
    /// Counters of this process; with shared ones, what is known of them.
    counters: Arc<Counters>,
    shared: Option<SharedQueue>,
}

impl RateLimits {
    /// Creates a limiter with empty counters in this process.
    #[must_use]
    pub fn new(limits: PlanLimits) -> Self {
        let counters = Counters(std::array::from_fn(|_| Mutex::default()));
        Self { limits, counters: Arc::new(counters), shared: None }
    }

    /// Creates the limiter of a vault: with the counters that it saved, or with those that several servers share.
    ///
    /// # Errors
    /// When the vault cannot be read.
    pub fn open(limits: PlanLimits, vault: &Vault, now: Timestamp) -> Result<Self, VaultError> {
        let mut limiter = Self::new(limits);
        match vault.backend.shared_counters() {
            Some(shared) => limiter.shared = Some(SharedQueue::start(shared, &limiter.counters)?),
            None => limiter.resume(&vault.windows(now)?, now),
        }
        Ok(limiter)
    }

    /// Saves the counters of the current minute for the next start, unless servers share them.
    ///
    /// # Errors
    /// When the vault cannot be written.
    pub fn save(&self, vault: &Vault, now: Timestamp) -> Result<(), VaultError> {
        if self.shared.is_some() {
            return Ok(());
        }
        vault.save_windows(&self.windows(now))
    }

    /// Adds saved counters of the current minute.
    pub fn resume(&self, windows: &[RateWindow], now: Timestamp) {
        let minute = minute_of(now);
        for window in windows.iter().filter(|window| window.minute == minute) {
            self.counters.with_shard(&window.hash, minute, |shard| {
                let used = shard.used.entry(window.hash).or_default();
                *used = used.saturating_add(window.used);
            });
        }
    }

    /// Counts one use of a key if it is allowed, on all servers that share a database.
    pub async fn take(&self, hash: &Digest, plan: Plan, now: Timestamp) -> RateDecision {
        if let Some(shared) = &self.shared {
            let known = self.peek(hash, plan, now);
            // The count of a minute only grows, so a limit that is reached stays so.
            if !known.allowed {
                return known;
            }
            if let Some(decision) = shared.take(*hash, known.limit, now).await {
                return decision;
            }
        }
        self.take_locally(hash, plan, now)
    }

    /// Counts one use of a key in this process if it is allowed.
    pub(crate) fn take_locally(&self, hash: &Digest, plan: Plan, now: Timestamp) -> RateDecision {
        let limit = self.limits.for_plan(plan);
        let (minute, used, allowed) = self.counters.with_shard(hash, minute_of(now), |shard| {
            let used = shard.used.entry(*hash).or_default();
            let allowed = *used < limit;
            *used += u32::from(allowed);
            (shard.minute, *used, allowed)
        });
        decision(limit, minute, used, allowed, now)
    }

    /// Returns the state of a key's limit without counting a use. With shared counters, uses at other servers are known
    /// from the next use here on.
    #[must_use]
    pub fn peek(&self, hash: &Digest, plan: Plan, now: Timestamp) -> RateDecision {
        let limit = self.limits.for_plan(plan);
        let (minute, used) = self.counters.with_shard(hash, minute_of(now), |shard| {
            (shard.minute, shard.used.get(hash).copied().unwrap_or_default())
        });
        decision(limit, minute, used, used < limit, now)
    }

    /// Returns the counters of the current minute.
    #[must_use]
    pub fn windows(&self, now: Timestamp) -> Vec<RateWindow> {
        let present = minute_of(now);
        let mut windows = vec![];
        for shard in &self.counters.0 {
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
mod tests;
