//! Contract of all stores, run against each of them.

use std::sync::Arc;

use bytes::Bytes;
use skills_core::{Digest, EntryKey, EntryKind, Layer, PromptDefinition, Timestamp};
use skills_store::{
    Batch, BatchError, Change, Effect, EntryContent, Fingerprint, LogFingerprint, MemoryStore,
    Mutation, NewValue, PublishOptions, Refusal, SqliteStore, Store,
};

use crate::postgres::TestDatabase;

pub(crate) fn on_each_store(test: impl Fn(&dyn Store)) {
    test(&MemoryStore::new());
    let dir = tempfile::tempdir().unwrap();
    test(&SqliteStore::open(dir.path()).unwrap());
    if let Some(database) = TestDatabase::new() {
        test(&database.open());
    }
}

pub(crate) fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

pub(crate) fn batch(mutations: Vec<Mutation>) -> Batch {
    Batch::new("tester", mutations)
}

pub(crate) fn put(id: &str, body: &str) -> Mutation {
    let meta = skills_agent_skills::skill_meta(body).unwrap();
    let blobs = vec![(meta.digest(), Bytes::from(body.to_owned()))];
    Mutation::Put {
        layer: Layer::Official,
        id: id.into(),
        content: EntryContent::Skill(meta),
        blobs,
        options: PublishOptions::default(),
    }
}

pub(crate) fn put_prompt(id: &str) -> Mutation {
    let content = EntryContent::Prompt(PromptDefinition {
        description: "d".into(),
        arguments: vec![],
        function_id: "a::b".into(),
    });
    let options = PublishOptions::default();
    Mutation::Put { layer: Layer::Official, id: id.into(), content, blobs: vec![], options }
}

pub(crate) fn key(kind: EntryKind, id: &str) -> EntryKey {
    EntryKey { kind, layer: Layer::Official, id: id.into() }
}

fn set(scope: &str, key: &str, value: &str) -> Mutation {
    let value = NewValue::Given(value.into());
    Mutation::StateSet { scope: scope.into(), key: key.into(), value }
}

/// Builds a compare-and-swap of a state value.
fn swap(scope: &str, key: &str, expected: Option<&str>, value: &str) -> Mutation {
    let (expected, value) = (expected.map(str::to_owned), value.to_owned());
    let value = NewValue::Computed(Arc::new(move |present| {
        if present == expected.as_deref() { Ok(value.clone()) } else { Err(Refusal::Conflict) }
    }));
    Mutation::StateSet { scope: scope.into(), key: key.into(), value }
}

pub(crate) fn commit(store: &dyn Store, mutation: Mutation, now: i64) -> Effect {
    let mut outcome = store.commit(vec![batch(vec![mutation])], at(now)).unwrap();
    outcome.remove(0).unwrap().remove(0)
}

pub(crate) fn changed(effect: Effect) -> Change {
    match effect {
        Effect::Changed(change) => change,
        other => panic!("not a change: {other:?}"),
    }
}

#[test]
fn an_entry_comes_back_with_its_body() {
    on_each_store(|store| {
        let change = changed(commit(store, put("a", "# A\n\nText"), 5));
        assert_eq!((change.revision, change.at, change.affects_served), (1, at(5), true));
        let entries = store.entries().unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].key, key(EntryKind::Skill, "a"));
        assert_eq!(Some(&entries[0].content), change.content());
        assert_eq!(entries[0].registered_at, at(5));
        let digest = Digest::of(b"# A\n\nText");
        assert_eq!(store.blob(&digest).unwrap().unwrap(), "# A\n\nText");
        assert_eq!(store.blob(&Digest::of(b"other")).unwrap(), None);
        commit(store, put("b", "# B"), 6);
        let digests = [Digest::of(b"# B"), Digest::of(b"other"), digest, digest];
        let read = store.blobs(&digests).unwrap();
        let expected = [Some("# B"), None, Some("# A\n\nText"), Some("# A\n\nText")];
        assert_eq!(read, expected.map(|text| text.map(Bytes::from)));
        assert_eq!(store.blobs(&[]).unwrap(), []);
    });
}

#[test]
fn a_skill_and_a_prompt_may_share_a_name() {
    on_each_store(|store| {
        commit(store, put("a", "x"), 1);
        commit(store, put_prompt("a"), 2);
        assert_eq!(store.entries().unwrap().len(), 2);
    });
}

#[test]
fn timestamps_increase_even_if_the_clock_does_not() {
    on_each_store(|store| {
        let moments = [100, 100, 50, 200]
            .map(|now| changed(commit(store, put("a", "x"), now)).at.as_micros());
        assert_eq!(moments, [100, 101, 102, 200]);
    });
}

