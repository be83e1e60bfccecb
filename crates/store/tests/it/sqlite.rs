//! Failures that only a store on disk can have.

use std::{fs, path::Path};

use bytes::Bytes;
use rusqlite::Connection;
use skills_core::{
    Coded as _, Digest, EntryKey, EntryKind, Layer, Provenance, SourceKind, Timestamp,
    VersionSelector,
};
use skills_store::{
    Batch, DatabaseError, EntryContent, Mutation, PublishOptions, Retention, SqliteStore, Store,
    StoreError, VersionMutation,
};

fn put(store: &SqliteStore, id: &str, body: &str) -> Result<(), StoreError> {
    let meta = skills_agent_skills::skill_meta(body).unwrap();
    let put = Mutation::Put {
        layer: Layer::Official,
        id: id.into(),
        blobs: vec![(meta.digest(), Bytes::from(body.to_owned()))],
        content: EntryContent::Skill(meta),
        options: PublishOptions::default(),
    };
    let batch = Batch::new("t", vec![put]);
    store.commit(vec![batch], Timestamp::from_micros(1)).map(drop)
}

/// Reads every file of the directory except the lock.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .filter(|(name, _)| name != "skills.lock")
        .collect::<Vec<_>>();
    files.sort();
    files
}

#[test]
fn revisions_continue_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    put(&SqliteStore::open(dir.path()).unwrap(), "a", "one").unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    put(&store, "b", "two").unwrap();
    let log = store.changes(0, 10).unwrap();
    assert_eq!(log.iter().map(|change| change.revision).collect::<Vec<_>>(), [1, 2]);
    assert!(log[0].at < log[1].at);
}

#[test]
fn the_same_body_is_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for id in ["a", "b", "a", "a"] {
        put(&store, id, "the same").unwrap();
    }
    let reader = Connection::open(store.path()).unwrap();
    let count: i64 = reader.query_row("SELECT count(*) FROM blob", [], |r| r.get(0)).unwrap();
    assert_eq!(count, 1);
}

#[test]
fn a_second_process_cannot_open_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let _first = SqliteStore::open(dir.path()).unwrap();
    let error = SqliteStore::open(dir.path()).expect_err("held");
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("in use by another process"));
}

#[test]
fn an_unusable_file_is_reported_and_left_unchanged() {
    let good = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(good.path()).unwrap();
    for number in 0..50 {
        put(&store, &format!("s{number}"), &format!("{number} ").repeat(400)).unwrap();
    }
    drop(store);
    let bytes = fs::read(good.path().join("skills.db")).unwrap();

    let mut newer = bytes.clone();
    newer[60..64].copy_from_slice(&99_u32.to_be_bytes());
    let mut foreign = bytes.clone();
    foreign[68..72].copy_from_slice(&7_u32.to_be_bytes());
    let mut scrambled = bytes.clone();
    scrambled[4096 * 2..].fill(0xa5);
    let cases = [
        (newer, "schema version 99"),
        (foreign, "another program"),
        (b"just some text that is no database".to_vec(), "not an SQLite database"),
        (bytes[..50].to_vec(), "not an SQLite database"),
        (bytes[..bytes.len() / 2].to_vec(), "cut off"),
        (scrambled, "malformed"),
    ];
    for (content, words) in cases {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("skills.db"), &content).unwrap();
        let before = files(dir.path());
        let error = SqliteStore::open(dir.path())
            .and_then(|store| store.entries().map(drop))
            .expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.hint().is_some());
        assert_eq!(files(dir.path()), before, "{words}: the directory was touched");
    }
}

#[test]
fn a_crash_during_a_checkpoint_causes_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for number in 0..50 {
        put(&store, &format!("s{number}"), &format!("{number} ").repeat(400)).unwrap();
    }
    let log = fs::read(dir.path().join("skills.db-wal")).unwrap();
    drop(store);
    let whole = fs::read(dir.path().join("skills.db")).unwrap();

    // The header was moved into the database file before the pages it refers to.
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("skills.db"), &whole[..whole.len() / 2]).unwrap();
    fs::write(dir.path().join("skills.db-wal"), log).unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    assert_eq!(store.entries().unwrap().len(), 50);
    let body = "49 ".repeat(400);
    assert_eq!(store.blob(&Digest::of(body.as_bytes())).unwrap().unwrap(), body);
}

