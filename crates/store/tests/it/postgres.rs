//! PostgreSQL in particular. These tests run if `SKILLS_TEST_STORE` names a database, as in `interop/run postgres`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use skills_core::{Coded as _, Digest, EntryKind, Timestamp, VersionSelector, WriteRefusal};
use skills_postgres::{DatabaseUrl, PgError, Pool, PoolConfig};
use skills_store::{
    Batch, BatchError, Effect, Mutation, NewValue, PostgresStore, PublishOptions, Store,
    StoreError, VersionMutation,
};

use crate::contract::{at, batch, changed, commit, key, put};

static SCHEMAS: AtomicU64 = AtomicU64::new(0);

/// Schema of its own in the database of the tests, which is dropped at the end.
pub(crate) struct TestDatabase {
    base: String,
    schema: String,
}

impl TestDatabase {
    /// Returns a database if the environment names one.
    pub(crate) fn new() -> Option<Self> {
        let base = std::env::var("SKILLS_TEST_STORE").ok()?;
        let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        Some(Self { base, schema: format!("test_{}_{number}", std::process::id()) })
    }

    pub(crate) fn url(&self) -> DatabaseUrl {
        self.url_with("")
    }

    /// Returns the URL with more options of sessions.
    fn url_with(&self, more: &str) -> DatabaseUrl {
        let separator = if self.base.contains('?') { '&' } else { '?' };
        let schema = &self.schema;
        let options = format!("application_name={schema}&options=-c%20search_path%3D{schema}");
        format!("{}{separator}{options}{more}", self.base).parse().unwrap()
    }

    pub(crate) fn open(&self) -> PostgresStore {
        PostgresStore::open(&self.url()).unwrap()
    }

    fn pool(&self) -> Pool {
        Pool::new(&self.url(), PoolConfig::default()).unwrap()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let sql = format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", self.schema);
        let _ = self.pool().read(|session| session.batch(&sql));
    }
}

fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "the condition never held");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn servers_that_start_at_once_create_the_tables_once() {
    let Some(database) = TestDatabase::new() else { return };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| database.open().revision().unwrap());
        }
    });
}

#[test]
fn revisions_of_several_servers_have_no_gaps_and_no_repetition() {
    let Some(database) = TestDatabase::new() else { return };
    let seen: Vec<u64> = thread::scope(|scope| {
        let servers: Vec<_> = (0..3)
            .map(|server| {
                let database = &database;
                scope.spawn(move || {
                    let store = database.open();
                    let write = |n: u32| {
                        let put = put(&format!("s{server}/n{}", n % 7), &format!("# {server} {n}"));
                        changed(commit(&store, put, 1)).revision
                    };
                    (0..40).map(write).collect::<Vec<_>>()
                })
            })
            .collect();
        servers.into_iter().flat_map(|server| server.join().unwrap()).collect()
    });
    let mut sorted = seen.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (1..=120).collect::<Vec<_>>());
    let log = database.open().changes(0, 1000).unwrap();
    assert!(log.windows(2).all(|pair| pair[0].revision + 1 == pair[1].revision));
    assert!(log.windows(2).all(|pair| pair[0].at < pair[1].at), "times grow strictly");
}

