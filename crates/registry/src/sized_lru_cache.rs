//! LRU cache with a limit in bytes.

use std::hash::Hash;

use lru::LruCache;
use parking_lot::Mutex;

/// Cache that evicts the least recently used values when all together are larger than its limit.
#[derive(Debug)]
pub struct SizedLruCache<K: Hash + Eq, V>(Mutex<Inner<K, V>>);

#[derive(Debug)]
struct Inner<K: Hash + Eq, V> {
    /// Values with their sizes.
    entries: LruCache<K, (V, usize)>,
    bytes: usize,
    max_bytes: usize,
}

impl<K: Hash + Eq, V: Clone> SizedLruCache<K, V> {
    /// Creates a cache of at most `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self(Mutex::new(Inner { entries: LruCache::unbounded(), bytes: 0, max_bytes }))
    }

    /// Returns the value of a key and marks it as used.
    pub fn get(&self, key: &K) -> Option<V> {
        self.0.lock().entries.get(key).map(|(value, _)| value.clone())
    }

    /// Removes the value of a key.
    pub fn remove(&self, key: &K) {
        let mut inner = self.0.lock();
        if let Some((_, bytes)) = inner.entries.pop(key) {
            inner.bytes -= bytes;
        }
    }

    /// Removes all values.
    pub fn clear(&self) {
        let mut inner = self.0.lock();
        inner.entries.clear();
        inner.bytes = 0;
    }

    /// Inserts a value of `bytes` bytes. A value larger than the limit is not cached.
    pub fn put(&self, key: K, value: V, bytes: usize) {
        let mut inner = self.0.lock();
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_values_are_evicted_at_the_limit() {
        let cache = SizedLruCache::new(100);
        let size = |cache: &SizedLruCache<i32, i32>| {
            let inner = cache.0.lock();
            (inner.entries.len(), inner.bytes)
        };
        for number in 0..20 {
            cache.put(number, number, 30);
            cache.put(number, number, 30);
        }
        assert_eq!(size(&cache), (3, 90));
        assert_eq!((cache.get(&19), cache.get(&16)), (Some(19), None));
        // A read marks a value as used.
        assert_eq!(cache.get(&17), Some(17));
        cache.put(20, 20, 40);
        assert_eq!((cache.get(&17), cache.get(&18)), (Some(17), None));
        cache.put(21, 21, 101);
        assert_eq!((cache.get(&21), size(&cache)), (None, (3, 100)), "it evicts no others");
        cache.put(20, 20, 101);
        assert_eq!(
            (cache.get(&20), size(&cache)),
            (None, (2, 60)),
            "the replaced value is removed"
        );
    }
}
