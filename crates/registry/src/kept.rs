//! What was made once and is kept as long as it is asked for, within a bound of memory.

use std::{
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;

/// Values by key, the least recently used of which go when all together are too large.
#[derive(Debug)]
pub struct Kept<K: Hash + Eq, V>(Mutex<Inner<K, V>>);

#[derive(Debug)]
struct Inner<K: Hash + Eq, V> {
    /// With how many bytes each is said to take.
    entries: LruCache<K, (V, usize)>,
    bytes: usize,
    max_bytes: usize,
}

impl<K: Hash + Eq, V: Clone> Kept<K, V> {
    /// Keeps so much.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self(Mutex::new(Inner { entries: LruCache::unbounded(), bytes: 0, max_bytes }))
    }

    /// What is kept under a key.
    pub fn get(&self, key: &K) -> Option<V> {
        self.inner().entries.get(key).map(|(value, _)| value.clone())
    }

    /// Keeps a value of so many bytes. One that is larger than everything may be is not kept.
    pub fn put(&self, key: K, value: V, bytes: usize) {
        let mut inner = self.inner();
        if bytes > inner.max_bytes {
            if let Some((_, replaced)) = inner.entries.pop(&key) {
                inner.bytes -= replaced;
            }
            return;
        }
        inner.bytes += bytes;
        if let Some((_, (_, replaced))) = inner.entries.push(key, (value, bytes)) {
            inner.bytes -= replaced;
        }
        while inner.bytes > inner.max_bytes
            && let Some((_, (_, evicted))) = inner.entries.pop_lru()
        {
            inner.bytes -= evicted;
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_within_its_bound_and_keeps_the_newest() {
        let kept = Kept::new(100);
        let size = |kept: &Kept<i32, i32>| {
            let inner = kept.inner();
            (inner.entries.len(), inner.bytes)
        };
        for number in 0..20 {
            kept.put(number, number, 30);
            kept.put(number, number, 30);
        }
        assert_eq!(size(&kept), (3, 90));
        assert_eq!((kept.get(&19), kept.get(&16)), (Some(19), None));
        // What is asked for stays.
        assert_eq!(kept.get(&17), Some(17));
        kept.put(20, 20, 40);
        assert_eq!((kept.get(&17), kept.get(&18)), (Some(17), None));
        kept.put(21, 21, 101);
        assert_eq!((kept.get(&21), size(&kept)), (None, (3, 100)), "it drives out no others");
        kept.put(20, 20, 101);
        assert_eq!((kept.get(&20), size(&kept)), (None, (2, 60)), "nor is what it replaces right");
    }
}
