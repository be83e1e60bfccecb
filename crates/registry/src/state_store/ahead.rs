//! What is known of a record before the event that tells of it has come: our own writes, and what a look
//! at the state has found.
//!
//! Until that event is here, others that come may be older than what is known. Taken at their word they
//! would announce a second time what has been announced, and take it back.

use std::collections::{HashMap, VecDeque};

use skills_core::{EntryKey, Timestamp};

use super::record::Record;

/// An event that has not come by then is not coming: its connection was lost, or there is no such event.
const PATIENCE_MICROS: i64 = 60_000_000;

#[derive(Debug, Default)]
pub(super) struct Ahead {
    expected: HashMap<EntryKey, VecDeque<(Timestamp, Option<Record>)>>,
    /// The same by age.
    order: VecDeque<(Timestamp, EntryKey)>,
}

impl Ahead {
    /// An event is to come that tells of this record, or that there is none.
    pub(super) fn expect(&mut self, key: EntryKey, record: Option<Record>, now: Timestamp) {
        self.forget(now);
        self.order.push_back((now, key.clone()));
        self.expected.entry(key).or_default().push_back((now, record));
    }

    /// An event has come that tells of this record. Returns whether it, or one before it, was expected.
    pub(super) fn came(&mut self, key: &EntryKey, record: Option<&Record>, now: Timestamp) -> bool {
        self.forget(now);
        let Some(expected) = self.expected.get_mut(key) else { return false };
        if let Some(at) = expected.iter().position(|(_, other)| other.as_ref() == record) {
            expected.remove(at);
        }
        if expected.is_empty() {
            self.expected.remove(key);
        }
        true
    }

    fn forget(&mut self, now: Timestamp) {
        let is_old =
            |at: Timestamp| now.as_micros().saturating_sub(at.as_micros()) > PATIENCE_MICROS;
        while self.order.front().is_some_and(|(at, _)| is_old(*at)) {
            let Some((_, key)) = self.order.pop_front() else { return };
            if let Some(expected) = self.expected.get_mut(&key) {
                expected.retain(|(at, _)| !is_old(*at));
                if expected.is_empty() {
                    self.expected.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use skills_core::{Kind, Layer};

    use super::*;

    impl Ahead {
        fn is_ahead(&mut self, key: &EntryKey, now: Timestamp) -> bool {
            self.forget(now);
            self.expected.contains_key(key)
        }
    }

    fn key(id: &str) -> EntryKey {
        EntryKey { kind: Kind::Skill, layer: Layer::Official, id: id.into() }
    }

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn record(id: &str, body: &str) -> Record {
        let value = serde_json::json!({ "id": id, "skill": body }).to_string();
        Record::decode(Kind::Skill, Some(id), &value).unwrap()
    }

    #[test]
    fn an_expected_event_comes_once() {
        let mut ahead = Ahead::default();
        ahead.expect(key("a"), Some(record("a", "1")), at(0));
        ahead.expect(key("a"), None, at(0));
        assert!(!ahead.is_ahead(&key("b"), at(0)));
        assert!(ahead.came(&key("a"), Some(&record("a", "0")), at(1)), "an older one");
        assert!(ahead.came(&key("a"), Some(&record("a", "1")), at(1)));
        assert!(ahead.is_ahead(&key("a"), at(1)));
        assert!(ahead.came(&key("a"), None, at(1)));
        assert!(!ahead.is_ahead(&key("a"), at(1)));
        assert!(!ahead.came(&key("a"), None, at(1)));
    }

    #[test]
    fn an_event_that_never_comes_is_given_up() {
        let mut ahead = Ahead::default();
        ahead.expect(key("a"), None, at(0));
        ahead.expect(key("a"), None, at(30));
        assert!(ahead.is_ahead(&key("a"), at(61)));
        assert!(!ahead.is_ahead(&key("a"), at(91)));
        assert!(ahead.order.is_empty() && ahead.expected.is_empty());
    }
}