#[test]
fn a_body_altered_on_disk_is_not_served() {
    let dir = tempfile::tempdir().unwrap();
    let body = "a line of the body ".repeat(2000);
    put(&SqliteStore::open(dir.path()).unwrap(), "a", &body).unwrap();
    let path = dir.path().join("skills.db");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - 2000;
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let error = store.blob(&Digest::of(body.as_bytes())).expect_err("damaged");
    assert!(error.to_string().contains("damaged"), "{error}");
}

#[test]
fn any_corrupted_structure_page_is_detected() {
    let good = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(good.path()).unwrap();
    for number in 0..200 {
        put(&store, &format!("s{number}"), &format!("body {number}")).unwrap();
    }
    drop(store);
    let bytes = fs::read(good.path().join("skills.db")).unwrap();
    for page in 1..bytes.len() / 4096 {
        let dir = tempfile::tempdir().unwrap();
        let mut scrambled = bytes.clone();
        scrambled[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(dir.path().join("skills.db"), &scrambled).unwrap();
        let before = files(dir.path());
        let error = SqliteStore::open(dir.path()).expect_err("scrambled");
        assert!(
            matches!(error, StoreError::Database(DatabaseError::Corrupt { .. })),
            "page {page}: {error}"
        );
        assert_eq!(files(dir.path()), before, "page {page}: the directory was touched");
    }
}

#[test]
fn closing_leaves_a_single_private_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    put(&SqliteStore::open(&dir).unwrap(), "a", "one").unwrap();
    let names = files(&dir).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names, ["skills.db"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join("skills.db")), 0o600);
    assert_eq!(mode(&dir.join("skills.lock")), 0o600);
}

#[test]
fn a_directory_that_cannot_be_created_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = SqliteStore::open(&file.join("data")).expect_err("under a file");
    assert!(matches!(error, StoreError::Database(DatabaseError::Io { .. })), "{error}");
    assert!(error.to_string().contains("cannot create the data directory"), "{error}");
}

#[test]
fn writes_resume_without_loss_after_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(dir.path()).unwrap());
    let store = SqliteStore::open(dir.path()).unwrap();
    put(&store, "before", "kept").unwrap();
    store.limit_bytes(100_000).unwrap();
    let error = put(&store, "large", &"x".repeat(200_000)).expect_err("full");
    assert!(matches!(error, StoreError::Database(DatabaseError::DiskFull { .. })), "{error}");
    assert_eq!(store.entries().unwrap().len(), 1);
    assert_eq!(store.changes(0, 10).unwrap().len(), 1);
    store.limit_bytes(10_000_000).unwrap();
    put(&store, "large", &"x".repeat(200_000)).unwrap();
    let log = store.changes(0, 10).unwrap();
    assert_eq!(log.iter().map(|change| change.revision).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn an_unreadable_entry_is_reported_and_affects_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for id in ["a", "b", "c", "d"] {
        put(&store, id, "body").unwrap();
    }
    drop(store);
    let connection = Connection::open(dir.path().join("skills.db")).unwrap();
    for (id, content) in [("a", "'{\"title\":'"), ("b", "CAST(x'ff00' AS TEXT)"), ("c", "NULL")] {
        let sql = format!(
            "UPDATE version SET content = {content}
             WHERE entry = (SELECT number FROM entry WHERE id = '{id}')"
        );
        assert_eq!(connection.execute(&sql, []).unwrap(), 1, "{id:?}");
    }
    drop(connection);
    let store = SqliteStore::open(dir.path()).unwrap();
    let is_corrupt = |content: &EntryContent| matches!(content, EntryContent::Corrupt { .. });
    let mut entries = store.entries().unwrap();
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    let corrupt: Vec<bool> = entries.iter().map(|entry| is_corrupt(&entry.content)).collect();
    assert_eq!(corrupt, [true, true, true, false]);
    assert_eq!(store.changes(0, 10).unwrap().len(), 4, "the log can be read past them");
    put(&store, "a", "mended").unwrap();
    let entries = store.entries().unwrap();
    assert_eq!(entries.iter().filter(|entry| is_corrupt(&entry.content)).count(), 2);
}

