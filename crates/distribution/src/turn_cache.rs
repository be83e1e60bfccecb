//! Cache of what clients make in turns, such as the histories of git remotes.

use std::hash::Hash;

use lru::LruCache;
use parking_lot::Mutex;
use skills_core::work::{TurnEnd, Turns};

use crate::error::DistributionError;

/// Cache of states that clients work on in turns, bounded in bytes. The state that was not used for longest is evicted.
#[derive(Debug)]
pub(crate) struct TurnCache<K: Hash + Eq, T> {
    entries: Mutex<LruCache<K, Entry<T>>>,
    max_bytes: usize,
}

#[derive(Debug)]
struct Entry<T> {
    weight: usize,
    turns: Turns<T>,
}

/// Memory of an entry besides its state.
const ENTRY: usize = 256;

impl<K: Hash + Eq + Clone, T: Default> TurnCache<K, T> {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { entries: Mutex::new(LruCache::unbounded()), max_bytes }
    }

    /// Returns the state of a key, which is empty at first.
    pub(crate) fn get(&self, key: &K) -> Turns<T> {
        let new = || Entry { weight: 0, turns: Turns::default() };
        self.entries.lock().get_or_insert(key.clone(), new).turns.clone()
    }

    pub(crate) fn remove(&self, key: &K) {
        self.entries.lock().pop(key);
    }

    /// Records the memory of a state, and evicts others.
    pub(crate) fn set_weight(&self, key: &K, weight: usize) {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get_mut(key) {
            entry.weight = weight;
        }
        let mut total: usize = entries.iter().map(|(_, entry)| entry.weight + ENTRY).sum();
        while total > self.max_bytes && entries.len() > 1 {
            let Some((_, evicted)) = entries.pop_lru() else { break };
            total = total.saturating_sub(evicted.weight + ENTRY);
        }
    }
}

/// Returns the end of a turn. One that lacks memory of its client is tried again.
pub(crate) fn turn_end(
    result: Result<(), DistributionError>,
) -> Result<TurnEnd, DistributionError> {
    match result {
        Err(error) if error.is_over_budget() => Ok(TurnEnd::OutOfMemory),
        result => result.map(|()| TurnEnd::Over),
    }
}
