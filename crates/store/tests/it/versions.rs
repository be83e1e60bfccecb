//! Contract of versions, labels and retention, run against each store.

use std::time::Duration;

use bytes::Bytes;
use skills_core::{
    Code, Coded as _, Digest, EntryKey, EntryKind, Layer, VersionError, VersionSelector,
};
use skills_store::{
    Action, BatchError, Change, Effect, EntryContent, FoundVersion, LogFilter, Mutation,
    PublishOptions, Removal, Retention, Store, VersionMutation,
};

use crate::contract::{at, batch, changed, commit, key, on_each_store, put, put_prompt};

fn skill() -> EntryKey {
    key(EntryKind::Skill, "a")
}

fn selector(text: &str) -> VersionSelector {
    text.parse().unwrap()
}

pub(crate) fn on_version(key: EntryKey, change: VersionMutation) -> Mutation {
    Mutation::Version { key, change }
}

fn label(name: &str, version: Option<&str>, expected: Option<u64>) -> Mutation {
    let (label, version) = (name.parse().unwrap(), version.map(selector));
    on_version(skill(), VersionMutation::SetLabel { label, version, expected })
}

fn yank(version: &str) -> Mutation {
    let change = VersionMutation::Yank { version: selector(version), reason: "broken".into() };
    on_version(skill(), change)
}

fn unyank(version: &str) -> Mutation {
    on_version(skill(), VersionMutation::Unyank { version: selector(version) })
}

fn purge(version: &str) -> Mutation {
    let change = VersionMutation::Purge { version: selector(version), reason: "secret".into() };
    on_version(skill(), change)
}

fn rollback(to: &str, options: PublishOptions) -> Mutation {
    on_version(skill(), VersionMutation::Rollback { to: selector(to), options })
}

fn put_if(body: &str, expected: u64) -> Mutation {
    let Mutation::Put { layer, id, content, blobs, .. } = put("a", body) else { panic!() };
    let options = PublishOptions { expected_version: Some(expected), message: Some("why".into()) };
    Mutation::Put { layer, id, content, blobs, options }
}

fn try_commit(store: &dyn Store, mutation: Mutation) -> Result<Effect, BatchError> {
    let mut outcome = store.commit(vec![batch(vec![mutation])], at(1)).unwrap();
    outcome.remove(0).map(|mut effects| effects.remove(0))
}