/// Earlier versions stored neither the executable bit nor the source of a skill.
#[test]
fn a_store_of_an_earlier_version_opens() {
    let dir = tempfile::tempdir().unwrap();
    let path = {
        let store = SqliteStore::open(dir.path()).unwrap();
        put(&store, "a", "# A").unwrap();
        store.path().to_owned()
    };
    let digest = Digest::of(b"# A");
    let old = format!(
        r#"{{"title":"A","files":[{{"path":"SKILL.md","digest":"{digest}","size":3}},{{"path":"x","digest":"{digest}","size":3}}]}}"#
    );
    Connection::open(&path).unwrap().execute("UPDATE version SET content = ?1", [&old]).unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let entries = store.entries().unwrap();
    let EntryContent::Skill(meta) = &*entries[0].content else { panic!("{entries:?}") };
    assert_eq!((meta.files.len(), meta.files[1].executable), (2, None));
    assert_eq!(meta.provenance, None);
    assert_eq!(serde_json::to_string(meta).unwrap(), old, "it is written as it was");
}

#[test]
fn each_version_in_the_log_has_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let source = |commit: &str| Provenance {
        commit: Some(commit.to_owned()),
        ..Provenance::new(SourceKind::Git, "https://example.com/a")
    };
    {
        let store = SqliteStore::open(dir.path()).unwrap();
        for commit in ["1", "2"] {
            let mut meta = skills_agent_skills::skill_meta(commit).unwrap();
            meta.provenance = Some(Box::new(source(commit)));
            let content = EntryContent::Skill(meta);
            let put = Mutation::Put {
                layer: Layer::Official,
                id: "a".into(),
                content,
                blobs: vec![(Digest::of(commit.as_bytes()), Bytes::from(commit.to_owned()))],
                options: PublishOptions::default(),
            };
            let batch = Batch::new("t", vec![put]);
            store.commit(vec![batch], Timestamp::from_micros(1)).unwrap();
        }
    }
    let log = SqliteStore::open(dir.path()).unwrap().changes(0, 10).unwrap();
    let sources: Vec<_> = log
        .iter()
        .map(|change| match change.content().map(AsRef::as_ref) {
            Some(EntryContent::Skill(meta)) => meta.provenance.as_deref().cloned(),
            _ => None,
        })
        .collect();
    assert_eq!(sources, [Some(source("1")), Some(source("2"))]);
}

/// Returns whether a file of the directory has some bytes.
fn has_bytes(dir: &Path, bytes: &[u8]) -> bool {
    files(dir).iter().any(|(_, content)| content.windows(bytes.len()).any(|part| part == bytes))
}

#[test]
fn purged_bytes_are_in_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    let secret = "sk-0123456789-secret";
    // One is in a page with others, one in pages of its own.
    for (id, body) in [("small", secret.to_owned()), ("large", format!("{secret} ").repeat(2000))] {
        put(&store, id, &format!("# Before {id}")).unwrap();
        put(&store, id, &body).unwrap();
        assert!(has_bytes(dir.path(), secret.as_bytes()));
        let key = EntryKey { kind: EntryKind::Skill, layer: Layer::Official, id: id.into() };
        let version = VersionSelector::Number(2);
        let change = VersionMutation::Purge { version, reason: "leaked".into() };
        let purge = Mutation::Version { key, change };
        let batch = Batch::new("t", vec![purge]);
        store.commit(vec![batch], Timestamp::from_micros(1)).unwrap().remove(0).unwrap();
        assert!(!has_bytes(dir.path(), secret.as_bytes()), "{id}");
    }
}

#[test]
fn the_file_shrinks_when_old_versions_are_collected() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for number in 0..20 {
        put(&store, "a", &format!("{number} ").repeat(30_000)).unwrap();
    }
    let size = || {
        let connection = Connection::open(store.path()).unwrap();
        connection.query_row("PRAGMA page_count", [], |row| row.get::<_, u64>(0)).unwrap() * 4096
    };
    let before = size();
    let retention = Retention { versions: Some(2), age: None };
    let expired = store.expired(&retention, Timestamp::from_micros(1), None, 100).unwrap();
    assert_eq!(expired.versions.len(), 18);
    let collect =
        |(key, version)| Mutation::Version { key, change: VersionMutation::Collect { version } };
    let mutations = expired.versions.into_iter().map(collect).collect();
    let batch = Batch::new("t", mutations);
    store.commit(vec![batch], Timestamp::from_micros(1)).unwrap().remove(0).unwrap();
    while store.release_space().unwrap() {}
    assert!(size() < before / 4, "{} of {before} bytes", size());
}
