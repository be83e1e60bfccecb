//! Bounded queue of state events, without bodies, and of records to recheck. On overflow both are dropped and all
//! records are compared instead.
//!
//! Events of a record that is being written, or that waits for a recheck, are parked: they may be older than the index.

use std::collections::{HashMap, HashSet, VecDeque};

use serde::Deserialize;
use serde_json::value::RawValue;
use skills_core::{EntryKey, EntryKind};

use crate::state_store::{StateScopes, entry_key, record::Record};

/// Bytes of events that may be queued.
const MAX_BYTES: usize = 16 << 20;
/// Bytes that an event counts beside its records.
const OVERHEAD: usize = 512;
/// Records that may be queued for a recheck.
pub(super) const MAX_RECHECKS: usize = 20_000;

/// Payload of the `state` trigger: a value has changed.
#[derive(Debug, Clone, Deserialize)]
pub struct StateTriggerEvent {
    /// Scope of the value.
    pub scope: String,
    /// Key of the value.
    pub key: String,
    /// Value before the change.
    pub old_value: Option<Box<RawValue>>,
    /// Value after the change.
    pub new_value: Option<Box<RawValue>>,
}

impl StateTriggerEvent {
    /// Decodes the record after the change; `None` if the scope is not one of the registry's.
    pub(super) fn decode_new(
        &self,
        scopes: &StateScopes,
        decode: impl FnOnce(&EntryKey, &str) -> Result<Record, String>,
    ) -> Option<(EntryKey, Option<Record>)> {
        let key = entry_key(scopes.kind(&self.scope)?, &self.key);
        let new = self.new_value.as_deref().map(|value| decode(&key, value.get())).transpose();
        let new = new.unwrap_or_else(|reason| {
            tracing::warn!(scope = self.scope, key = self.key, reason, "invalid record ignored");
            // An entry that becomes undecodable counts as removed.
            None
        });
        Some((key, new))
    }

    fn decode(&self, kind: EntryKind, value: Option<&RawValue>) -> Result<Option<Record>, String> {
        value.map(|value| Record::decode(kind, Some(&self.key), value.get())).transpose()
    }
}

/// Decoded state event, without bodies.
#[derive(Debug)]
pub(crate) struct StateEvent {
    pub(crate) key: EntryKey,
    /// Record before the change; the outer `None` means that it could not be decoded.
    pub(crate) old: Option<Option<Record>>,
    pub(crate) new: Option<Record>,
}

impl StateEvent {
    /// Decodes the rest of an event.
    pub(super) fn new(event: &StateTriggerEvent, key: EntryKey, new: Option<Record>) -> Self {
        let old = event.decode(key.kind, event.old_value.as_deref()).ok();
        Self { key, old, new }
    }

    fn bytes(&self) -> usize {
        let records = self.old.iter().flatten().chain(&self.new);
        OVERHEAD + records.map(|record| record.content.weight()).sum::<usize>()
    }
}

/// Next task of the follower.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Task {
    ApplyEvents,
    Recheck(EntryKey),
    Compare,
    /// Tasks are queued, but the state must not be called yet, or their records are being written.
    Wait,
    Idle,
}

#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    events: VecDeque<StateEvent>,
    parked: HashMap<EntryKey, VecDeque<StateEvent>>,
    /// Size of all events.
    bytes: usize,
    rechecks: VecDeque<EntryKey>,
    /// The keys of `rechecks`.
    recheck_set: HashSet<EntryKey>,
    /// A comparison is due. Events until it begins are part of it and are dropped.
    overflowed: bool,
    /// Whether a task is running that empties the queue.
    pub(super) is_running: bool,
}

impl EventQueue {
    pub(super) fn push(&mut self, event: StateEvent) {
        if self.overflowed {
            return;
        }
        self.bytes += event.bytes();
        self.events.push_back(event);
        self.check_size();
    }

    /// Adds an event that has to wait for a write or a recheck of its record.
    pub(crate) fn park(&mut self, event: StateEvent) {
        if self.overflowed {
            return;
        }
        self.bytes += event.bytes();
        self.parked.entry(event.key.clone()).or_default().push_back(event);
        self.check_size();
    }

