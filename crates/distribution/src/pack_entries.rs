//! Cache of compressed pack entries, bounded in bytes. Packs are built from it without reading or compressing the objects
//! again, whichever view, depth or client they are for: an object id stands for the same bytes everywhere.
//!
//! Entries are in segments of one size, which are freed as a whole. A pass over more objects than fit does not displace
//! what the last minute used, so that the next pass still finds a part of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use foldhash::HashMap;
use parking_lot::Mutex;
use skills_git::{ObjectId, PackWriter};

/// Most bytes of segments and of their index.
const MAX_BYTES: usize = 32 << 20;
const SEGMENT: usize = 1 << 20;
/// Entries above this size are not cached.
const MAX_ENTRY: usize = SEGMENT / 2;
/// Memory of an entry in the index: key, place, and the free buckets of the map.
const OVERHEAD: usize = 64;
/// Segments that were used within this time are not displaced by new ones.
const DISPLACEABLE: Duration = Duration::from_secs(60);
/// Segments are freed when they were not used for this long.
const MAX_IDLE: Duration = Duration::from_secs(600);
/// Segments are freed at this age, so that purged content does not stay in memory because its neighbours are in use.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// Interval in which segments are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Form of an entry: a whole object, or a delta against a base.
pub(crate) type Base = Option<ObjectId>;

/// Cache of pack entries.
#[derive(Debug, Default)]
pub(crate) struct PackEntries(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    whole: HashMap<ObjectId, Place>,
    /// Deltas by object and base.
    deltas: HashMap<(ObjectId, ObjectId), Place>,
    segments: BTreeMap<u32, Segment>,
    /// True if there was no room for the last entry.
    is_full: bool,
    /// True while a task frees old segments.
    is_checked: bool,
}

/// Place of an entry.
#[derive(Debug, Clone, Copy)]
struct Place {
    segment: u32,
    start: u32,
    length: u32,
}

#[derive(Debug)]
struct Segment {
    bytes: Vec<u8>,
    created: Instant,
    used: Instant,
}

impl PackEntries {
    /// Returns whether a whole object should be added: there is room, and it is not there yet.
    pub(crate) fn wants(&self, id: &ObjectId) -> bool {
        let inner = self.0.lock();
        !inner.is_full && !inner.whole.contains_key(id)
    }

    /// Appends the entry of an object to a pack: as a delta against `base`, or else whole. Returns its form; `None` if
    /// there is no such entry.
    pub(crate) fn append(&self, id: &ObjectId, base: Base, pack: &mut PackWriter) -> Option<Base> {
        let mut inner = self.0.lock();
        let delta = base.and_then(|base| Some((inner.place(id, Some(base))?, Some(base))));
        let (place, form) = delta.or_else(|| Some((inner.place(id, None)?, None)))?;
        let segment = inner.segments.get_mut(&place.segment)?;
        segment.used = Instant::now();
        let start = place.start as usize;
        pack.entry(segment.bytes.get(start..start + place.length as usize)?);
        Some(form)
    }

    /// Adds the entry of an object, if there is room.
    pub(crate) fn insert(self: &Arc<Self>, id: ObjectId, base: Base, entry: &[u8]) {
        let mut inner = self.0.lock();
        let is_added = inner.insert(id, base, entry, Instant::now());
        if is_added && !inner.is_checked {
            inner.is_checked = true;
            drop(inner);
            tokio::spawn(free_old_segments(Arc::downgrade(self)));
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        let mut inner = self.0.lock();
        let is_checked = inner.is_checked;
        *inner = Inner { is_checked, ..Inner::default() };
    }
}

/// Frees segments that are old or not used, until there are none.
async fn free_old_segments(entries: Weak<PackEntries>) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let Some(entries) = entries.upgrade() else { return };
        let mut inner = entries.0.lock();
        inner.free_old(Instant::now());
        if inner.segments.is_empty() {
            *inner = Inner::default();
            return;
        }
    }
}

impl Inner {
    fn place(&self, id: &ObjectId, base: Base) -> Option<Place> {
        match base {
            Some(base) => self.deltas.get(&(*id, base)).copied(),
            None => self.whole.get(id).copied(),
        }
    }

    fn insert(&mut self, id: ObjectId, base: Base, entry: &[u8], now: Instant) -> bool {
        if entry.len() > MAX_ENTRY || self.place(&id, base).is_some() {
            return false;
        }
        self.is_full = true;
        let Some((segment, bytes)) = self.segment_for(entry.len(), now) else { return false };
        let place = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let place = Place { segment, start: place(bytes.len()), length: place(entry.len()) };
        bytes.extend_from_slice(entry);
        self.is_full = false;
        match base {
            Some(base) => self.deltas.insert((id, base), place),
            None => self.whole.insert(id, place),
        };
        true
    }

