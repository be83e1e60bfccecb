//! Negative cache for store lookups. Reading a live entry first checks whether a stored entry shadows it; on a remote
//! store that check is slow, so misses are remembered for one second.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use skills_core::EntryKey;

/// Time for which a miss is remembered.
const TTL: Duration = Duration::from_secs(1);
/// Most misses that are remembered.
const CAPACITY: usize = 1024;

/// Recent misses with their times.
#[derive(Debug, Default)]
pub(crate) struct NegativeLookupCache(Mutex<HashMap<EntryKey, Instant>>);

impl NegativeLookupCache {
    /// Returns whether a lookup missed less than [`TTL`] ago.
    pub(crate) fn contains(&self, key: &EntryKey) -> bool {
        self.0.lock().get(key).is_some_and(|missed_at| missed_at.elapsed() < TTL)
    }

    /// Remembers a miss.
    pub(crate) fn insert(&self, key: EntryKey) {
        let mut misses = self.0.lock();
        if misses.len() >= CAPACITY {
            misses.retain(|_, missed_at| missed_at.elapsed() < TTL);
        }
        if misses.len() < CAPACITY {
            misses.insert(key, Instant::now());
        }
    }
}