    fn check_size(&mut self) {
        if self.bytes > MAX_BYTES {
            self.enqueue_comparison();
        }
    }

    /// Queues a record for a recheck, unless it is queued already.
    pub(crate) fn enqueue_recheck(&mut self, key: EntryKey) {
        if !self.overflowed && self.recheck_set.insert(key.clone()) {
            self.rechecks.push_back(key);
            if self.rechecks.len() > MAX_RECHECKS {
                self.enqueue_comparison();
            }
        }
    }

    /// Queues a comparison of all records, which supersedes everything else.
    pub(super) fn enqueue_comparison(&mut self) {
        *self = Self { overflowed: true, is_running: self.is_running, ..Self::default() };
    }

    /// Returns whether an event would be the only one.
    pub(super) fn has_no_events(&self) -> bool {
        self.events.is_empty() && self.parked.is_empty() && !self.overflowed
    }

    /// Takes the next event. An event of a record with parked events is parked behind those.
    pub(crate) fn pop_event(&mut self) -> Option<StateEvent> {
        loop {
            let event = self.events.pop_front()?;
            let Some(parked) = self.parked.get_mut(&event.key) else {
                self.bytes -= event.bytes();
                return Some(event);
            };
            parked.push_back(event);
        }
    }

    /// Removes and returns all events of a record.
    pub(super) fn take_events_of(&mut self, key: &EntryKey) -> Vec<StateEvent> {
        let mut taken = Vec::from(self.parked.remove(key).unwrap_or_default());
        let events = std::mem::take(&mut self.events);
        let (of_key, others): (VecDeque<_>, VecDeque<_>) =
            events.into_iter().partition(|event| event.key == *key);
        taken.extend(of_key);
        self.events = others;
        self.bytes -= taken.iter().map(StateEvent::bytes).sum::<usize>();
        taken
    }

    /// Returns parked events of records that are no longer written to the front of the queue, unless `is_known` confirms
    /// them. Those of records that wait for a recheck stay parked.
    pub(super) fn unpark(
        &mut self,
        is_writing: impl Fn(&EntryKey) -> bool,
        is_known: impl Fn(&StateEvent) -> bool,
    ) {
        let is_due = |key: &EntryKey| !self.recheck_set.contains(key) && !is_writing(key);
        let due: Vec<_> = self.parked.keys().filter(|key| is_due(key)).cloned().collect();
        for key in due {
            let mut events = self.parked.remove(&key).unwrap_or_default();
            while let Some(event) = events.front().filter(|event| is_known(event)) {
                self.bytes -= event.bytes();
                events.pop_front();
            }
            for event in events.into_iter().rev() {
                self.events.push_front(event);
            }
        }
    }

