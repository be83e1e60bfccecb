//! Table of entries that callers hold for a time: sessions, streams, drafts, uploads.
//!
//! Every owner has a share of the table. An owner whose share is full loses its own oldest entry, never one of another
//! owner. Entries that are idle or too old are removed by a timer.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashMap},
    fmt,
    hash::Hash,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::budget::{MemoryBudget, OverBudget, Reservation};

/// Shortest and longest time between two checks for expired entries.
const SWEEP: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// Limits of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableLimits {
    /// Entries of one owner; one more replaces the owner's oldest.
    pub per_owner: usize,
    /// Entries of all owners; one more is refused, unless its owner has one to replace.
    pub total: usize,
    /// Time without a use after which an entry is removed.
    pub idle: Duration,
    /// Time since its insertion after which an entry is removed.
    pub lifetime: Duration,
}

/// The table is full of entries of other owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server holds too many entries of other clients")]
pub struct TableFull;

/// Function that gets the entries that were evicted or have expired, outside the lock.
type OnRemoval<K, V> = Box<dyn Fn(K, V) + Send + Sync>;

/// Table with a share per owner. Clones are handles to the same table.
pub struct OwnedTable<K, V, O>(Arc<Shared<K, V, O>>);

struct Shared<K, V, O> {
    limits: TableLimits,
    /// Rank of an entry, which depends on its value alone: entries of the lowest rank are evicted first, the oldest among
    /// them.
    rank: fn(&V) -> u8,
    on_removal: OnRemoval<K, V>,
    table: Mutex<Entries<K, V, O>>,
}

struct Entries<K, V, O> {
    entries: HashMap<K, Entry<V, O>>,
    /// Keys of each owner, in the order in which they are evicted.
    owners: HashMap<O, BTreeMap<EvictionOrder, K>>,
    /// Number of the next use.
    next_use: u64,
    is_swept: bool,
}

struct Entry<V, O> {
    owner: O,
    value: V,
    inserted: Instant,
    last_used: Instant,
    order: EvictionOrder,
}

/// Position of an entry among those of its owner; the lowest is evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EvictionOrder {
    rank: u8,
    /// Number of the last use.
    used: u64,
}

impl<K, V, O> Clone for OwnedTable<K, V, O> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K, V, O> fmt::Debug for OwnedTable<K, V, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedTable").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl<K, V, O> OwnedTable<K, V, O>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Send + 'static,
    O: Clone + Eq + Hash + Send + 'static,
{
    /// Creates a table whose entries are dropped when they are evicted or expire.
    #[must_use]
    pub fn new(limits: TableLimits) -> Self {
        Self::with_eviction(limits, |_| 0, |_, _| ())
    }

    /// Creates a table with a rank of entries, those of the lowest being evicted first, and a function that gets what is
    /// evicted or expires.
    #[must_use]
    pub fn with_eviction(
        limits: TableLimits,
        rank: fn(&V) -> u8,
        on_removal: impl Fn(K, V) + Send + Sync + 'static,
    ) -> Self {
        let table = Entries {
            entries: HashMap::new(),
            owners: HashMap::new(),
            next_use: 0,
            is_swept: false,
        };
        let (on_removal, table) = (Box::new(on_removal), Mutex::new(table));
        Self(Arc::new(Shared { limits, rank, on_removal, table }))
    }

    /// Inserts an entry. The owner's oldest makes room for it if the owner's share, or the table, is full. Within a runtime,
    /// a timer then removes entries that expire.
    ///
    /// # Errors
    /// When the table is full of entries of other owners.
    pub fn insert(&self, owner: O, key: K, value: V) -> Result<(), TableFull> {
        let (limits, mut removed) = (&self.0.limits, Vec::new());
        let mut table = self.0.table.lock();
        removed.extend(table.remove(&key));
        if table.entries.len() >= limits.total {
            removed.extend(table.take_expired(limits));
        }
        let held = table.owners.get(&owner).map_or(0, BTreeMap::len);
        let is_full = table.entries.len() >= limits.total;
        if held >= limits.per_owner || (is_full && held > 0) {
            removed.extend(table.evict(&owner));
        }
        let inserted = if table.entries.len() < limits.total {
            table.insert(owner, key, value, self.0.rank);
            Ok(())
        } else {
            Err(TableFull)
        };
        let starts_timer = inserted.is_ok() && !table.is_swept;
        if starts_timer && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            table.is_swept = true;
            runtime.spawn(sweep(Arc::downgrade(&self.0), limits.sweep_interval()));
        }
        drop(table);
        self.removed(removed);
        inserted
    }

    /// Reserves memory for a new entry of an owner, from the share of the owner. Old entries of the owner make room for it if
    /// the share is full.
    ///
    /// # Errors
    /// When the memory is not free even without the owner's other entries, or others have all of it.
    pub fn reserve(
        &self,
        owner: &O,
        memory: &MemoryBudget,
        bytes: usize,
    ) -> Result<Reservation, OverBudget> {
        loop {
            let refused = match memory.try_reserve(bytes) {
                Ok(reservation) => return Ok(reservation),
                Err(refused) => refused,
            };
            // Entries of this owner give nothing back that others have.
            if bytes > memory.capacity() || bytes <= memory.free() {
                return Err(refused);
            }
            let Some(evicted) = self.0.table.lock().evict(owner) else {
                return Err(refused);
            };
            self.removed([evicted]);
        }
    }

    /// Uses an entry: it becomes its owner's newest. Returns `None` if there is none, or it has expired.
    pub fn update<Q, R>(&self, key: &Q, change: impl FnOnce(&O, &mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.change(key, true, change)
    }

    /// Looks at an entry without using it. Returns `None` if there is none, or it has expired.
    pub fn peek<Q, R>(&self, key: &Q, look: impl FnOnce(&O, &mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.change(key, false, look)
    }

    fn change<Q, R>(&self, key: &Q, is_use: bool, change: impl FnOnce(&O, &mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let Entries { entries, owners, next_use, .. } = &mut *self.0.table.lock();
        let entry = entries.get_mut(key).filter(|entry| !entry.is_expired(&self.0.limits))?;
        let result = change(&entry.owner, &mut entry.value);
        let mut order = EvictionOrder { rank: (self.0.rank)(&entry.value), ..entry.order };
        if is_use {
            (entry.last_used, order.used) = (Instant::now(), *next_use);
            *next_use += 1;
        }
        if order != entry.order
            && let Some(keys) = owners.get_mut(&entry.owner)
            && let Some(key) = keys.remove(&entry.order)
        {
            keys.insert(order, key);
            entry.order = order;
        }
        Some(result)
    }

    /// Removes and returns an entry that matches. Returns `None` if there is none, or it has expired.
    pub fn remove_if<Q>(&self, key: &Q, matches: impl FnOnce(&O, &V) -> bool) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let mut table = self.0.table.lock();
        let entry = table.entries.get(key)?;
        if entry.is_expired(&self.0.limits) || !matches(&entry.owner, &entry.value) {
            return None;
        }
        table.remove(key).map(|(_, value)| value)
    }

    /// Removes and returns an entry. Returns `None` if there is none, or it has expired.
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.remove_if(key, |_, _| true)
    }

    /// Removes all entries that match, such as those of an account that has ended.
    pub fn remove_all(&self, matches: impl Fn(&O, &V) -> bool) {
        let mut table = self.0.table.lock();
        let keys: Vec<K> = table
            .entries
            .iter()
            .filter(|(_, entry)| matches(&entry.owner, &entry.value))
            .map(|(key, _)| key.clone())
            .collect();
        let removed: Vec<_> = keys.iter().filter_map(|key| table.remove(key)).collect();
        drop(table);
        self.removed(removed);
    }

    /// Returns what `map` makes of all entries, the last used first.
    pub fn list<R>(&self, map: impl Fn(&O, &V) -> R) -> Vec<R> {
        let table = self.0.table.lock();
        let mut entries: Vec<_> = table.entries.values().collect();
        entries.retain(|entry| !entry.is_expired(&self.0.limits));
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.order.used));
        entries.into_iter().map(|entry| map(&entry.owner, &entry.value)).collect()
    }

    /// Returns the number of entries, with those that have expired and are not yet removed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.table.lock().entries.len()
    }

    /// Returns whether the table has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn removed(&self, removed: impl IntoIterator<Item = (K, V)>) {
        for (key, value) in removed {
            (self.0.on_removal)(key, value);
        }
    }
}

