//! Tests of the counters of one process.

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
                        let allowed = limits.take_locally(&hash, plan, at(60)).allowed;
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
    let take = |seconds| limits.take_locally(&hash, Plan::Free, at(seconds));
    let first = take(120);
    let allowed =
        RateDecision { allowed: true, limit: 2, remaining: 1, reset_at: 180, retry_after: None };
    assert_eq!(first, allowed);
    assert_eq!(limits.peek(&hash, Plan::Free, at(120)), first, "a peek does not count");
    assert_eq!(take(150), RateDecision { remaining: 0, ..allowed });
    let denied = RateDecision { allowed: false, remaining: 0, retry_after: Some(1), ..allowed };
    assert_eq!(take(179), denied);
    assert_eq!(limits.take_locally(&hash, Plan::Pro, at(179)).remaining, 297);
    assert_eq!(take(180), RateDecision { reset_at: 240, ..allowed });
}

#[test]
fn past_minutes_take_no_memory() {
    let limits = RateLimits::new(PlanLimits::default());
    for minute in 0..50 {
        for number in 0..100_u32 {
            let hash = Digest::of(&number.to_le_bytes());
            let _ = limits.take_locally(&hash, Plan::Free, at(minute * 60));
        }
    }
    let counters: usize = limits.counters.0.iter().map(|shard| shard.lock().used.len()).sum();
    assert!(counters <= 100, "{counters}");
}

#[test]
fn a_clock_that_is_set_back_locks_no_key_out() {
    let limits = RateLimits::new(PlanLimits { free: 1, ..PlanLimits::default() });
    let hash = Digest::of(b"k");
    let take = |seconds| limits.take_locally(&hash, Plan::Free, at(seconds)).allowed;
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
        let _ = limits.take_locally(&hash, Plan::Free, at(60));
    }
    vault.save_windows(&limits.windows(at(61))).unwrap();
    let saved = vault.windows(at(62)).unwrap();
    assert_eq!(saved.len(), 2);
    let next = RateLimits::new(PlanLimits::default());
    next.resume(&saved, at(63));
    assert_eq!(next.take_locally(&a, Plan::Free, at(63)).remaining, 27);
    next.resume(&saved, at(120));
    assert_eq!(next.take_locally(&a, Plan::Free, at(120)).remaining, 29);
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
            let decision = limits.take_locally(&Digest::of(&[key]), Plan::Free, at(second));
            prop_assert_eq!((decision.allowed, decision.remaining), (allowed, limit - *used));
        }
    }
}