#[test]
fn of_two_servers_that_expect_the_same_version_one_succeeds() {
    let Some(database) = TestDatabase::new() else { return };
    let publish = |store: &PostgresStore, body: &str, expected| {
        let Mutation::Put { layer, id, content, blobs, .. } = put("a", body) else { panic!() };
        let options = PublishOptions { message: None, expected_version: Some(expected) };
        let put = Mutation::Put { layer, id, content, blobs, options };
        store.commit(vec![batch(vec![put])], at(1)).unwrap().remove(0)
    };
    let (one, two) = (database.open(), database.open());
    for round in 0..10 {
        let results: Vec<_> = thread::scope(|scope| {
            let publish = &publish;
            let tries = [(&one, "x"), (&two, "y")].map(|(store, body)| {
                scope.spawn(move || publish(store, &format!("# {body} {round}"), round))
            });
            tries.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
        let refused = results.into_iter().find_map(Result::err).unwrap();
        assert!(matches!(refused, BatchError::Version(_)), "{refused:?}");
    }
}

#[test]
fn computed_values_of_several_servers_lose_no_update() {
    let Some(database) = TestDatabase::new() else { return };
    let increment = || {
        let value = NewValue::Computed(Arc::new(|current: Option<&str>| {
            let number: u32 = current.map_or(0, |text| text.parse().unwrap());
            Ok((number + 1).to_string())
        }));
        Mutation::StateSet { scope: "s".into(), key: "n".into(), value }
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let store = database.open();
                for _ in 0..20 {
                    commit(&store, increment(), 1);
                }
            });
        }
    });
    assert_eq!(database.open().state_get("s", "n").unwrap().as_deref(), Some("60"));
}

#[test]
fn a_batch_that_is_sent_again_is_not_doubled() {
    let Some(database) = TestDatabase::new() else { return };
    let set = |n: u32| {
        let value = NewValue::Given(n.to_string());
        Mutation::StateSet { scope: "s".into(), key: format!("k{n}"), value }
    };
    let batches = vec![
        batch(vec![put("a", "# one")]),
        batch(vec![set(1), put("b", "# two"), Mutation::Remove(key(EntryKind::Skill, "none"))]),
    ];
    let store = database.open();
    let first = store.commit(batches.clone(), at(1)).unwrap();
    let again = database.open().commit(batches, at(2)).unwrap();
    assert_eq!(store.revision().unwrap(), 2);
    assert_eq!(first[0], again[0]);
    let effects = |outcome: &[Result<Vec<Effect>, BatchError>]| outcome[1].clone().unwrap();
    assert_eq!(effects(&first)[1..], effects(&again)[1..]);
}

#[test]
fn a_server_that_wrote_alone_notices_the_writes_of_others() {
    let Some(database) = TestDatabase::new() else { return };
    let (one, two) = (database.open(), database.open());
    let mut revision = 0;
    let mut write = |store: &PostgresStore, id: &str| {
        revision += 1;
        let change = changed(commit(store, put(id, &format!("# {revision}")), 1));
        assert_eq!(change.revision, revision);
        change.served.unwrap().heads.unwrap().latest
    };
    // Long enough alone that the first server trusts its cache.
    let versions: Vec<u64> = (0..6).map(|_| write(&one, "a")).collect();
    assert_eq!(versions, [1, 2, 3, 4, 5, 6]);
    assert_eq!(write(&two, "a"), 7);
    assert_eq!(write(&two, "b"), 1);
    assert_eq!(write(&one, "a"), 8);
    assert_eq!(write(&one, "b"), 2);
    assert_eq!((0..6).map(|_| write(&one, "b")).last(), Some(8));
    let label = VersionMutation::SetLabel {
        label: "stable".parse().unwrap(),
        version: Some(VersionSelector::Number(3)),
        expected: None,
    };
    let key = || key(EntryKind::Skill, "b");
    changed(commit(&two, Mutation::Version { key: key(), change: label }, 1));
    changed(commit(&one, put("b", "# labelled"), 1));
    let heads = |store: &PostgresStore| {
        let entries = store.entries().unwrap();
        entries.into_iter().find(|entry| entry.key == key()).unwrap().heads.unwrap()
    };
    assert_eq!((heads(&one).served, heads(&one).latest), (3, 9));
    assert_eq!(heads(&one), heads(&two));
    changed(commit(&one, Mutation::Remove(key()), 1));
    assert_eq!(commit(&two, Mutation::Remove(key()), 1), Effect::Nothing);
    assert_eq!(commit(&one, Mutation::Remove(key()), 1), Effect::Nothing);
    assert_eq!(one.changes(0, 1000).unwrap().len() as u64, one.revision().unwrap());
}

