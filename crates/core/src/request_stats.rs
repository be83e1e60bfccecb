//! Counters of requests by surface and minute, over the last day, for people who look at a server.
//!
//! The counters are atomic and of fixed size: counting a request is one addition, and nothing is ever allocated for it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use parking_lot::RwLock;

/// Minutes that are remembered.
pub const MINUTES: usize = 24 * 60;

/// Counters of all surfaces of a process; clones share them.
#[derive(Debug, Clone)]
pub struct RequestStats(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    started: Instant,
    surfaces: RwLock<Vec<Arc<Ring>>>,
}

#[derive(Debug)]
struct Ring {
    surface: &'static str,
    requests: Slots,
    errors: Slots,
}

/// One slot a minute: the number of the minute in the upper half, the count in the lower half. A slot of an earlier day
/// is overwritten by the first request of its minute.
type Slots = Box<[AtomicU64]>;

/// Counter of one surface.
#[derive(Debug, Clone)]
pub struct SurfaceCounter {
    stats: RequestStats,
    ring: Arc<Ring>,
}

/// Requests of one surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurfaceStats {
    /// Name of the surface.
    pub surface: &'static str,
    /// Requests by minute, the oldest first and the current one last.
    pub requests: Vec<u32>,
    /// Requests that failed, by minute.
    pub errors: Vec<u32>,
}

impl SurfaceStats {
    /// Returns the requests and the failed ones of the last minutes.
    #[must_use]
    pub fn total(&self, minutes: usize) -> (u64, u64) {
        let sum = |counts: &[u32]| counts.iter().rev().take(minutes).map(|&it| u64::from(it)).sum();
        (sum(&self.requests), sum(&self.errors))
    }
}

impl Default for RequestStats {
    fn default() -> Self {
        let started = Instant::now();
        Self(Arc::new(Shared { started, surfaces: RwLock::default() }))
    }
}

impl RequestStats {
    /// Returns the counter of a surface; the same one for the same name.
    #[must_use]
    pub fn surface(&self, surface: &'static str) -> SurfaceCounter {
        let mut surfaces = self.0.surfaces.write();
        let found = surfaces.iter().find(|ring| ring.surface == surface).cloned();
        let ring = found.unwrap_or_else(|| {
            let slots = || (0..MINUTES).map(|_| AtomicU64::new(0)).collect();
            let ring = Arc::new(Ring { surface, requests: slots(), errors: slots() });
            surfaces.push(Arc::clone(&ring));
            ring
        });
        SurfaceCounter { stats: self.clone(), ring }
    }

    /// Returns the counts of all surfaces, sorted by name.
    #[must_use]
    pub fn snapshot(&self) -> Vec<SurfaceStats> {
        let now = self.minute();
        let mut stats: Vec<SurfaceStats> =
            self.0.surfaces.read().iter().map(|ring| ring.stats(now)).collect();
        stats.sort_by_key(|stats| stats.surface);
        stats
    }

    /// Returns the number of the current minute; the first one is 1, so that an empty slot is of none.
    fn minute(&self) -> u64 {
        self.0.started.elapsed().as_secs() / 60 + 1
    }
}

impl SurfaceCounter {
    /// Counts a request.
    pub fn count(&self, is_error: bool) {
        let minute = self.stats.minute();
        increment(&self.ring.requests, minute);
        if is_error {
            increment(&self.ring.errors, minute);
        }
    }
}

impl Ring {
    fn stats(&self, now: u64) -> SurfaceStats {
        let counts = |slots: &Slots| {
            let minutes = (0..MINUTES as u64).rev().map(|ago| now.checked_sub(ago));
            minutes.map(|minute| minute.map_or(0, |minute| count_of(slots, minute))).collect()
        };
        let (requests, errors) = (counts(&self.requests), counts(&self.errors));
        SurfaceStats { surface: self.surface, requests, errors }
    }
}

fn slot(slots: &Slots, minute: u64) -> Option<&AtomicU64> {
    slots.get(usize::try_from(minute % MINUTES as u64).ok()?)
}

fn count_of(slots: &Slots, minute: u64) -> u32 {
    let value = slot(slots, minute).map_or(0, |slot| slot.load(Ordering::Relaxed));
    let count = u32::try_from(value & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    if value >> 32 == minute { count } else { 0 }
}

fn increment(slots: &Slots, minute: u64) {
    let Some(slot) = slot(slots, minute) else { return };
    let next = |value: u64| {
        let is_current = value >> 32 == minute;
        let is_full = value & u64::from(u32::MAX) == u64::from(u32::MAX);
        Some(if !is_current { minute << 32 | 1 } else { value + u64::from(!is_full) })
    };
    let _ = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_errors_of_a_surface_are_counted() {
        let stats = RequestStats::default();
        let (mcp, bus) = (stats.surface("mcp"), stats.surface("bus"));
        mcp.count(false);
        stats.surface("mcp").count(true);
        bus.count(false);
        let snapshot = stats.snapshot();
        let totals: Vec<_> = snapshot.iter().map(|it| (it.surface, it.total(MINUTES))).collect();
        assert_eq!(totals, [("bus", (1, 0)), ("mcp", (2, 1))]);
        assert_eq!(snapshot[0].requests.len(), MINUTES);
        assert_eq!(snapshot[0].total(1), (1, 0));
    }

    #[test]
    fn a_slot_is_reused_a_day_later() {
        let slots: Slots = (0..MINUTES).map(|_| AtomicU64::new(0)).collect();
        increment(&slots, 5);
        increment(&slots, 5);
        assert_eq!(count_of(&slots, 5), 2);
        let next_day = 5 + MINUTES as u64;
        assert_eq!(count_of(&slots, next_day), 0);
        increment(&slots, next_day);
        assert_eq!((count_of(&slots, 5), count_of(&slots, next_day)), (0, 1));
    }

    #[test]
    fn concurrent_requests_are_all_counted() {
        let stats = RequestStats::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let counter = stats.surface("mcp");
                scope.spawn(move || (0..1000).for_each(|_| counter.count(false)));
            }
        });
        assert_eq!(stats.snapshot()[0].total(MINUTES), (4000, 0));
    }
}
