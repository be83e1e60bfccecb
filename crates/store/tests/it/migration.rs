//! Opening a database that the release with schema version 1 made.

use std::{fs, path::Path};

use rusqlite::Connection;
use skills_core::{Digest, EntryKey, EntryKind, Layer, Timestamp};
use skills_store::{
    Action, Batch, EntryContent, FoundVersion, LogFilter, Mutation, PublishOptions, SqliteStore,
    Store,
};

const FIXTURE: &[u8] = include_bytes!("../fixtures/schema-1.sqlite");

fn open(dir: &Path) -> SqliteStore {
    fs::write(dir.join("skills.db"), FIXTURE).unwrap();
    SqliteStore::open(dir).unwrap()
}

fn skill(layer: Layer, id: &str) -> EntryKey {
    EntryKey { kind: EntryKind::Skill, layer, id: id.into() }
}

fn private(owner: &str) -> Layer {
    Layer::Private(owner.parse().unwrap())
}

fn numbers(store: &dyn Store, key: &EntryKey) -> Vec<u64> {
    let page = store.versions(key, None, 100).unwrap();
    page.versions.iter().map(|version| version.number).collect()
}

fn body(store: &dyn Store, key: &EntryKey, number: u64) -> String {
    let selector = number.to_string().parse().unwrap();
    let FoundVersion::Found { content: Some(content), .. } = store.version(key, &selector).unwrap()
    else {
        panic!("{key} has no version {number}")
    };
    let EntryContent::Skill(meta) = &*content else { panic!("{content:?}") };
    let root = store.blob(&meta.root().unwrap().digest).unwrap().unwrap();
    String::from_utf8(root.to_vec()).unwrap()
}

#[test]
fn the_history_comes_from_the_log_and_identical_registrations_count_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let alpha = skill(Layer::Official, "alpha");
    assert_eq!(numbers(&store, &alpha), [4, 3, 2, 1], "registered again after a removal");
    assert_eq!(body(&store, &alpha, 1), "# Alpha\n\nOne.\n");
    assert_eq!(body(&store, &alpha, 2), body(&store, &alpha, 3));
    assert_eq!(body(&store, &alpha, 4), "# Alpha\n\nThree.\n");
    let second = &store.versions(&alpha, Some(3), 1).unwrap().versions[0];
    assert_eq!((&*second.actor, second.created_at < second.registered_at), ("worker-1", true));

    let pdf = skill(Layer::Official, "pdf");
    let versions = store.versions(&pdf, None, 10).unwrap().versions;
    let authors: Vec<_> = versions.iter().map(|v| v.author_version.as_deref().unwrap()).collect();
    assert_eq!(authors, ["1.0.0", "1.1.0", "1.0.0"]);
    assert_eq!(versions[0].digest, versions[2].digest);
    assert_eq!(versions[1].files, 3);

    assert_eq!(numbers(&store, &skill(private("ann"), "pdf")), [2, 1]);
    assert_eq!(numbers(&store, &skill(private("bob"), "notes")), [1]);
    assert!(numbers(&store, &skill(private("bob"), "pdf")).is_empty());
    let gone = store.versions(&skill(Layer::Market, "gone"), None, 10).unwrap();
    assert_eq!((gone.count, gone.is_present, gone.served), (1, false, None));
    let pirate = EntryKey { kind: EntryKind::Prompt, layer: Layer::Official, id: "pirate".into() };
    assert_eq!(numbers(&store, &pirate), [2, 1]);
}

#[test]
fn entries_log_blobs_and_state_are_as_before() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("skills.db"), FIXTURE).unwrap();
    let connection = Connection::open(dir.path().join("skills.db")).unwrap();
    let sql = "SELECT e.tier || '/' || e.owner || '/' || e.id || '/' || e.revision
               FROM entry e ORDER BY e.kind, e.tier, e.owner, e.id";
    let before: Vec<String> =
        connection.prepare(sql).unwrap().query_map([], |r| r.get(0)).unwrap().flatten().collect();
    let sql = "SELECT revision, at, actor FROM change ORDER BY revision";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let log: Vec<(u64, i64, String)> =
        connection.prepare(sql).unwrap().query_map([], row).unwrap().flatten().collect();
    drop(connection);

    for round in ["migrated", "opened again"] {
        let store = SqliteStore::open(dir.path()).unwrap();
        let mut entries = store.entries().unwrap();
        let kind = |key: &EntryKey| (key.kind.as_str(), key.layer.tier().as_str().to_owned());
        entries.sort_by_key(|entry| {
            (kind(&entry.key), entry.key.layer.owner().to_owned(), entry.key.id.clone())
        });
        let after: Vec<String> = entries
            .iter()
            .map(|entry| {
                let EntryKey { layer, id, .. } = &entry.key;
                format!("{}/{}/{id}/{}", layer.tier(), layer.owner(), entry.revision)
            })
            .collect();
        assert_eq!(after, before, "{round}");
        let changes = store.changes(0, 100).unwrap();
        let records = changes.iter().map(|c| (c.revision, c.at.as_micros(), c.actor.to_string()));
        assert!(records.eq(log.iter().cloned()), "{round}");
        assert!(changes.iter().all(|change| change.affects_served));
        let removals = changes.iter().filter(|change| change.action == Action::Remove).count();
        assert_eq!(removals, 3);
        assert_eq!(store.state_get("s", "k").unwrap().as_deref(), Some("1"));
        assert_eq!(store.log(&LogFilter::default(), None, 100).unwrap().len(), log.len());
        assert!(store.blob(&Digest::of(b"# Gone\n")).unwrap().is_some());
    }
}

#[test]
fn counting_and_the_log_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let meta = skills_agent_skills::skill_meta("# Back\n").unwrap();
    let put = Mutation::Put {
        layer: Layer::Market,
        id: "gone".into(),
        blobs: vec![(meta.digest(), "# Back\n".into())],
        content: EntryContent::Skill(meta),
        options: PublishOptions::default(),
    };
    let batch = Batch::new("t", vec![put]);
    let revision = store.revision().unwrap();
    store.commit(vec![batch], Timestamp::from_micros(1)).unwrap().remove(0).unwrap();
    assert_eq!(numbers(&store, &skill(Layer::Market, "gone")), [2, 1]);
    assert_eq!(store.revision().unwrap(), revision + 1);
}

#[test]
fn the_migrated_file_gives_free_pages_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = open(dir.path()).path().to_owned();
    let connection = Connection::open(path).unwrap();
    let pragma = |name: &str| {
        let sql = format!("PRAGMA {name}");
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!((pragma("auto_vacuum"), pragma("user_version")), (2, 2));
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name IN ('change_1', 'entry_1')";
    assert_eq!(connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[test]
fn an_entry_that_was_damaged_stays_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("skills.db");
    fs::write(&path, FIXTURE).unwrap();
    let connection = Connection::open(&path).unwrap();
    for (id, content) in [("alpha", "NULL"), ("notes", "CAST(x'ff00' AS TEXT)")] {
        let sql = format!(
            "UPDATE change SET content = {content}
             WHERE revision = (SELECT revision FROM entry WHERE id = '{id}')"
        );
        assert_eq!(connection.execute(&sql, []).unwrap(), 1);
    }
    drop(connection);
    let store = SqliteStore::open(dir.path()).unwrap();
    let mut corrupt: Vec<String> = store
        .entries()
        .unwrap()
        .iter()
        .filter(|entry| matches!(*entry.content, EntryContent::Corrupt { .. }))
        .map(|entry| entry.key.id.to_string())
        .collect();
    corrupt.sort();
    assert_eq!(corrupt, ["alpha", "notes"]);
}