#[test]
fn a_batch_is_not_doubled_by_a_server_that_writes_alone() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    for number in 0..5 {
        commit(&store, put("a", &format!("# {number}")), 1);
    }
    let group = vec![batch(vec![put("a", "# again")])];
    let first = store.commit(group.clone(), at(1)).unwrap();
    assert_eq!(store.commit(group, at(2)).unwrap(), first);
    assert_eq!(store.revision().unwrap(), 6);
    let expected = PublishOptions { expected_version: Some(5), ..PublishOptions::default() };
    let Mutation::Put { layer, id, content, blobs, .. } = put("a", "# late") else { panic!() };
    let late = Mutation::Put { layer, id, content, blobs, options: expected };
    let group = vec![batch(vec![late]), batch(vec![put("a", "# seventh")])];
    let outcome = store.commit(group, at(1)).unwrap();
    assert!(matches!(outcome[0], Err(BatchError::Version(_))), "{outcome:?}");
    assert_eq!(store.revision().unwrap(), 7);
}

#[test]
fn a_large_blob_is_stored_in_chunks_and_read_back() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    let body = "0123456789abcdef".repeat(200_000);
    let Mutation::Put { layer, id, content, options, .. } = put("a", "# x") else { panic!() };
    let digest = Digest::of(body.as_bytes());
    let blobs = vec![(digest, Bytes::from(body.clone()))];
    commit(&store, Mutation::Put { layer, id, content, blobs, options }, 1);
    assert_eq!(store.blob(&digest).unwrap().unwrap(), body.as_bytes());
    let small = Digest::of(b"# B");
    commit(&store, put("b", "# B"), 2);
    let both = store.blobs(&[digest, small]).unwrap();
    assert_eq!(both, [Some(Bytes::from(body)), Some(Bytes::from("# B"))]);
    let chunks = database.pool().read(|session| {
        let row = session.query_one("SELECT count(*) FROM blob_chunk", &[])?;
        skills_postgres::column::<i64>(&row, 0)
    });
    assert_eq!(chunks.unwrap(), 4);
}

#[test]
fn backends_that_are_killed_lose_and_double_nothing() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let pool = database.pool();
            while done.load(Ordering::Relaxed) == 0 {
                let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                           WHERE application_name = $1 AND pid <> pg_backend_pid()";
                let _ = pool.read(|session| session.execute(sql, &[&database.schema]));
                thread::sleep(Duration::from_millis(20));
            }
        });
        let mut stored = 0;
        for number in 0..100_u32 {
            let group = vec![batch(vec![put("a", &format!("# {number}"))])];
            // An error other than an unknown outcome means that nothing was written.
            match store.commit(group.clone(), at(1)) {
                Ok(outcome) => {
                    outcome[0].as_ref().unwrap();
                    stored += 1;
                }
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        }
        done.store(1, Ordering::Relaxed);
        wait_until(|| store.revision().is_ok());
        assert_eq!(store.revision().unwrap(), stored);
    });
}

#[test]
fn a_server_that_hangs_in_a_transaction_does_not_block_the_others() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    let config = PoolConfig { idle_timeout: Duration::from_millis(300), ..PoolConfig::default() };
    let hanging = Pool::new(&database.url(), config).unwrap();
    let (locked, is_locked) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let hung = hanging.transaction(|session| {
                session.query("SELECT revision FROM head FOR UPDATE", &[])?;
                locked.send(()).unwrap();
                thread::sleep(Duration::from_secs(2));
                session.query("SELECT 1", &[])
            });
            assert!(hung.unwrap_err().is_unavailable());
        });
        is_locked.recv().unwrap();
        changed(commit(&store, put("a", "# one"), 1));
    });
}

