//! Events that have been heard of and not yet taken in, and records that are to be looked at: without
//! bodies, and not without end. When there are too many, everything is compared instead.

use std::collections::{HashSet, VecDeque};

use skills_core::EntryKey;

use super::{Scopes, key, record::Record, sync::Event};

/// How much of events may wait.
const MAX_BYTES: usize = 16 << 20;
/// What an event costs beside its records.
const OVERHEAD: usize = 512;
/// How many records may wait for a look.
pub(super) const MAX_LOOKS: usize = 20_000;

/// An event without the bodies.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) key: EntryKey,
    /// What was there; `None` when it was nothing that we can read.
    pub(super) old: Option<Option<Record>>,
    pub(super) new: Option<Record>,
}

impl Heard {
    /// What an event says, if it is of one of our scopes.
    pub(super) fn of(event: &Event, scopes: &Scopes) -> Option<Self> {
        let kind = scopes.kind(&event.scope)?;
        let decode = |value: &serde_json::Value| match value {
            serde_json::Value::Null => Ok(None),
            value => Record::decode(kind, Some(&event.key), &value.to_string()).map(Some),
        };
        let new = decode(&event.new_value).unwrap_or_else(|reason| {
            tracing::warn!(
                scope = event.scope,
                key = event.key,
                reason,
                "a record of the state is not ours; it is left alone"
            );
            // What was a skill is one no longer.
            None
        });
        Some(Self { key: key(kind, &event.key), old: decode(&event.old_value).ok(), new })
    }

    fn weight(&self) -> usize {
        let records = self.old.iter().flatten().chain(&self.new);
        OVERHEAD + records.map(|record| record.content.weight()).sum::<usize>()
    }
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Task {
    Hear,
    Look(EntryKey),
    Compare,
    /// There is something to do, but not now.
    Rest,
    Nothing,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    events: VecDeque<Heard>,
    bytes: usize,
    looks: VecDeque<EntryKey>,
    /// The same as a set.
    waits: HashSet<EntryKey>,
    /// There was too much; what comes before the comparison begins is part of it.
    is_lost: bool,
    /// Whether somebody carries out what is here.
    pub(super) is_attended: bool,
}

impl Queue {
    pub(super) fn hear(&mut self, heard: Heard) {
        if self.is_lost {
            return;
        }
        self.bytes += heard.weight();
        self.events.push_back(heard);
        if self.bytes > MAX_BYTES {
            self.compare();
        }
    }

    /// A record is to be looked at; once is enough however often it is said.
    pub(super) fn look_at(&mut self, key: EntryKey) {
        if !self.is_lost && self.waits.insert(key.clone()) {
            self.looks.push_back(key);
            if self.looks.len() > MAX_LOOKS {
                self.compare();
            }
        }
    }

    /// Everything is to be compared, which makes the rest needless.
    pub(super) fn compare(&mut self) {
        *self = Self { is_lost: true, is_attended: self.is_attended, ..Self::default() };
    }

    pub(super) fn next_event(&mut self) -> Option<Heard> {
        let heard = self.events.pop_front()?;
        self.bytes -= heard.weight();
        Some(heard)
    }

    /// Takes out all events of a record.
    pub(super) fn events_of(&mut self, key: &EntryKey) -> VecDeque<Heard> {
        let events = std::mem::take(&mut self.events);
        let (of_key, others): (VecDeque<_>, VecDeque<_>) =
            events.into_iter().partition(|heard| heard.key == *key);
        self.events = others;
        self.bytes -= of_key.iter().map(Heard::weight).sum::<usize>();
        of_key
    }

    /// What to do next. After a failure the state is not asked for a while.
    pub(super) fn next(&mut self, is_resting: bool) -> Task {
        if !self.events.is_empty() {
            return Task::Hear;
        }
        if is_resting && (self.is_lost || !self.looks.is_empty()) {
            return Task::Rest;
        }
        if std::mem::take(&mut self.is_lost) {
            return Task::Compare;
        }
        match self.looks.pop_front() {
            Some(key) => {
                self.waits.remove(&key);
                Task::Look(key)
            }
            None => {
                self.is_attended = false;
                Task::Nothing
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use skills_core::Kind;

    use super::*;

    fn event(id: &str, body: &str) -> Heard {
        let event =
            json!({ "scope": "skills", "key": id, "new_value": { "id": id, "skill": body } });
        let scopes = Scopes { skills: "skills".into(), prompts: "prompts".into() };
        Heard::of(&serde_json::from_value(event).unwrap(), &scopes).unwrap()
    }

    #[test]
    fn bodies_do_not_wait() {
        assert!(event("a", &"x".repeat(1_000_000)).weight() < 2 * OVERHEAD);
    }

    #[test]
    fn a_record_waits_for_one_look_however_often_it_is_told_of() {
        let mut queue = Queue::default();
        for id in ["a", "b", "a", "a"] {
            queue.look_at(key(Kind::Skill, id));
        }
        assert_eq!(queue.next(true), Task::Rest);
        assert_eq!(queue.next(false), Task::Look(key(Kind::Skill, "a")));
        queue.look_at(key(Kind::Skill, "a"));
        assert_eq!(queue.next(false), Task::Look(key(Kind::Skill, "b")));
        assert_eq!(queue.next(false), Task::Look(key(Kind::Skill, "a")));
        assert_eq!(queue.next(false), Task::Nothing);
    }

    #[test]
    fn the_events_of_a_record_are_taken_out_together() {
        let mut queue = Queue::default();
        for id in ["a", "b", "a", "c"] {
            queue.hear(event(id, "x"));
        }
        assert_eq!(queue.events_of(&key(Kind::Skill, "a")).len(), 2);
        let left = [queue.next_event().unwrap(), queue.next_event().unwrap()];
        assert_eq!(left.map(|heard| heard.key.id.to_string()), ["b", "c"]);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn too_many_events_or_looks_make_one_comparison() {
        let mut queue = Queue::default();
        for number in 0..MAX_BYTES / OVERHEAD + 5 {
            queue.hear(event(&format!("s{number}"), "x"));
        }
        assert_eq!(queue.next(true), Task::Rest);
        assert_eq!(queue.next(false), Task::Compare);
        assert_eq!(queue.next(false), Task::Nothing);
        for number in 0..MAX_LOOKS + 5 {
            queue.look_at(key(Kind::Skill, &format!("s{number}")));
        }
        assert_eq!(queue.next(false), Task::Compare);
        queue.hear(event("a", "x"));
        assert_eq!(queue.next(true), Task::Hear, "what comes after its beginning counts again");
    }
}