    /// Returns a segment with room for an entry.
    fn segment_for(&mut self, length: usize, now: Instant) -> Option<(u32, &mut Vec<u8>)> {
        let last = self.segments.last_key_value();
        let mut number = last.map_or(0, |(number, _)| *number);
        let has_room = last.is_some_and(|(_, segment)| segment.bytes.len() + length <= SEGMENT);
        if !has_room {
            while self.bytes() + SEGMENT > MAX_BYTES {
                let oldest = self.segments.iter().min_by_key(|(_, segment)| segment.used);
                let (oldest, segment) = oldest?;
                if now.saturating_duration_since(segment.used) < DISPLACEABLE {
                    return None;
                }
                let oldest = *oldest;
                self.free(|number, _| number == oldest);
            }
            number = number.wrapping_add(1);
            let bytes = Vec::with_capacity(SEGMENT);
            self.segments.insert(number, Segment { bytes, created: now, used: now });
        }
        let segment = self.segments.get_mut(&number)?;
        segment.used = now;
        Some((number, &mut segment.bytes))
    }

    /// Returns the memory of segments and index.
    fn bytes(&self) -> usize {
        self.segments.len() * SEGMENT + (self.whole.len() + 2 * self.deltas.len()) * OVERHEAD
    }

    fn free_old(&mut self, now: Instant) {
        let since = |time| now.saturating_duration_since(time);
        self.free(|_, segment| {
            since(segment.used) >= MAX_IDLE || since(segment.created) >= MAX_AGE
        });
    }

    /// Frees segments and removes their entries.
    fn free(&mut self, is_freed: impl Fn(u32, &Segment) -> bool) {
        let before = self.segments.len();
        self.segments.retain(|number, segment| !is_freed(*number, segment));
        if self.segments.len() < before {
            self.is_full = false;
            let segments = &self.segments;
            self.whole.retain(|_, place| segments.contains_key(&place.segment));
            self.deltas.retain(|_, place| segments.contains_key(&place.segment));
            self.whole.shrink_to_fit();
            self.deltas.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use skills_git::ObjectKind;

    use super::*;

    fn id(number: usize) -> ObjectId {
        ObjectId::of(ObjectKind::Blob, &number.to_le_bytes())
    }

    #[test]
    fn a_pass_over_more_than_fits_keeps_what_it_has_until_that_is_idle() {
        let (mut entries, start) = (Inner::default(), Instant::now());
        let entry = vec![7; 100_000];
        let added = |entries: &mut Inner, numbers: std::ops::Range<usize>, now| {
            numbers.filter(|number| entries.insert(id(*number), None, &entry, now)).count()
        };
        let held = added(&mut entries, 0..1000, start);
        assert!((200..340).contains(&held), "{held}");
        assert!(entries.bytes() <= MAX_BYTES);
        assert!(entries.place(&id(0), None).is_some());
        assert_eq!(added(&mut entries, 1000..1100, start + Duration::from_secs(30)), 0);
        assert_eq!(added(&mut entries, 1000..1100, start + DISPLACEABLE), 100);
        assert!(entries.bytes() <= MAX_BYTES);
        assert!(entries.place(&id(0), None).is_none() && entries.place(&id(1000), None).is_some());
    }

    #[test]
    fn segments_that_are_idle_or_old_are_freed() {
        let (mut entries, start) = (Inner::default(), Instant::now());
        assert!(entries.insert(id(1), None, b"entry", start));
        entries.free_old(start + MAX_IDLE / 2);
        assert_eq!(entries.segments.len(), 1);
        entries.free_old(start + MAX_IDLE);
        assert_eq!((entries.segments.len(), entries.whole.len()), (0, 0));
        assert!(entries.insert(id(1), None, b"entry", start));
        let now = start + MAX_AGE;
        entries.segments.values_mut().for_each(|segment| segment.used = now);
        entries.free_old(now);
        assert!(entries.place(&id(1), None).is_none());
    }

    #[tokio::test]
    async fn a_delta_is_found_for_its_base_alone() {
        let entries = Arc::new(PackEntries::default());
        let mut pack = PackWriter::new(3);
        let before = pack.pending();
        pack.delta(&id(1), b"delta").unwrap();
        entries.insert(id(2), Some(id(1)), pack.written_since(before));
        assert_eq!(entries.append(&id(2), Some(id(3)), &mut pack), None);
        assert_eq!(entries.append(&id(2), Some(id(1)), &mut pack), Some(Some(id(1))));
        let before = pack.pending();
        pack.object(ObjectKind::Blob, b"whole").unwrap();
        entries.insert(id(2), None, pack.written_since(before));
        assert_eq!(entries.append(&id(2), Some(id(3)), &mut pack), Some(None));
        entries.clear();
        assert_eq!(entries.append(&id(2), Some(id(1)), &mut pack), None);
    }
}