impl TableLimits {
    fn sweep_interval(&self) -> Duration {
        (self.idle.min(self.lifetime) / 4).clamp(SWEEP.0, SWEEP.1)
    }
}

impl<V, O> Entry<V, O> {
    fn is_expired(&self, limits: &TableLimits) -> bool {
        self.last_used.elapsed() >= limits.idle || self.inserted.elapsed() >= limits.lifetime
    }
}

impl<K, V, O> Entries<K, V, O>
where
    K: Clone + Eq + Hash,
    O: Clone + Eq + Hash,
{
    fn insert(&mut self, owner: O, key: K, value: V, rank: fn(&V) -> u8) {
        let (now, order) =
            (Instant::now(), EvictionOrder { rank: rank(&value), used: self.next_use });
        self.next_use += 1;
        self.owners.entry(owner.clone()).or_default().insert(order, key.clone());
        self.entries.insert(key, Entry { owner, value, inserted: now, last_used: now, order });
    }

    fn remove<Q>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (stored, entry) = self.entries.remove_entry(key)?;
        if let Some(keys) = self.owners.get_mut(&entry.owner) {
            keys.remove(&entry.order);
            if keys.is_empty() {
                self.owners.remove(&entry.owner);
            }
        }
        Some((stored, entry.value))
    }

    /// Removes the entry of an owner that goes first.
    fn evict(&mut self, owner: &O) -> Option<(K, V)> {
        let (_, first) = self.owners.get(owner)?.first_key_value()?;
        let first = first.clone();
        self.remove(&first)
    }

    fn take_expired(&mut self, limits: &TableLimits) -> Vec<(K, V)> {
        let expired = self.entries.iter().filter(|(_, entry)| entry.is_expired(limits));
        let keys: Vec<K> = expired.map(|(key, _)| key.clone()).collect();
        keys.iter().filter_map(|key| self.remove(key)).collect()
    }
}

/// Removes expired entries from time to time, until the table is empty or gone.
async fn sweep<K, V, O>(shared: Weak<Shared<K, V, O>>, interval: Duration)
where
    K: Clone + Eq + Hash,
    O: Clone + Eq + Hash,
{
    loop {
        tokio::time::sleep(interval).await;
        let Some(shared) = shared.upgrade() else { return };
        let (expired, is_empty) = {
            let mut table = shared.table.lock();
            let expired = table.take_expired(&shared.limits);
            table.is_swept = !table.entries.is_empty();
            (expired, !table.is_swept)
        };
        for (key, value) in expired {
            (shared.on_removal)(key, value);
        }
        if is_empty {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