#[test]
fn a_newer_schema_is_refused() {
    let Some(database) = TestDatabase::new() else { return };
    drop(database.open());
    let sql = "UPDATE schema_version SET version = 99";
    database.pool().read(|session| session.batch(sql)).unwrap();
    let error = PostgresStore::open(&database.url()).unwrap_err();
    assert_eq!(error.code().as_str(), "store_newer_schema");
    assert!(!error.is_transient());
}

#[test]
fn a_database_that_does_not_exist_is_not_worth_waiting_for() {
    let Ok(base) = std::env::var("SKILLS_TEST_STORE") else { return };
    let mut url = base.split('?').next().unwrap().to_owned();
    url.push_str("_that_is_not_there");
    let query = base.split_once('?').map(|(_, query)| format!("?{query}")).unwrap_or_default();
    let url: DatabaseUrl = format!("{url}{query}").parse().unwrap();
    let error = PostgresStore::open(&url).unwrap_err();
    assert!(!error.is_transient(), "{error}");
}

#[test]
fn a_database_that_takes_no_writes_is_noticed_without_one() {
    let Some(database) = TestDatabase::new() else { return };
    database.open().check_writable().unwrap();
    let url = database.url_with("%20-c%20default_transaction_read_only%3Don");
    let store = PostgresStore::open(&url).unwrap();
    let found = store.check_writable().unwrap_err();
    let refused = store.commit(vec![batch(vec![put("a", "# A")])], at(1)).unwrap_err();
    for error in [found, refused] {
        assert_eq!(error.write_refusal(), Some(WriteRefusal::ReadOnly), "{error}");
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_worth_waiting_for() {
    let url: DatabaseUrl = "postgres://127.0.0.1:1/none".parse().unwrap();
    let error = PostgresStore::open(&url).unwrap_err();
    assert!(matches!(error, StoreError::Postgres(_)));
    assert_eq!(error.code().as_str(), "store_unavailable");
    assert!(error.is_transient() && !error.is_outcome_unknown());
}

#[test]
fn a_batch_that_the_database_cannot_store_does_not_fail_the_others() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    let set = |key: &str| {
        let value = NewValue::Given("1".into());
        Mutation::StateSet { scope: "s".into(), key: key.into(), value }
    };
    // Neither a NUL character nor a key of this size can be stored.
    let noise: String = (0..20_000_u32).map(|n| Digest::of(&n.to_le_bytes()).to_string()).collect();
    let group = vec![
        batch(vec![set("a")]),
        batch(vec![set("b\0")]),
        batch(vec![set(&noise)]),
        Batch::new("t", vec![put("c", "# c")]),
    ];
    let outcome = store.commit(group, Timestamp::from_micros(1)).unwrap();
    let is_ok: Vec<bool> = outcome.iter().map(Result::is_ok).collect();
    assert_eq!(is_ok, [true, false, false, true], "{outcome:?}");
    assert_eq!(store.state_get("s", "b\0").unwrap(), None);
}

fn set_state() -> Mutation {
    Mutation::StateSet { scope: "s".into(), key: "k".into(), value: NewValue::Given("1".into()) }
}

/// Makes the database refuse the body `# poison`, and break the connection that registers the skill `kill`.
const SABOTAGE: &str = "
    CREATE FUNCTION refuse_poison() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN
        IF new.bytes = convert_to('# poison', 'UTF8') THEN RAISE EXCEPTION 'poison'; END IF;
        RETURN new; END $f$;
    CREATE TRIGGER poison BEFORE INSERT ON blob FOR EACH ROW EXECUTE FUNCTION refuse_poison();
    CREATE FUNCTION end_backend() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN
        IF new.id = 'kill' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
        RETURN new; END $f$;
    CREATE TRIGGER kill BEFORE INSERT ON entry FOR EACH ROW EXECUTE FUNCTION end_backend()";

#[test]
fn a_group_that_is_split_says_of_each_batch_whether_it_was_written() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    database.pool().read(|session| session.batch(SABOTAGE)).unwrap();
    let ids = [("a", "# a"), ("poison", "# poison"), ("kill", "# kill"), ("b", "# b")];
    let group = ids.map(|(id, body)| batch(vec![put(id, body)])).to_vec();
    let outcome = store.commit(group, at(1)).unwrap();
    assert!(outcome[0].is_ok(), "{outcome:?}");
    for (failed, code) in [(1, "store_error"), (2, "store_unavailable"), (3, "store_unavailable")] {
        let found = &outcome[failed];
        assert!(
            matches!(found, Err(BatchError::Failed { code: it, .. }) if it == code),
            "{found:?}"
        );
    }
    let stored: Vec<_> = store.entries().unwrap().into_iter().map(|it| it.key.id).collect();
    assert_eq!(stored, ["a".into()]);
}