#[test]
fn the_change_log_contains_every_change() {
    on_each_store(|store| {
        commit(store, put("a", "one"), 1);
        commit(store, put("a", "two"), 2);
        commit(store, Mutation::Remove(key(EntryKind::Skill, "a")), 3);
        assert_eq!(commit(store, Mutation::Remove(key(EntryKind::Skill, "a")), 4), Effect::Nothing);
        let log = store.changes(0, 10).unwrap();
        let story = log
            .iter()
            .map(|c| (c.revision, c.action.as_str(), c.content().map(|c| c.digest())))
            .collect::<Vec<_>>();
        let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
        assert_eq!(story, [(1, "put", Some(one)), (2, "put", Some(two)), (3, "remove", None)]);
        assert!(log.iter().all(|change| change.affects_served));
        assert!(log.iter().all(|change| &*change.actor == "tester"));
        assert_eq!(store.changes(1, 1).unwrap(), log[1..2]);
        assert!(store.entries().unwrap().is_empty());
        assert!(store.blob(&one).unwrap().is_some(), "an old version stays readable");
    });
}

#[test]
fn a_failed_batch_changes_nothing_and_affects_no_other() {
    on_each_store(|store| {
        let group = vec![
            batch(vec![put("a", "one")]),
            batch(vec![put("b", "two"), swap("s", "k", Some("1"), "2"), put("c", "three")]),
            batch(vec![put("d", "four")]),
        ];
        let outcome = store.commit(group, at(1)).unwrap();
        assert!(matches!(outcome[1], Err(BatchError::Conflict { current: None, .. })));
        let revision = |at: usize| match &outcome[at] {
            Ok(effects) => changed(effects[0].clone()).revision,
            Err(error) => panic!("{error}"),
        };
        assert_eq!((revision(0), revision(2)), (1, 2));
        let mut ids = store.entries().unwrap().into_iter().map(|e| e.key.id).collect::<Vec<_>>();
        ids.sort();
        assert_eq!(ids, ["a", "d"].map(Arc::from));
        assert_eq!(store.state_get("s", "k").unwrap(), None);
    });
}

#[test]
fn state_is_a_map_with_compare_and_swap() {
    on_each_store(|store| {
        commit(store, set("s", "b", "1"), 1);
        commit(store, set("s", "a", "2"), 1);
        let effect = commit(store, set("s", "b", "3"), 1);
        let Effect::State(change) = effect else { panic!("{effect:?}") };
        assert_eq!((change.old.as_deref(), change.new.as_deref()), (Some("1"), Some("3")));
        assert_eq!(store.state_get("s", "b").unwrap().as_deref(), Some("3"));
        assert_eq!(store.state_size("s").unwrap(), (2, 2));
        assert_eq!(store.state_scopes().unwrap(), ["s"]);

        let swap = |expected| store.commit(vec![batch(vec![swap("s", "b", expected, "4")])], at(1));
        let conflict = swap(Some("1")).unwrap().remove(0).expect_err("stale");
        assert!(matches!(conflict, BatchError::Conflict { current: Some(now), .. } if now == "3"));
        assert!(swap(None).unwrap()[0].is_err());
        assert!(swap(Some("3")).unwrap()[0].is_ok());

        let delete = || Mutation::StateDelete { scope: "s".into(), key: "b".into() };
        let effect = commit(store, delete(), 1);
        assert!(matches!(effect, Effect::State(change) if change.old.as_deref() == Some("4")));
        let effect = commit(store, delete(), 1);
        assert!(matches!(effect, Effect::State(change) if change.old.is_none()));
        assert_eq!(store.entries().unwrap().len(), 0, "state is not in the log of entries");
    });
}

#[test]
fn state_pages_keep_the_order_of_first_insertion() {
    on_each_store(|store| {
        for key in ["c", "a", "b"] {
            commit(store, set("s", key, "\"xx\""), 1);
        }
        commit(store, set("s", "c", "\"yy\""), 1);
        let keys = |after, limit, bytes| {
            let page = store.state_page("s", after, limit, bytes).unwrap();
            let last = page.last().map(|entry| entry.position);
            (page.into_iter().map(|entry| entry.key).collect::<String>(), last)
        };
        let (all, _) = keys(0, 10, 1000);
        assert_eq!(all, "cab");
        let (first, last) = keys(0, 2, 1000);
        assert_eq!(first, "ca");
        assert_eq!(keys(last.unwrap(), 2, 1000).0, "b");
        assert_eq!(keys(0, 10, 5).0, "ca", "the page ends with the value that passes the bound");
    });
}

#[test]
fn a_part_of_the_log_has_the_fingerprint_of_its_changes() {
    on_each_store(|store| {
        let of = |revisions| store.fingerprint(revisions).unwrap();
        assert_eq!(of(0..=0), LogFingerprint { revision: 0, fingerprint: Some(Fingerprint(0)) });
        for (id, now) in [("a", 10), ("b", 20), ("a", 40)] {
            commit(store, put(id, &now.to_string()), now);
        }
        let fingerprint =
            |micros| LogFingerprint { revision: 3, fingerprint: Some(Fingerprint(micros)) };
        assert_eq!(of(3..=3), fingerprint(40));
        assert_eq!(of(1..=2), fingerprint(10 + 20));
        assert_eq!(of(0..=3), fingerprint(10 + 20 + 40));
        assert_eq!(of(2..=9), fingerprint(20 + 40), "revisions that the log lacks");
        assert_eq!(of(4..=9), fingerprint(0));
    });
}
