//! Applies events of the `state` trigger to the index. Runs on the writer thread and makes no call.

use parking_lot::Mutex;
use skills_core::{EntryKey, EntryKind, Timestamp};
use skills_store::Change;

use super::{
    FetchedRecord, StaleRead, StateStore,
    record::{Record, SkillIdentity},
};
use crate::external_changes::{EventQueue, StateEvent};

/// Events that are applied at once: writes wait that long.
const MAX_EVENTS_AT_ONCE: usize = 256;

/// Result of applying an event to the index.
enum EventOutcome {
    AlreadyKnown,
    Applied(Change),
    /// The event does not continue the index; the state has to be read.
    NeedsRecheck,
}

impl StateStore {
    /// Applies queued events. Those of records that are being written, or that need a recheck, are parked.
    pub(crate) fn apply_events(&self, queue: &Mutex<EventQueue>, now: Timestamp) -> Vec<Change> {
        let mut found = Vec::new();
        for _ in 0..MAX_EVENTS_AT_ONCE {
            let Some(event) = queue.lock().pop_event() else { break };
            if self.index().is_writing(&event.key) {
                queue.lock().park(event);
                continue;
            }
            match self.apply_event(&event, now) {
                EventOutcome::AlreadyKnown => {}
                EventOutcome::Applied(change) => {
                    // Events may overtake each other; a recheck settles what their order leaves open.
                    queue.lock().enqueue_recheck(event.key);
                    found.push(change);
                }
                EventOutcome::NeedsRecheck => {
                    let mut queue = queue.lock();
                    queue.enqueue_recheck(event.key.clone());
                    queue.park(event);
                }
            }
        }
        found
    }

    /// Confirms an event that reports nothing new, such as that of an own write. Returns false if the event has to be
    /// applied.
    pub(crate) fn confirm_known(
        &self,
        key: &EntryKey,
        new: Option<&Record>,
        now: Timestamp,
    ) -> bool {
        let mut index = self.index();
        let is_known = !index.is_writing(key)
            && (index.get(key) == new || index.pending_events.is_superseded(key, new));
        if is_known {
            index.pending_events.confirm(key, new, now);
        }
        is_known
    }

    /// Decodes the record of an event. That of a known skill is not decoded again: most events report own writes.
    pub(crate) fn decode_event(&self, key: &EntryKey, value: &str) -> Result<Record, String> {
        if key.kind == EntryKind::Skill
            && let Some(identity) = SkillIdentity::read(value)
            && let Some(record) = self.index().known_skill(key, &identity)
        {
            return Ok(record.clone());
        }
        Record::decode(key.kind, Some(&key.id), value)
    }

    /// Confirms the event of a write that has no answer yet. Valid only if no earlier event of its record is queued.
    pub(crate) fn confirm_open_write(&self, key: &EntryKey, new: Option<&Record>) -> bool {
        self.index().report_write(key, new)
    }

    /// Applies an event if it continues the index. Otherwise it is only a reason to read the record: events overtake
    /// each other, and own writes are indexed before their events arrive.
    fn apply_event(&self, event: &StateEvent, now: Timestamp) -> EventOutcome {
        let StateEvent { key, old, new } = event;
        if self.confirm_known(key, new.as_ref(), now) {
            return EventOutcome::AlreadyKnown;
        }
        let mut index = self.index();
        let was_pending = index.pending_events.confirm(key, new.as_ref(), now);
        if was_pending || !old.as_ref().is_some_and(|old| index.get(key) == old.as_ref()) {
            return EventOutcome::NeedsRecheck;
        }
        index
            .apply_external(key.clone(), new.clone(), now)
            .map_or(EventOutcome::AlreadyKnown, EventOutcome::Applied)
    }

    /// Applies a record that was read after some events of it had arrived.
    pub(crate) fn apply_recheck(
        &self,
        fetched: FetchedRecord,
        arrived: &[StateEvent],
        now: Timestamp,
    ) -> Result<Option<Change>, StaleRead> {
        let FetchedRecord { key, record, read_at } = fetched;
        let mut index = self.index();
        for event in arrived {
            index.pending_events.confirm(&key, event.new.as_ref(), now);
        }
        if index.is_stale(&key, read_at) {
            return Err(StaleRead);
        }
        // If one of these events reports the fetched record, no further event does.
        let has_arrived = arrived.iter().any(|event| event.new == record);
        Ok(if has_arrived {
            index.apply_external(key, record, now)
        } else {
            index.apply_fetched(key, record, now)
        })
    }
}