#[test]
fn batches_that_were_committed_before_say_nothing_of_those_that_were_sent_with_them() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    database.pool().read(|session| session.batch(SABOTAGE)).unwrap();
    let (before, new) = (batch(vec![put("a", "# a")]), batch(vec![put("kill", "# kill")]));
    assert!(store.commit(vec![before.clone()], at(1)).unwrap()[0].is_ok());
    let error = store.commit(vec![before, new], at(2)).unwrap_err();
    assert!(!error.is_outcome_unknown(), "{error}");
    assert_eq!(store.revision().unwrap(), 1);
}

#[test]
fn slow_reads_delay_neither_writes_nor_the_check_of_the_revision() {
    let Some(database) = TestDatabase::new() else { return };
    let store = database.open();
    commit(&store, put("a", "# a"), 1);
    let lock = database.pool();
    thread::scope(|scope| {
        let held = lock.transaction(|session| {
            // `entries` reads the labels.
            session.batch("LOCK TABLE label IN ACCESS EXCLUSIVE MODE")?;
            let readers: Vec<_> = (0..12).map(|_| scope.spawn(|| store.entries())).collect();
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1
                AND wait_event_type = 'Lock'";
            wait_until(|| {
                let row = session.query_one("SELECT pg_stat_clear_snapshot()", &[]);
                row.and_then(|_| session.query_one(waiting, &[&database.schema]))
                    .and_then(|row| skills_postgres::column::<i64>(&row, 0))
                    .unwrap()
                    > 0
            });
            assert_eq!(store.revision().unwrap(), 1);
            commit(&store, set_state(), 1);
            Ok::<_, PgError>(readers)
        });
        for reader in held.unwrap() {
            assert!(reader.join().unwrap().is_ok());
        }
    });
}

#[test]
fn own_commits_do_not_wake_a_server_and_those_of_others_do() {
    let Some(database) = TestDatabase::new() else { return };
    let (store, other) = (database.open(), database.open());
    let wakes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&wakes);
    let _following = store
        .follow(Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        }))
        .unwrap();
    wait_until(|| wakes.load(Ordering::Relaxed) == 1);
    for number in 0..4 {
        commit(&store, put("a", &format!("# {number}")), 1);
        commit(&other, put("b", &format!("# {number}")), 1);
        // Follows the other's commit, whose revision it leaves as it is.
        commit(&store, set_state(), 1);
    }
    wait_until(|| wakes.load(Ordering::Relaxed) >= 5);
    assert_eq!(wakes.load(Ordering::Relaxed), 5, "notifications arrive in the order of commits");
}

#[test]
fn a_commit_wakes_the_other_servers() {
    let Some(database) = TestDatabase::new() else { return };
    let (one, two) = (database.open(), database.open());
    let woken = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&woken);
    let wake = move || {
        counter.fetch_add(1, Ordering::Relaxed);
    };
    let _subscription = two.follow(Arc::new(wake)).unwrap().unwrap();
    wait_until(|| woken.load(Ordering::Relaxed) == 1);
    commit(&one, put("a", "# one"), 1);
    wait_until(|| woken.load(Ordering::Relaxed) == 2);
    assert_eq!(two.changes(0, 10).unwrap().len(), 1);
}