    /// Takes the next task. During the backoff after a failure no task that calls the state is returned.
    pub(super) fn next_task(
        &mut self,
        in_backoff: bool,
        is_writing: impl Fn(&EntryKey) -> bool,
    ) -> Task {
        if !self.events.is_empty() {
            return Task::ApplyEvents;
        }
        if in_backoff && (self.overflowed || !self.rechecks.is_empty()) {
            return Task::Wait;
        }
        if std::mem::take(&mut self.overflowed) {
            return Task::Compare;
        }
        let position = self.rechecks.iter().position(|key| !is_writing(key));
        if let Some(key) = position.and_then(|position| self.rechecks.remove(position)) {
            self.recheck_set.remove(&key);
            return Task::Recheck(key);
        }
        if !self.rechecks.is_empty() || !self.parked.is_empty() {
            return Task::Wait;
        }
        self.is_running = false;
        Task::Idle
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn idle(_: &EntryKey) -> bool {
        false
    }

    fn event(id: &str, body: &str) -> StateEvent {
        let event =
            json!({ "scope": "skills", "key": id, "new_value": { "id": id, "skill": body } });
        let scopes = StateScopes { skills: "skills".into(), prompts: "prompts".into() };
        let event: StateTriggerEvent = serde_json::from_value(event).unwrap();
        let decode = |key: &EntryKey, value: &str| Record::decode(key.kind, Some(&key.id), value);
        let (key, new) = event.decode_new(&scopes, decode).unwrap();
        StateEvent::new(&event, key, new)
    }

    #[test]
    fn a_queued_event_holds_no_body() {
        assert!(event("a", &"x".repeat(1_000_000)).bytes() < 2 * OVERHEAD);
    }

    #[test]
    fn a_record_is_queued_for_one_recheck_at_a_time() {
        let mut queue = EventQueue::default();
        for id in ["a", "b", "a", "a"] {
            queue.enqueue_recheck(entry_key(EntryKind::Skill, id));
        }
        assert_eq!(queue.next_task(true, idle), Task::Wait);
        assert_eq!(queue.next_task(false, idle), Task::Recheck(entry_key(EntryKind::Skill, "a")));
        queue.enqueue_recheck(entry_key(EntryKind::Skill, "a"));
        assert_eq!(queue.next_task(false, idle), Task::Recheck(entry_key(EntryKind::Skill, "b")));
        assert_eq!(queue.next_task(false, idle), Task::Recheck(entry_key(EntryKind::Skill, "a")));
        assert_eq!(queue.next_task(false, idle), Task::Idle);
    }

    #[test]
    fn the_events_of_a_record_are_taken_together() {
        let mut queue = EventQueue::default();
        for id in ["a", "b", "a", "c"] {
            queue.push(event(id, "x"));
        }
        assert_eq!(queue.take_events_of(&entry_key(EntryKind::Skill, "a")).len(), 2);
        let left = [queue.pop_event().unwrap(), queue.pop_event().unwrap()];
        assert_eq!(left.map(|event| event.key.id.to_string()), ["b", "c"]);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn events_of_a_record_wait_for_its_write_in_order() {
        let mut queue = EventQueue::default();
        for (id, body) in [("a", "1"), ("b", "1"), ("a", "2")] {
            queue.push(event(id, body));
        }
        let first = queue.pop_event().unwrap();
        queue.park(first);
        assert_eq!(&*queue.pop_event().unwrap().key.id, "b");
        assert!(queue.pop_event().is_none(), "the second event of a waits behind the first");
        queue.enqueue_recheck(entry_key(EntryKind::Skill, "a"));
        assert_eq!(queue.next_task(false, |_| true), Task::Wait);
        queue.unpark(idle, |_| false);
        assert_eq!(queue.next_task(true, idle), Task::Wait, "they wait for the recheck");
        assert_eq!(queue.next_task(false, idle), Task::Recheck(entry_key(EntryKind::Skill, "a")));
        queue.unpark(|_| true, |_| false);
        assert_eq!(queue.next_task(false, idle), Task::Wait, "and for the write");
        queue.unpark(idle, |known| known.new == event("a", "1").new);
        assert_eq!(queue.next_task(false, idle), Task::ApplyEvents);
        assert_eq!(queue.pop_event().unwrap().new, event("a", "2").new);
        assert_eq!((queue.next_task(false, idle), queue.bytes), (Task::Idle, 0));
    }

    #[test]
    fn too_many_events_or_rechecks_become_one_comparison() {
        let mut queue = EventQueue::default();
        for number in 0..MAX_BYTES / OVERHEAD + 5 {
            queue.push(event(&format!("s{number}"), "x"));
        }
        assert_eq!(queue.next_task(true, idle), Task::Wait);
        assert_eq!(queue.next_task(false, idle), Task::Compare);
        assert_eq!(queue.next_task(false, idle), Task::Idle);
        for number in 0..MAX_RECHECKS + 5 {
            queue.enqueue_recheck(entry_key(EntryKind::Skill, &format!("s{number}")));
        }
        assert_eq!(queue.next_task(false, idle), Task::Compare);
        queue.push(event("a", "x"));
        assert_eq!(
            queue.next_task(true, idle),
            Task::ApplyEvents,
            "events after its start count again"
        );
    }
}
