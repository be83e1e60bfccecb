use proptest::prelude::*;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const LIMITS: TableLimits = TableLimits { per_owner: 3, total: 5, idle: HOUR, lifetime: HOUR };

fn table() -> OwnedTable<u32, &'static str, &'static str> {
    OwnedTable::new(LIMITS)
}

fn keys_of(table: &OwnedTable<u32, u32, u8>, owner: u8) -> Vec<u32> {
    let entries = table.list(|it, key| (*it, *key));
    entries.into_iter().filter(|(it, _)| *it == owner).map(|(_, key)| key).collect()
}

#[test]
fn a_full_share_evicts_the_oldest_entry_of_the_same_owner() {
    let table = table();
    table.insert("ann", 1, "a").unwrap();
    for key in 2..5 {
        table.insert("bob", key, "b").unwrap();
    }
    table.update(&2, |_, _| ()).unwrap();
    table.insert("bob", 9, "b").unwrap();
    assert!(table.peek(&3, |_, _| ()).is_none(), "the one that was not used for longest");
    assert!([1, 2, 4, 9].iter().all(|key| table.peek(key, |_, _| ()).is_some()));
}

#[test]
fn a_full_table_refuses_new_owners_and_replaces_entries_of_known_ones() {
    let table = table();
    for (owner, key) in [("ann", 1), ("ann", 2), ("bob", 3), ("bob", 4), ("cleo", 5)] {
        table.insert(owner, key, "").unwrap();
    }
    assert_eq!(table.insert("dan", 6, ""), Err(TableFull));
    table.insert("cleo", 7, "").unwrap();
    assert!(table.peek(&5, |_, _| ()).is_none() && table.peek(&7, |_, _| ()).is_some());
    assert_eq!(table.len(), 5);
}

#[test]
fn entries_of_the_lowest_rank_are_evicted_first() {
    let table = OwnedTable::with_eviction(LIMITS, |rank: &u8| *rank, |_, _| ());
    for (key, rank) in [(1, 1), (2, 0), (3, 0), (4, 1)] {
        table.insert("ann", key, rank).unwrap();
    }
    assert_eq!(table.list(|_, rank| *rank), [1, 0, 1]);
    assert!(table.peek(&2, |_, _| ()).is_none());
}

#[test]
fn the_rank_of_an_entry_follows_its_value() {
    let table = OwnedTable::with_eviction(LIMITS, |rank: &u8| *rank, |_, _| ());
    for key in 1..4 {
        table.insert("ann", key, 1).unwrap();
    }
    table.peek(&3, |_, rank| *rank = 0).unwrap();
    table.update(&1, |_, rank| *rank = 0).unwrap();
    table.insert("ann", 4, 1).unwrap();
    assert!(table.peek(&3, |_, _| ()).is_none(), "looking at it is no use");
    table.insert("ann", 5, 1).unwrap();
    assert!(table.peek(&1, |_, _| ()).is_none() && table.peek(&2, |_, _| ()).is_some());
}

#[test]
fn old_entries_of_an_owner_make_room_in_its_memory() {
    let memory = MemoryBudget::new(100);
    let table = OwnedTable::new(LIMITS);
    for key in 0..2 {
        let held = table.reserve(&"ann", &memory, 40).unwrap();
        table.insert("ann", key, held).unwrap();
    }
    assert!(table.reserve(&"bob", &memory, 40).is_err(), "entries of others stay");
    assert!(table.reserve(&"ann", &memory, 101).is_err(), "nothing is evicted in vain");
    assert_eq!(table.len(), 2);
    let held = table.reserve(&"ann", &memory, 50).unwrap();
    table.insert("ann", 2, held).unwrap();
    assert!(table.peek(&0, |_, _| ()).is_none() && table.peek(&1, |_, _| ()).is_some());
    assert_eq!(memory.reserved(), 90);
}

#[test]
fn nothing_is_evicted_for_memory_that_others_have() {
    let memory = MemoryBudget::new(400);
    let (of_ann, of_bob) = (memory.share(200), memory.share_for_all_sizes(300));
    let table = OwnedTable::new(LIMITS);
    table.insert("ann", 1, table.reserve(&"ann", &of_ann, 50).unwrap()).unwrap();
    let _of_bob = of_bob.try_reserve(300).unwrap();
    assert!(table.reserve(&"ann", &of_ann, 100).is_err());
    assert_eq!(table.len(), 1);
}

#[test]
fn an_entry_is_removed_once_and_only_if_it_matches() {
    let table = table();
    table.insert("ann", 1, "a").unwrap();
    assert_eq!(table.remove_if(&1, |owner, _| *owner == "bob"), None);
    assert_eq!(table.remove(&1), Some("a"));
    assert_eq!(table.remove(&1), None);
    assert!(table.is_empty());
}

#[tokio::test]
async fn expired_entries_are_removed_by_a_timer_without_another_request() {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let limits = TableLimits { idle: Duration::from_millis(1), ..LIMITS };
    let on_removal = move |key: u32, value: &'static str| {
        let _ = sender.send((key, value));
    };
    let table = OwnedTable::with_eviction(limits, |_| 0, on_removal);
    table.insert("ann", 1, "a").unwrap();
    assert_eq!(receiver.recv().await, Some((1, "a")));
    assert!(table.is_empty());
    table.insert("ann", 2, "b").unwrap();
    assert_eq!(receiver.recv().await, Some((2, "b")));
}

#[tokio::test]
async fn an_entry_that_has_expired_is_absent_before_the_timer_runs() {
    let limits = TableLimits { lifetime: Duration::ZERO, ..LIMITS };
    let table = OwnedTable::new(limits);
    table.insert("ann", 1, "a").unwrap();
    assert!(table.peek(&1, |_, _| ()).is_none() && table.update(&1, |_, _| ()).is_none());
    assert_eq!((table.remove(&1), table.list(|_, _| ()).len()), (None, 0));
}

proptest! {
    #[test]
    fn an_insert_removes_only_entries_of_its_owner(owners in prop::collection::vec(0u8..4, 1..60)) {
        let table = OwnedTable::new(LIMITS);
        for (key, owner) in owners.into_iter().enumerate() {
            let key = u32::try_from(key).unwrap();
            let before: Vec<_> = (0..4).map(|owner| keys_of(&table, owner)).collect();
            let inserted = table.insert(owner, key, key);
            for other in (0..4).filter(|other| *other != owner) {
                prop_assert_eq!(&before[usize::from(other)], &keys_of(&table, other));
            }
            let own = keys_of(&table, owner);
            prop_assert!(own.len() <= LIMITS.per_owner && table.len() <= LIMITS.total);
            prop_assert_eq!(own.first() == Some(&key), inserted.is_ok());
        }
    }
}