#[test]
fn a_store_is_copied_to_a_database_and_back() {
    use skills_store::{SqliteStore, transfer::TABLES};
    use skills_transfer::{
        CopyReport, TableSource, TransferError, copy_tables,
        postgres::{begin_snapshot, source_pool},
    };
    struct Snapshot(skills_postgres::Lease);
    impl TableSource for Snapshot {
        fn for_each(
            &mut self,
            table: &skills_transfer::Table,
            visit: skills_transfer::Visit<'_>,
        ) -> Result<(), TransferError> {
            PostgresStore::read_table(&self.0, table, visit)
        }
    }
    let Some(database) = TestDatabase::new() else { return };
    let (dir, back) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let sqlite = SqliteStore::open(dir.path()).unwrap();
    for number in 0..20 {
        commit(&sqlite, put(&format!("s{}", number % 7), &format!("# {number}")), number);
    }
    let Mutation::Put { layer, id, content, mut blobs, options } = put("large", "# x") else {
        panic!()
    };
    let large = Bytes::from("x".repeat(3_000_000));
    blobs.push((Digest::of(&large), large));
    commit(&sqlite, Mutation::Put { layer, id, content, blobs, options }, 21);
    commit(&sqlite, Mutation::Remove(key(EntryKind::Skill, "s1")), 22);
    let version = skills_core::VersionSelector::Number(1);
    let label = "stable".parse().unwrap();
    let change = VersionMutation::SetLabel { label, version: Some(version), expected: None };
    commit(&sqlite, Mutation::Version { key: key(EntryKind::Skill, "s2"), change }, 23);
    let value = NewValue::Given("{\"a\":1}".into());
    commit(&sqlite, Mutation::StateSet { scope: "s".into(), key: "k".into(), value }, 24);

    // The file is still open, as in a server that runs.
    let postgres = database.open();
    let pool = source_pool(&database.url()).unwrap();
    let copy_to_database = || {
        let mut report = CopyReport::default();
        let mut snapshot = SqliteStore::snapshot(dir.path())?;
        pool.transaction(|session| {
            PostgresStore::receive(session, &mut |sink| {
                copy_tables(TABLES, &mut snapshot, sink, &mut report, &mut |_| Ok(()))
            })
        })?;
        Ok::<_, TransferError>(report)
    };
    let report = copy_to_database().unwrap();
    assert_eq!((report.revision, report.blobs), (sqlite.revision().unwrap(), 22));
    let copied = SqliteStore::open(back.path()).unwrap();
    let mut snapshot = Snapshot(begin_snapshot(&pool).unwrap());
    let mut report = CopyReport::default();
    copied
        .receive(&mut |sink| copy_tables(TABLES, &mut snapshot, sink, &mut report, &mut |_| Ok(())))
        .unwrap();
    for store in [&postgres as &dyn Store, &copied] {
        assert_eq!(store.changes(0, 100).unwrap(), sqlite.changes(0, 100).unwrap());
        let state = |store: &dyn Store| store.state_page("s", 0, 9, 99).unwrap();
        assert_eq!(state(store), state(&sqlite));
        let log = |store: &dyn Store| store.log(&Default::default(), None, 100).unwrap();
        assert_eq!(log(store), log(&sqlite));
        for id in ["s1", "s2", "large"] {
            let key = key(EntryKind::Skill, id);
            let versions = |store: &dyn Store| store.versions(&key, None, 100).unwrap();
            assert_eq!(versions(store), versions(&sqlite));
        }
        // It goes on where the other one was.
        let change = changed(commit(store, put("s3", "# new"), 30));
        assert_eq!(change.revision, sqlite.revision().unwrap() + 1);
    }
    let error = copy_to_database().unwrap_err();
    assert!(matches!(error, TransferError::NotEmpty(_)), "{error}");
}
