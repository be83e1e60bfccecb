//! Changes that the index knows before their events arrive: own writes, and changes found by reading the state.
//!
//! Until its event arrives, other events of the record may be older than the index. Applying them would announce a
//! change twice and revert it.

use std::collections::{HashMap, VecDeque};

use skills_core::{EntryKey, Timestamp};

use super::record::Record;

/// Time after which an event no longer counts as pending: its connection was lost, or it was never sent.
const EXPIRY_MICROS: i64 = 60_000_000;

/// Set of pending events, bounded by age.
#[derive(Debug, Default)]
pub(super) struct PendingEvents {
    by_key: HashMap<EntryKey, VecDeque<(Timestamp, Option<Record>)>>,
    /// Keys of `by_key` by age.
    by_age: VecDeque<(Timestamp, EntryKey)>,
}

impl PendingEvents {
    /// Adds the event of a written record, or of a removal (`None`).
    pub(super) fn expect(&mut self, key: EntryKey, record: Option<Record>, now: Timestamp) {
        self.remove_expired(now);
        self.by_age.push_back((now, key.clone()));
        self.by_key.entry(key).or_default().push_back((now, record));
    }

    /// Returns whether an event with this record is pending, and a later one of its key, too. It is then about an older
    /// version than the index has. Removals are not told apart, and an event may have been lost, so theirs never count.
    pub(super) fn is_superseded(&self, key: &EntryKey, record: Option<&Record>) -> bool {
        let Some(pending) = self.by_key.get(key).filter(|_| record.is_some()) else { return false };
        let position = pending.iter().position(|(_, other)| other.as_ref() == record);
        position.is_some_and(|position| position + 1 < pending.len())
    }

    /// Confirms that an event with this record has arrived. Returns whether any event of the key was pending.
    pub(super) fn confirm(
        &mut self,
        key: &EntryKey,
        record: Option<&Record>,
        now: Timestamp,
    ) -> bool {
        self.remove_expired(now);
        let Some(pending) = self.by_key.get_mut(key) else { return false };
        if let Some(at) = pending.iter().position(|(_, other)| other.as_ref() == record) {
            pending.remove(at);
        }
        if pending.is_empty() {
            self.by_key.remove(key);
        }
        true
    }

    fn remove_expired(&mut self, now: Timestamp) {
        let is_expired =
            |at: Timestamp| now.as_micros().saturating_sub(at.as_micros()) > EXPIRY_MICROS;
        while self.by_age.front().is_some_and(|(at, _)| is_expired(*at)) {
            let Some((_, key)) = self.by_age.pop_front() else { return };
            if let Some(pending) = self.by_key.get_mut(&key) {
                pending.retain(|(at, _)| !is_expired(*at));
                if pending.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use skills_core::{EntryKind, Layer};

    use super::*;

    impl PendingEvents {
        fn is_pending(&mut self, key: &EntryKey, now: Timestamp) -> bool {
            self.remove_expired(now);
            self.by_key.contains_key(key)
        }
    }

    fn key(id: &str) -> EntryKey {
        EntryKey { kind: EntryKind::Skill, layer: Layer::Official, id: id.into() }
    }

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn record(id: &str, body: &str) -> Record {
        let value = serde_json::json!({ "id": id, "skill": body }).to_string();
        Record::decode(EntryKind::Skill, Some(id), &value).unwrap()
    }

    #[test]
    fn a_pending_event_is_confirmed_once() {
        let mut events = PendingEvents::default();
        events.expect(key("a"), Some(record("a", "1")), at(0));
        events.expect(key("a"), None, at(0));
        assert!(!events.is_pending(&key("b"), at(0)));
        assert!(events.confirm(&key("a"), Some(&record("a", "0")), at(1)), "an older one");
        assert!(events.is_superseded(&key("a"), Some(&record("a", "1"))));
        assert!(!events.is_superseded(&key("a"), Some(&record("a", "0"))), "it is not pending");
        assert!(events.confirm(&key("a"), Some(&record("a", "1")), at(1)));
        assert!(events.is_pending(&key("a"), at(1)));
        events.expect(key("a"), Some(record("a", "2")), at(1));
        assert!(!events.is_superseded(&key("a"), None), "another removal looks the same");
        assert!(!events.is_superseded(&key("a"), Some(&record("a", "2"))), "it is the last");
        assert!(events.confirm(&key("a"), None, at(1)));
        assert!(events.confirm(&key("a"), Some(&record("a", "2")), at(1)));
        assert!(!events.is_pending(&key("a"), at(1)));
        assert!(!events.confirm(&key("a"), None, at(1)));
    }

    #[test]
    fn a_pending_event_expires() {
        let mut events = PendingEvents::default();
        events.expect(key("a"), None, at(0));
        events.expect(key("a"), None, at(30));
        assert!(events.is_pending(&key("a"), at(61)));
        assert!(!events.is_pending(&key("a"), at(91)));
        assert!(events.by_age.is_empty() && events.by_key.is_empty());
    }
}
