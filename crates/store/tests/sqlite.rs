//! What only a store on disk can get wrong.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{fs, path::Path};

use bytes::Bytes;
use rusqlite::Connection;
use skills_core::{Digest, Layer, SkillMeta, Timestamp};
use skills_store::{Batch, EntryContent, Mutation, SqliteStore, Store, StoreError};

fn put(store: &SqliteStore, id: &str, body: &str) -> Result<(), StoreError> {
    let meta = SkillMeta::of_document(body).unwrap();
    let put = Mutation::Put {
        layer: Layer::Official,
        id: id.into(),
        blobs: vec![(meta.digest(), Bytes::from(body.to_owned()))],
        content: EntryContent::Skill(meta),
    };
    let batch = Batch { actor: "t".into(), mutations: vec![put] };
    store.commit(vec![batch], Timestamp::from_micros(1)).map(drop)
}

/// Every file of the directory with its bytes, the lock aside.
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
fn survives_reopening_and_goes_on_counting() {
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
fn a_second_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _first = SqliteStore::open(dir.path()).unwrap();
    let error = SqliteStore::open(dir.path()).expect_err("held");
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("in use by another process"));
}

#[test]
fn what_cannot_be_used_is_named_and_left_alone() {
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
fn a_crash_in_a_checkpoint_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for number in 0..50 {
        put(&store, &format!("s{number}"), &format!("{number} ").repeat(400)).unwrap();
    }
    let log = fs::read(dir.path().join("skills.db-wal")).unwrap();
    drop(store);
    let whole = fs::read(dir.path().join("skills.db")).unwrap();

    // The header was moved into the database file before the pages it speaks of.
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("skills.db"), &whole[..whole.len() / 2]).unwrap();
    fs::write(dir.path().join("skills.db-wal"), log).unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    assert_eq!(store.entries().unwrap().len(), 50);
    let body = "49 ".repeat(400);
    assert_eq!(store.blob(&Digest::of(body.as_bytes())).unwrap().unwrap(), body);
}

#[test]
fn a_body_that_was_altered_on_disk_is_not_served() {
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
fn any_scrambled_page_of_the_structure_is_found() {
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
        assert!(matches!(error, StoreError::Corrupt { .. }), "page {page}: {error}");
        assert_eq!(files(dir.path()), before, "page {page}: the directory was touched");
    }
}

#[test]
fn closing_leaves_everything_in_one_private_file() {
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
fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = SqliteStore::open(&file.join("data")).expect_err("under a file");
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert!(error.to_string().contains("cannot create the data directory"), "{error}");
}

#[test]
fn a_full_disk_loses_nothing_and_heals() {
    let dir = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(dir.path()).unwrap());
    let store = SqliteStore::open(dir.path()).unwrap();
    put(&store, "before", "kept").unwrap();
    store.limit_bytes(100_000).unwrap();
    let error = put(&store, "large", &"x".repeat(200_000)).expect_err("full");
    assert!(matches!(error, StoreError::Full), "{error}");
    assert_eq!(store.entries().unwrap().len(), 1);
    assert_eq!(store.changes(0, 10).unwrap().len(), 1);
    store.limit_bytes(10_000_000).unwrap();
    put(&store, "large", &"x".repeat(200_000)).unwrap();
    let log = store.changes(0, 10).unwrap();
    assert_eq!(log.iter().map(|change| change.revision).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn an_entry_that_cannot_be_read_is_told_of_and_spoils_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    for id in ["a", "b", "c", "d"] {
        put(&store, id, "body").unwrap();
    }
    drop(store);
    let connection = Connection::open(dir.path().join("skills.db")).unwrap();
    for (id, content) in [("a", "'{\"title\":'"), ("b", "CAST(x'ff00' AS TEXT)"), ("c", "NULL")] {
        let sql = format!("UPDATE change SET content = {content} WHERE id = '{id}'");
        assert_eq!(connection.execute(&sql, []).unwrap(), 1);
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