fn refused(store: &dyn Store, mutation: Mutation) -> VersionError {
    match try_commit(store, mutation) {
        Err(BatchError::Version(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

fn publish(store: &dyn Store, bodies: &[&str]) {
    for body in bodies {
        commit(store, put("a", body), 1);
    }
}

fn served(store: &dyn Store) -> Option<u64> {
    store.versions(&skill(), None, 0).unwrap().served
}

fn numbers(store: &dyn Store) -> Vec<u64> {
    let page = store.versions(&skill(), None, 100).unwrap();
    page.versions.iter().map(|version| version.number).collect()
}

/// Returns the number and the body of a version.
fn read(store: &dyn Store, version: &str) -> Option<(u64, String)> {
    match store.version(&skill(), &selector(version)).unwrap() {
        FoundVersion::Found { version, content: Some(content) } => {
            let EntryContent::Skill(meta) = &*content else { panic!("{content:?}") };
            let body = store.blob(&meta.root().unwrap().digest).unwrap().unwrap();
            Some((version.number, String::from_utf8(body.to_vec()).unwrap()))
        }
        _ => None,
    }
}

fn erased(effect: Effect) -> (Change, Vec<Digest>, u64) {
    match effect {
        Effect::Erased { change, blobs, bytes, .. } => (change, blobs, bytes),
        other => panic!("nothing was erased: {other:?}"),
    }
}

#[test]
fn versions_count_per_entry_and_identical_content_makes_none() {
    on_each_store(|store| {
        publish(store, &["one", "two", "two"]);
        commit(store, put("b", "one"), 1);
        assert_eq!(numbers(store), [2, 1]);
        let again = changed(commit(store, put("a", "two"), 50));
        assert_eq!(again.action, Action::Put { version: Some(2), is_new: false, message: None });
        assert!(again.affects_served, "subscribers are notified as before");
        let entry = store.entries().unwrap().into_iter().find(|entry| &*entry.key.id == "a");
        assert_eq!(entry.unwrap().registered_at, again.at, "the registration moves forward");
        let page = store.versions(&skill(), None, 1).unwrap();
        assert_eq!((page.count, page.versions[0].number), (2, 2));
        assert!(page.versions[0].created_at < page.versions[0].registered_at);
        publish(store, &["one"]);
        assert_eq!(numbers(store), [3, 2, 1], "content of an older version is a new one");
    });
}

#[test]
fn removing_keeps_the_versions_and_counting_goes_on() {
    on_each_store(|store| {
        publish(store, &["one", "two"]);
        commit(store, label("stable", Some("1"), None), 1);
        commit(store, Mutation::Remove(skill()), 1);
        let page = store.versions(&skill(), None, 10).unwrap();
        assert_eq!((page.count, page.served, page.is_present), (2, None, false));
        assert!(page.labels.is_empty());
        assert_eq!(read(store, "1"), Some((1, "one".into())));
        for gone in ["latest", "stable"] {
            assert_eq!(store.version(&skill(), &selector(gone)).unwrap(), FoundVersion::Missing);
        }
        let change = changed(commit(store, put("a", "two"), 1));
        assert_eq!(change.action.version(), Some(3));
        assert_eq!(served(store), Some(3));
    });
}

#[test]
fn a_version_has_its_digest_actor_message_and_author_version() {
    on_each_store(|store| {
        let body = "---\nname: a\ndescription: d\nversion: 1.4.0\n---\n";
        commit(store, put_if(body, 0), 7);
        let page = store.versions(&skill(), None, 1).unwrap();
        let version = &page.versions[0];
        let line = format!("SKILL.md\0{}\n", Digest::of(body.as_bytes()));
        assert_eq!(version.digest, Digest::of(line.as_bytes()));
        assert_eq!((&*version.actor, version.created_at), ("tester", at(7)));
        assert_eq!(version.message.as_deref(), Some("why"));
        assert_eq!(version.author_version.as_deref(), Some("1.4.0"));
        assert_eq!((version.bytes, version.files), (body.len() as u64, 1));
        commit(store, put_prompt("p"), 1);
        let page = store.versions(&key(EntryKind::Prompt, "p"), None, 1).unwrap();
        assert_eq!((page.count, page.versions[0].files), (1, 1));
    });
}

#[test]
fn every_form_of_an_address_selects_a_version() {
    on_each_store(|store| {
        let body = |version: &str| format!("---\nversion: {version}\n---\n# T\n");
        publish(store, &["one", &body("1.4.0"), &body("1.4.0-rc"), "four"]);
        commit(store, label("canary", Some("3"), None), 1);
        let digest = store.versions(&skill(), None, 10).unwrap().versions[3].digest.to_string();
        for (address, number) in [
            ("1", Some(1)),
            ("4", Some(4)),
            ("latest", Some(4)),
            ("canary", Some(3)),
            ("1.4.0", Some(2)),
            (&*format!("sha256:{}", &digest[..12]), Some(1)),
            (&*format!("sha256:{digest}"), Some(1)),
            ("5", None),
            ("stable", None),
            ("2.0", None),
            ("sha256:000000000000", None),
            ("18446744073709551615", None),
        ] {
            assert_eq!(read(store, address).map(|(number, _)| number), number, "{address}");
        }
        commit(store, label("rc", Some("1.4.0-rc"), None), 1);
        assert_eq!(read(store, "rc").unwrap().0, 3);
        let unknown = key(EntryKind::Skill, "unknown");
        assert_eq!(store.version(&unknown, &selector("1")).unwrap(), FoundVersion::Missing);
    });
}

#[test]
fn a_label_shadows_an_author_version_of_the_same_name() {
    on_each_store(|store| {
        publish(store, &["---\nversion: beta\n---\n", "two"]);
        assert_eq!(read(store, "beta").unwrap().0, 1);
        commit(store, label("beta", Some("2"), None), 1);
        assert_eq!(read(store, "beta").unwrap().0, 2);
    });
}

#[test]
fn pages_are_newest_first_and_continue() {
    on_each_store(|store| {
        let bodies: Vec<String> = (1..=7).map(|number| format!("body {number}")).collect();
        publish(store, &bodies.iter().map(String::as_str).collect::<Vec<_>>());
        let page = |before| {
            let page = store.versions(&skill(), before, 3).unwrap();
            assert_eq!(page.count, 7);
            page.versions.iter().map(|version| version.number).collect::<Vec<_>>()
        };
        assert_eq!(page(None), [7, 6, 5]);
        assert_eq!(page(Some(5)), [4, 3, 2]);
        assert_eq!(page(Some(2)), [1]);
        assert!(page(Some(1)).is_empty());
    });
}

#[test]
fn the_label_stable_decides_what_is_served() {
    on_each_store(|store| {
        publish(store, &["one", "two"]);
        let promoted = changed(commit(store, label("stable", Some("1"), None), 1));
        assert!(promoted.affects_served);
        assert_eq!(promoted.content().unwrap().digest(), Digest::of(b"one"));
        let heads = promoted.served.unwrap().heads.unwrap();
        assert_eq!((heads.served, heads.latest, heads.labels.len()), (1, 2, 1));

        let published = changed(commit(store, put("a", "three"), 1));
        assert!(!published.affects_served, "publishing under a label that stays");
        assert_eq!(published.content(), None);
        assert_eq!(published.served.unwrap().heads.unwrap().latest, 3);
        assert_eq!(store.entries().unwrap()[0].content.digest(), Digest::of(b"one"));
        assert_eq!(read(store, "latest").unwrap().0, 3);

        let moved = changed(commit(store, label("canary", Some("latest"), None), 1));
        assert!(!moved.affects_served && moved.action.version() == Some(3));
        let demoted = changed(commit(store, label("stable", None, Some(1)), 1));
        assert!(demoted.affects_served);
        assert_eq!(served(store), Some(3));
        let log: Vec<bool> =
            store.changes(0, 20).unwrap().iter().map(|c| c.affects_served).collect();
        assert_eq!(log, [true, true, true, false, false, true], "the log says so too");
    });
}

#[test]
fn moving_a_label_is_a_compare_and_set() {
    on_each_store(|store| {
        publish(store, &["one", "two"]);
        let error = refused(store, label("stable", Some("1"), Some(2)));
        assert_eq!((error.code(), error.current()), (Code::LabelMoved, Some(0)));
        assert!(try_commit(store, label("stable", Some("1"), Some(0))).is_ok());
        let error = refused(store, label("stable", Some("2"), Some(0)));
        assert_eq!((error.code(), error.current()), (Code::LabelMoved, Some(1)));
        assert!(try_commit(store, label("stable", Some("2"), Some(1))).is_ok());
        let same = try_commit(store, label("stable", Some("2"), None)).unwrap();
        assert_eq!(same, Effect::Unchanged { version: Some(2), served: Some(2) });
        assert_eq!(refused(store, label("x", None, None)).code(), Code::NotFound);
        let gone = try_commit(store, label("x", None, Some(0))).unwrap();
        assert_eq!(gone, Effect::Unchanged { version: None, served: Some(2) });
        let missing = refused(store, label("x", Some("9"), None));
        assert!(missing.to_string().contains("it has 2, 1"), "{missing}");
        let unknown = VersionMutation::SetLabel {
            label: "x".parse().unwrap(),
            version: Some(selector("1")),
            expected: None,
        };
        let unknown = refused(store, on_version(key(EntryKind::Skill, "nope"), unknown));
        assert_eq!(unknown.to_string(), "skill not found: nope");
        for number in 0..31 {
            commit(store, label(&format!("l{number}"), Some("1"), None), 1);
        }
        let one_more = try_commit(store, label("more", Some("1"), None));
        assert!(matches!(one_more, Err(BatchError::Failed { .. })), "{one_more:?}");
    });
}

#[test]
fn a_registration_may_depend_on_the_newest_version() {
    on_each_store(|store| {
        assert_eq!(refused(store, put_if("one", 1)).code(), Code::VersionConflict);
        assert!(try_commit(store, put_if("one", 0)).is_ok());
        let error = refused(store, put_if("two", 0));
        assert_eq!((error.code(), error.current()), (Code::VersionConflict, Some(1)));
        assert!(try_commit(store, put_if("two", 1)).is_ok());
        commit(store, Mutation::Remove(skill()), 1);
        assert_eq!(refused(store, put_if("three", 2)).current(), Some(0));
        assert!(try_commit(store, put_if("three", 0)).is_ok());
        assert_eq!(numbers(store), [3, 2, 1]);
    });
}

#[test]
fn a_rollback_is_a_new_version_with_old_content() {
    on_each_store(|store| {
        publish(store, &["one", "two"]);
        let change = changed(commit(store, rollback("1", PublishOptions::default()), 1));
        let message = Some("rollback to 1".to_owned());
        assert_eq!(change.action, Action::Put { version: Some(3), is_new: true, message });
        assert_eq!(read(store, "3"), Some((3, "one".into())));
        let options =
            PublishOptions { message: Some("it broke".into()), expected_version: Some(3) };
        let change = changed(commit(store, rollback("2", options), 1));
        assert_eq!(change.action.note(), Some("rollback to 2: it broke"));
        let stale = PublishOptions { expected_version: Some(3), ..PublishOptions::default() };
        assert_eq!(refused(store, rollback("1", stale)).code(), Code::VersionConflict);
        commit(store, Mutation::Remove(skill()), 1);
        commit(store, rollback("1", PublishOptions::default()), 1);
        assert_eq!((served(store), numbers(store).len()), (Some(5), 5), "a removed entry returns");
    });
}

#[test]
fn a_yanked_version_is_read_by_its_number_only() {
    on_each_store(|store| {
        publish(store, &["one", "two", "three"]);
        let change = changed(commit(store, yank("3"), 1));
        assert!(change.affects_served);
        assert_eq!(served(store), Some(2));
        assert_eq!(read(store, "latest").unwrap().0, 2);
        assert_eq!(read(store, "3"), Some((3, "three".into())));
        let version = &store.versions(&skill(), None, 1).unwrap().versions[0];
        assert_eq!(version.yanked.as_deref(), Some("broken"));
        assert!(!changed(commit(store, yank("1"), 1)).affects_served);
        let again = try_commit(store, yank("1")).unwrap();
        assert_eq!(again, Effect::Unchanged { version: Some(1), served: Some(2) });
        for refusal in [label("x", Some("3"), None), rollback("3", PublishOptions::default())] {
            assert_eq!(refused(store, refusal).code(), Code::Yanked);
        }
        commit(store, yank("2"), 1);
        assert_eq!(served(store), None);
        assert!(store.entries().unwrap().is_empty());
        assert_eq!(store.version(&skill(), &selector("latest")).unwrap(), FoundVersion::AllYanked);
        assert!(store.versions(&skill(), None, 0).unwrap().is_present);
        assert_eq!(store.withdrawn().unwrap(), [skill()]);
        let back = changed(commit(store, unyank("1"), 1));
        assert_eq!((back.affects_served, served(store)), (true, Some(1)));
        assert!(store.withdrawn().unwrap().is_empty());
        publish(store, &["three"]);
        assert_eq!(served(store), Some(1), "yanked content that is registered again stays yanked");
        assert_eq!(numbers(store), [3, 2, 1]);
    });
}

#[test]
fn a_repeated_yank_or_purge_means_the_same_version() {
    on_each_store(|store| {
        let body = |text: &str| format!("---\nversion: 1.0\n---\n{text}");
        publish(store, &[&body("one"), &body("two"), &body("three")]);
        commit(store, label("canary", Some("2"), None), 1);
        let digest = store.versions(&skill(), None, 1).unwrap().versions[0].digest.to_string();
        let digest = format!("sha256:{:.12}", digest);
        for (address, version, served) in [
            ("latest", 3, Some(2)),
            (&*digest, 3, Some(2)),
            ("1.0", 3, Some(2)),
            ("canary", 2, Some(3)),
        ] {
            let first = changed(commit(store, yank(address), 1));
            assert_eq!(first.action.version(), Some(version), "{address}");
            let again = try_commit(store, yank(address)).unwrap();
            let version = Some(version);
            assert_eq!(again, Effect::Unchanged { version, served }, "yank {address} again");
            let undone = changed(commit(store, unyank(address), 1));
            assert_eq!(undone.action.version(), version, "undo of {address}");
            let again = try_commit(store, unyank(address)).unwrap();
            assert_eq!(again, Effect::Unchanged { version, served: Some(3) }, "undo {address}");
        }
        commit(store, yank("latest"), 1);
        let (change, ..) = erased(commit(store, purge("latest"), 1));
        assert_eq!(change.action.version(), Some(3), "the version that was yanked");
        for address in ["latest", &*digest, "1.0"] {
            let again = try_commit(store, purge(address)).unwrap();
            assert_eq!(again, Effect::Unchanged { version: Some(3), served: Some(2) }, "{address}");
            assert_eq!(refused(store, unyank(address)).code(), Code::Purged, "{address}");
        }
        assert_eq!(read(store, "2").unwrap().0, 2, "the good version is untouched");
        commit(store, Mutation::Remove(skill()), 1);
        assert_eq!(refused(store, yank("latest")).code(), Code::NotFound, "a removed entry");
    });
}

#[test]
fn a_rollback_serves_its_content_even_if_the_newest_version_has_it_and_is_yanked() {
    on_each_store(|store| {
        publish(store, &["one", "two", "one"]);
        commit(store, yank("3"), 1);
        assert_eq!(served(store), Some(2));
        let again = changed(commit(store, put("a", "one"), 1));
        let action = Action::Put { version: Some(3), is_new: false, message: None };
        assert_eq!((again.action, served(store)), (action, Some(2)), "the yank holds");
        let change = changed(commit(store, rollback("1", PublishOptions::default()), 1));
        let message = Some("rollback to 1".to_owned());
        assert_eq!(change.action, Action::Put { version: Some(4), is_new: true, message });
        assert_eq!((change.affects_served, served(store)), (true, Some(4)));
        let change = changed(commit(store, rollback("1", PublishOptions::default()), 1));
        let action = Action::Put { version: Some(4), is_new: false, message: None };
        assert_eq!(change.action, action, "the newest version has the content and is served");
    });
}

#[test]
fn an_exact_address_reads_a_yanked_version_if_no_other_has_the_content() {
    on_each_store(|store| {
        let body = |text: &str| format!("---\nversion: 1.0\n---\n{text}");
        publish(store, &[&body("one"), &body("two"), "three"]);
        let digest = store.versions(&skill(), None, 3).unwrap().versions[1].digest;
        let digest = format!("sha256:{digest}");
        commit(store, yank("2"), 1);
        assert_eq!(read(store, "1.0").unwrap().0, 1, "one that is not yanked is preferred");
        assert_eq!(read(store, &digest).unwrap().0, 2);
        commit(store, yank("1"), 1);
        assert_eq!(read(store, "1.0").unwrap().0, 2, "the newest of the yanked ones");
    });
}

#[test]
fn a_collected_version_is_known_by_every_address_that_named_it() {
    on_each_store(|store| {
        publish(store, &["---\nversion: 1.0\n---\none", "two", "three"]);
        let digest = store.versions(&skill(), None, 3).unwrap().versions[2].digest;
        let digest = format!("sha256:{digest}");
        commit(store, on_version(skill(), VersionMutation::Collect { version: 1 }), 1);
        for address in ["1", "1.0", &*digest, &digest[..19]] {
            let found = store.version(&skill(), &selector(address)).unwrap();
            let FoundVersion::Found { version, content: None } = found else {
                panic!("{address}: {found:?}")
            };
            assert_eq!((version.number, version.removal), (1, Some(Removal::Collected)));
            for refusal in [yank(address), purge(address), label("x", Some(address), None)] {
                assert_eq!(refused(store, refusal).code(), Code::Collected, "{address}");
            }
        }
        publish(store, &["---\nversion: 1.0\n---\none"]);
        assert_eq!(read(store, "1.0").unwrap().0, 4, "content that is there comes first");
    });
}

#[test]
fn retention_keeps_what_labels_and_latest_serve_in_place_of_yanked_versions() {
    on_each_store(|store| {
        publish(store, &["one", "two", "three", "four", "five", "six"]);
        commit(store, label("canary", Some("3"), None), 1);
        commit(store, label("stable", Some("4"), None), 1);
        commit(store, yank("3"), 1);
        commit(store, yank("6"), 1);
        let addresses = [("canary", 2), ("stable", 4), ("latest", 5)];
        let retention = Retention { versions: Some(0), age: None };
        let expired = store.expired(&retention, at(1), None, 100).unwrap().versions;
        assert_eq!(expired, [(skill(), 1)]);
        for version in 1..=6 {
            commit(store, on_version(skill(), VersionMutation::Collect { version }), 1);
        }
        for (address, number) in addresses {
            assert_eq!(read(store, address).unwrap().0, number, "{address}");
        }
        commit(store, label("canary", None, None), 1);
        let expired = store.expired(&retention, at(1), None, 100).unwrap().versions;
        assert_eq!(expired, [(skill(), 3), (skill(), 2)]);
    });
}

#[test]
fn retention_takes_the_last_kept_version_if_a_newer_one_was_purged() {
    on_each_store(|store| {
        publish(store, &["one", "two"]);
        commit(store, yank("1"), 1);
        commit(store, purge("2"), 1);
        let retention = Retention { versions: Some(0), age: None };
        let expired = store.expired(&retention, at(1), None, 100).unwrap().versions;
        assert_eq!(expired, [(skill(), 1)]);
        assert_eq!(store.expired_size(&retention, at(1)).unwrap().versions, 1);
    });
}

#[test]
fn a_yanked_promotion_falls_back_to_an_older_version() {
    on_each_store(|store| {
        publish(store, &["one", "two", "three"]);
        commit(store, label("stable", Some("2"), None), 1);
        commit(store, yank("2"), 1);
        assert_eq!(served(store), Some(1), "version 3 was not promoted");
        assert_eq!(read(store, "stable").unwrap().0, 1);
        commit(store, yank("1"), 1);
        assert_eq!(served(store), None);
        assert_eq!(store.version(&skill(), &selector("stable")).unwrap(), FoundVersion::AllYanked);
        commit(store, unyank("2"), 1);
        assert_eq!(served(store), Some(2));
    });
}

#[test]
fn a_purge_removes_the_bytes_that_no_other_version_has() {
    on_each_store(|store| {
        publish(store, &["one", "secret", "three"]);
        commit(store, put("b", "secret"), 1);
        let effect = commit(store, purge("2"), 1);
        let Effect::Erased { holders, .. } = &effect else { panic!("{effect:?}") };
        assert_eq!(*holders, [(key(EntryKind::Skill, "b"), 1)]);
        let (change, blobs, bytes) = erased(effect);
        assert_eq!((blobs.len(), bytes, change.affects_served), (0, 0, false), "b has it too");
        assert!(store.blob(&Digest::of(b"secret")).unwrap().is_some());
        let FoundVersion::Found { version, content } =
            store.version(&skill(), &selector("2")).unwrap()
        else {
            panic!("the version is known")
        };
        assert_eq!((version.removal, content), (Some(Removal::Purged), None));
        assert_eq!(version.yanked.as_deref(), Some("secret"));

        let (change, blobs, bytes) = erased(commit(store, purge("3"), 1));
        assert_eq!((blobs, bytes), (vec![Digest::of(b"three")], 5));
        assert!(change.affects_served);
        assert_eq!(served(store), Some(1));
        assert_eq!(store.blob(&Digest::of(b"three")).unwrap(), None);
        assert_eq!(numbers(store), [3, 2, 1], "it stays in the history");
        for refusal in [unyank("3"), yank("3"), rollback("3", PublishOptions::default())] {
            assert_eq!(refused(store, refusal).code(), Code::Purged);
        }
        assert!(matches!(try_commit(store, purge("3")), Ok(Effect::Unchanged { .. })));
        publish(store, &["three"]);
        assert_eq!(
            (served(store), numbers(store)[0]),
            (Some(4), 4),
            "the same content is new again"
        );
        let other = EntryKey { id: "b".into(), ..skill() };
        let change = VersionMutation::Purge { version: selector("1"), reason: "secret".into() };
        let (_, blobs, _) = erased(commit(store, on_version(other, change), 1));
        assert_eq!(blobs, [Digest::of(b"secret")], "the last version that had it");
    });
}

#[test]
fn retention_takes_neither_labelled_nor_served_nor_newest_versions() {
    on_each_store(|store| {
        let bodies: Vec<String> = (1..=9).map(|number| format!("body {number}")).collect();
        for (number, body) in bodies.iter().enumerate() {
            commit(store, put("a", body), 1_000_000 * (number as i64 + 1));
        }
        commit(store, put("b", "body 2"), 10_000_000);
        commit(store, label("stable", Some("4"), None), 11_000_000);
        commit(store, label("old", Some("1"), None), 11_000_000);
        let keep = |versions, secs| Retention { versions, age: secs_to_age(secs) };
        let expired = |retention: &Retention| -> Vec<u64> {
            let found = store.expired(retention, at(20_000_000), None, 100).unwrap();
            found.versions.iter().map(|(_, number)| *number).collect()
        };
        assert_eq!(expired(&keep(Some(2), None)), [7, 6, 5, 3, 2]);
        assert_eq!(expired(&keep(Some(0), None)), [8, 7, 6, 5, 3, 2]);
        assert_eq!(expired(&keep(None, Some(14))), [5, 3, 2]);
        assert_eq!(expired(&keep(Some(6), Some(14))), [3, 2], "either limit keeps");
        assert!(expired(&keep(Some(9), None)).is_empty());

        let two = keep(Some(2), None);
        let page = store.expired(&two, at(20_000_000), None, 2).unwrap();
        assert_eq!((page.versions.len(), page.has_more), (2, true));
        let size = store.expired_size(&two, at(20_000_000)).unwrap();
        assert_eq!((size.versions, size.bytes), (5, 4 * 6), "b keeps one of the bodies");
        let mut freed = 0;
        for version in [7, 6, 5, 3, 2, 4, 1, 9] {
            match commit(store, on_version(skill(), VersionMutation::Collect { version }), 1) {
                Effect::Erased { change, bytes, .. } => {
                    assert!(!change.affects_served);
                    freed += bytes;
                }
                Effect::Nothing => assert!([4, 1, 9].contains(&version), "{version}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(freed, size.bytes);
        assert_eq!(numbers(store), [9, 8, 4, 1]);
        assert_eq!(store.versions(&skill(), None, 1).unwrap().count, 4);
        let FoundVersion::Found { version, .. } = store.version(&skill(), &selector("2")).unwrap()
        else {
            panic!("its number is remembered")
        };
        assert_eq!(version.removal, Some(Removal::Collected));
        assert_eq!(refused(store, yank("2")).code(), Code::Collected);
        assert!(expired(&two).is_empty());
        while store.release_space().unwrap() {}
        assert_eq!(read(store, "1"), Some((1, "body 1".into())));
    });
}

fn secs_to_age(secs: Option<u64>) -> Option<Duration> {
    secs.map(Duration::from_secs)
}

#[test]
fn the_log_is_filtered_and_newest_first() {
    on_each_store(|store| {
        commit(store, put("a", "one"), 10);
        commit(store, put_prompt("a"), 20);
        let ann = Layer::Private("ann".parse().unwrap());
        let Mutation::Put { content, blobs, options, .. } = put("a", "mine") else { panic!() };
        let mine = Mutation::Put { layer: ann.clone(), id: "a".into(), content, blobs, options };
        let mut by_ann = batch(vec![mine]);
        by_ann.actor = "key:ann".into();
        store.commit(vec![by_ann], at(30)).unwrap().remove(0).unwrap();
        commit(store, put("b", "one"), 40);
        commit(store, label("stable", Some("1"), None), 50);
        commit(store, yank("1"), 60);
        let revisions = |filter: LogFilter, before| -> Vec<u64> {
            let records = store.log(&filter, before, 3).unwrap();
            records.iter().map(|record| record.revision).collect()
        };
        let all = LogFilter::default;
        assert_eq!(revisions(all(), None), [6, 5, 4]);
        assert_eq!(revisions(all(), Some(4)), [3, 2, 1]);
        assert_eq!(revisions(LogFilter { id: Some("b".into()), ..all() }, None), [4]);
        let prompts = LogFilter { kind: Some(EntryKind::Prompt), ..all() };
        assert_eq!(revisions(prompts, None), [2]);
        assert_eq!(revisions(LogFilter { since: Some(at(50)), ..all() }, None), [6, 5]);
        assert_eq!(revisions(LogFilter { actor: Some("ann".into()), ..all() }, None), [3]);
        assert_eq!(revisions(LogFilter { layers: Some(vec![ann]), ..all() }, None), [3]);
        assert!(revisions(LogFilter { layers: Some(vec![]), ..all() }, None).is_empty());
        let record = store.log(&all(), None, 1).unwrap().remove(0);
        assert_eq!(record.action, Action::Yank { version: 1, reason: "broken".into() });
        assert_eq!((record.before, record.served), (Some(1), None));
        let labelled = store.log(&all(), Some(6), 1).unwrap().remove(0).action;
        let stable = "stable".parse().unwrap();
        assert_eq!(labelled, Action::Label { label: stable, from: None, to: Some(1) });
    });
}

#[test]
fn the_log_is_read_oldest_first_with_the_content_that_was_served() {
    on_each_store(|store| {
        commit(store, put("a", "one"), 10);
        commit(store, put("b", "one"), 20);
        commit(store, put("a", "two"), 30);
        commit(store, label("stable", Some("1"), None), 40);
        commit(store, purge("2"), 50);
        let read = |filter: LogFilter, after, limit| -> Vec<(u64, Option<u64>, bool)> {
            let records = store.log_after(&filter, after, limit).unwrap().into_iter();
            let row = |served: skills_store::ServedRecord| {
                (served.record.revision, served.record.served, served.content.is_some())
            };
            records.map(row).collect()
        };
        let all = LogFilter::default;
        assert_eq!(read(all(), 0, 2), [(1, Some(1), true), (2, Some(1), true)]);
        // The content of the purged version is gone from the past too.
        let rest = [(3, Some(2), false), (4, Some(1), true), (5, Some(1), true)];
        assert_eq!(read(all(), 2, 10), rest);
        let only = LogFilter { id: Some("b".into()), ..all() };
        assert_eq!(read(only, 0, 10), [(2, Some(1), true)]);
        assert!(read(all(), u64::MAX, 10).is_empty());
        assert!(read(LogFilter { layers: Some(vec![]), ..all() }, 0, 10).is_empty());
    });
}

#[test]
fn a_batch_with_a_refused_change_leaves_versions_as_they_were() {
    on_each_store(|store| {
        publish(store, &["one", "two"]);
        let group = vec![
            batch(vec![put("a", "three"), label("stable", Some("3"), None), purge("9")]),
            batch(vec![label("stable", Some("1"), None), yank("2")]),
        ];
        let outcome = store.commit(group, at(1)).unwrap();
        assert!(outcome[0].is_err() && outcome[1].is_ok());
        assert_eq!((numbers(store), served(store)), (vec![2, 1], Some(1)));
        assert_eq!(store.blob(&Digest::of(b"three")).unwrap(), None);
    });
}

#[test]
fn a_bundle_that_shares_files_keeps_them() {
    on_each_store(|store| {
        let bundle = |root: &str, files: &[&str]| {
            let mut meta = skills_agent_skills::skill_meta(root).unwrap();
            let mut blobs = vec![(Digest::of(root.as_bytes()), Bytes::from(root.to_owned()))];
            for body in files {
                let digest = Digest::of(body.as_bytes());
                meta.files.push(skills_core::FileMeta {
                    path: format!("{body}.md"),
                    digest,
                    size: body.len() as u64,
                    executable: None,
                });
                blobs.push((digest, Bytes::from((*body).to_owned())));
            }
            let content = EntryContent::Skill(meta);
            let options = PublishOptions::default();
            Mutation::Put { layer: Layer::Official, id: "a".into(), content, blobs, options }
        };
        commit(store, bundle("root", &["x", "y"]), 1);
        commit(store, bundle("root", &["x", "z"]), 1);
        let (_, blobs, _) = erased(commit(store, purge("1"), 1));
        assert_eq!(blobs, [Digest::of(b"y")]);
        for body in ["root", "x", "z"] {
            assert!(store.blob(&Digest::of(body.as_bytes())).unwrap().is_some(), "{body}");
        }
    });
}
