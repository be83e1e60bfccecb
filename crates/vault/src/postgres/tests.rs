//! Tests of what only a shared database has: several servers, and a database that goes away. They need a PostgreSQL, which
//! `SKILLS_TEST_STORE` names.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Instant,
};

use skills_core::{Caller, Coded as _, KeyDirectory as _, Owner, SkillId, Tier, Timestamp, User};

use super::*;
use crate::{
    AccountChange, AdminSecrets, CalledSkill, CreatedKey, KeySelector, NewKey, Plan, PlanLimits,
    ProfileChange, RateLimits, SecretName, Vault, VaultKeyDirectory,
    vault::testing::{MASTER, NOW, PostgresSchema, TestProxy, TestSite, actor, master, owner},
};

fn schema(site: &TestSite) -> &PostgresSchema {
    match site {
        TestSite::Postgres(schema) => schema,
        _ => panic!("not PostgreSQL"),
    }
}

/// Waits until a condition holds.
fn wait_until(mut is_met: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_met() {
        assert!(Instant::now() < deadline, "the condition is never met");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns a change of an account to another plan.
fn pro_account(owner: &Owner) -> AccountChange<'_> {
    AccountChange {
        profile: ProfileChange { plan: Some(Plan::Pro), ..ProfileChange::default() },
        ..AccountChange::new(owner)
    }
}

/// Runs a future on this thread.
fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn servers_may_open_a_new_vault_at_once() {
    let site = TestSite::postgres();
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| site.vault());
        }
    });
    assert!(site.vault().keys(None, 0, 10).unwrap().is_empty());
}

#[test]
fn a_newer_schema_is_refused() {
    let site = TestSite::postgres();
    drop(site.vault());
    let schema = schema(&site);
    schema.execute("UPDATE schema_version SET version = 99 WHERE component = 'vault'").unwrap();
    let refused = Vault::open_postgres(&schema.url, None, None).unwrap_err();
    assert_eq!(refused.code().as_str(), "vault_newer_schema");
    assert!(refused.to_string().contains("99"), "{refused}");
}

#[test]
fn the_audit_log_is_only_added_to() {
    let site = TestSite::postgres();
    let vault = site.vault();
    vault.record(actor(), "a", "b").unwrap();
    for sql in
        ["DELETE FROM vault_audit", "UPDATE vault_audit SET actor = ''", "TRUNCATE vault_audit"]
    {
        let refused = schema(&site).execute(sql).unwrap_err();
        assert!(refused.to_string().contains("only added to"), "{sql}: {refused}");
    }
    assert_eq!(vault.audit(0, 10).unwrap().len(), 1);
}

#[test]
fn a_revocation_reaches_every_server_and_leaves_other_keys_cached() {
    let site = TestSite::postgres();
    let servers = [site.vault(), site.vault(), site.vault()];
    let ann = owner("ann");
    let new = NewKey::for_owner(&ann);
    let (one, other) = (
        servers[0].create_key(actor(), &new).unwrap(),
        servers[0].create_key(actor(), &new).unwrap(),
    );
    for server in &servers {
        assert!(server.find_key(&one.key, NOW).unwrap().is_some());
        assert!(server.find_key(&other.key, NOW).unwrap().is_some());
    }
    servers[1].revoke_keys(actor(), KeySelector::Id(&one.row.id())).unwrap();
    assert!(servers[1].find_key(&one.key, NOW).unwrap().is_none(), "at once where it was revoked");
    for server in &servers {
        wait_until(|| server.find_key(&one.key, NOW).unwrap().is_none());
        assert!(server.cached_plan(&other.row.hash).is_some(), "the other key stays cached");
    }
    let change = ProfileChange { plan: Some(Plan::Scale), ..ProfileChange::default() };
    servers[2].set_profile(actor(), &ann, &change).unwrap();
    for server in &servers {
        let plan = || server.find_key(&other.key, NOW).unwrap().map(|key| key.plan);
        wait_until(|| plan() == Some(Plan::Scale));
    }
}

#[test]
fn keys_and_secrets_are_used_from_memory_while_the_database_is_away() {
    let site = TestSite::postgres();
    let proxy = TestProxy::start(schema(&site));
    let direct = site.vault();
    let open = |max_stale| {
        Vault::open_postgres(&proxy.url, max_stale, Some(master(MASTER, None))).unwrap()
    };
    let (server, impatient) = (open(None), open(Some(Duration::ZERO)));
    let ann = owner("ann");
    let (used, unused) = (
        server.create_key(actor(), &NewKey::for_owner(&ann)).unwrap(),
        server.create_key(actor(), &NewKey::for_owner(&ann)).unwrap(),
    );
    server.set_secret(actor(), &ann, None, &"TOKEN".parse().unwrap(), "value").unwrap();
    let echo = "echo".parse().unwrap();
    let skill = CalledSkill { tier: Tier::Private, id: &echo, origin: None };
    let call = || server.secrets_for_call(&ann, skill, &["TOKEN".to_owned()]);
    assert_eq!(call().unwrap()["TOKEN"].as_str(), "value");
    let find = |vault: &Vault, key: &str| vault.find_key(key, NOW).map(|key| key.is_some());
    assert!(find(&server, &used.key).unwrap() && find(&impatient, &used.key).unwrap());

    proxy.cut();
    wait_until(|| server.set_profile(actor(), &ann, &ProfileChange::default()).is_err());
    let write = server.set_profile(actor(), &ann, &ProfileChange::default()).unwrap_err();
    assert_eq!(write.code().as_str(), "store_unavailable");
    assert!(find(&server, &used.key).unwrap(), "a key that was used before");
    assert!(find(&server, &unused.key).is_err(), "a key that is not in memory");
    assert_eq!(call().unwrap()["TOKEN"].as_str(), "value");
    assert!(server.secrets_for_call(&ann, skill, &["OTHER".to_owned()]).is_err());
    wait_until(|| find(&impatient, &used.key).is_err());

    // What happens meanwhile is seen when the database is back.
    direct.revoke_keys(actor(), KeySelector::Id(&used.row.id())).unwrap();
    proxy.resume();
    wait_until(|| find(&server, &used.key).is_ok_and(|found| !found));
    wait_until(|| find(&server, &unused.key).is_ok_and(|found| found));
    wait_until(|| find(&impatient, &unused.key).is_ok_and(|found| found));
    server.set_profile(actor(), &ann, &ProfileChange::default()).unwrap();
}

/// Vault through a proxy, with its connection to the database.
fn open_through(proxy: &TestProxy) -> (Vault, Arc<Database>) {
    let backend = PostgresBackend::open(&proxy.url, None).unwrap();
    let database = Arc::clone(&backend.database);
    (Vault::on(Box::new(backend), Some(master(MASTER, None))), database)
}

/// Cuts a proxy, and waits until its vault knows.
fn cut(proxy: &TestProxy, database: &Database) {
    proxy.cut();
    wait_until(|| database.contact.failure().is_some());
}

/// Resumes a proxy, and waits until its vault has read the changes.
fn resume(proxy: &TestProxy, database: &Database) {
    proxy.resume();
    wait_until(|| database.contact.failure().is_none());
}

#[test]
fn revoked_grants_and_removed_secrets_are_not_used_from_memory() {
    type Change = fn(&Vault, &Owner, &SkillId, &SecretName);
    let changes: [(&str, Change); 3] = [
        ("revoked grant", |vault, ann, echo, name| {
            assert!(vault.revoke_grant(actor(), ann, echo, name).unwrap());
        }),
        ("removed secret", |vault, ann, _, name| {
            assert!(vault.remove_secret(actor(), ann, None, name).unwrap());
        }),
        ("new value", |vault, ann, _, name| {
            vault.set_secret(actor(), ann, None, name, "new").unwrap();
        }),
    ];
    let (ann, echo, name): (_, SkillId, SecretName) =
        (owner("ann"), "echo".parse().unwrap(), "TOKEN".parse().unwrap());
    let origin = Some("https://api.example");
    let skill = CalledSkill { tier: Tier::Market, id: &echo, origin };
    for (change, apply) in changes {
        for is_own in [true, false] {
            let site = TestSite::postgres();
            let proxy = TestProxy::start(schema(&site));
            let (direct, (server, database)) = (site.vault(), open_through(&proxy));
            let call = || server.secrets_for_call(&ann, skill, &["TOKEN".to_owned()]);
            direct.set_secret(actor(), &ann, None, &name, "old").unwrap();
            direct.grant_secret(actor(), &ann, &echo, origin, &name).unwrap();
            let marker = direct.create_key(actor(), &NewKey::for_owner(&ann)).unwrap();
            assert!(server.find_key(&marker.key, NOW).unwrap().is_some());
            assert_eq!(call().unwrap()["TOKEN"].as_str(), "old");
            direct.record(actor(), "skill.put", "other").unwrap();
            cut(&proxy, &database);
            assert_eq!(call().unwrap()["TOKEN"].as_str(), "old", "from memory");
            resume(&proxy, &database);
            if is_own {
                apply(&server, &ann, &echo, &name);
            } else {
                apply(&direct, &ann, &echo, &name);
                // The server knows of a change after this one.
                direct.revoke_keys(actor(), KeySelector::Key(&marker.key)).unwrap();
                wait_until(|| server.find_key(&marker.key, NOW).unwrap().is_none());
            }
            cut(&proxy, &database);
            let failed = call().unwrap_err();
            assert!(failed.is_unavailable(), "{change}, own {is_own}: {failed}");
        }
    }
}

#[test]
fn keys_are_looked_up_again_when_the_database_lost_commits() {
    let site = TestSite::postgres();
    let (server, other) = (site.vault(), site.vault());
    let ann = owner("ann");
    let kept = server.create_key(actor(), &NewKey::for_owner(&ann)).unwrap();
    let lost = server.create_key(actor(), &NewKey::for_owner(&ann)).unwrap();
    for vault in [&server, &other] {
        for key in [&lost.key, &kept.key] {
            assert!(vault.find_key(key, NOW).unwrap().is_some());
        }
    }
    // Both have followed the changes so far.
    let change = ProfileChange { plan: Some(Plan::Pro), ..ProfileChange::default() };
    server.set_profile(actor(), &ann, &change).unwrap();
    for vault in [&server, &other] {
        let plan = || vault.find_key(&lost.key, NOW).unwrap().map(|key| key.plan);
        wait_until(|| plan() == Some(Plan::Pro));
    }
    // The revision of the lost change is given out again at once, to the end of the other key.
    let again = "ALTER TABLE vault_audit DISABLE TRIGGER USER;
        DELETE FROM vault_key WHERE number = (SELECT max(number) FROM vault_key);
        UPDATE vault_key SET revoked_at = 1, revision = (SELECT revision FROM vault_state);
        UPDATE vault_audit SET at = at + 1 WHERE number = (SELECT max(number) FROM vault_audit);
        ALTER TABLE vault_audit ENABLE TRIGGER USER";
    schema(&site).execute(again).unwrap();
    for vault in [&server, &other] {
        for key in [&lost.key, &kept.key] {
            wait_until(|| vault.find_key(key, NOW).unwrap().is_none());
        }
    }
}

#[test]
fn keys_are_accepted_from_memory_when_the_database_restarts_and_is_lost_again() {
    let site = TestSite::postgres();
    let proxy = TestProxy::start(schema(&site));
    let direct = site.vault();
    let ann = owner("ann");
    let create = || direct.create_key(actor(), &NewKey::for_owner(&ann)).unwrap();
    let [used, revoked, removed, unused] = [create(), create(), create(), create()];
    let (server, database) = open_through(&proxy);
    for key in [&used, &revoked, &removed] {
        assert!(server.find_key(&key.key, NOW).unwrap().is_some());
    }
    let server = Arc::new(server);
    let keys = VaultKeyDirectory::new(Arc::clone(&server), AdminSecrets::default());
    let is_active = |key: &CreatedKey| {
        keys.is_active(&Caller::User(User { owner: ann.clone(), key: key.row.hash }))
    };
    cut(&proxy, &database);
    // It lost a commit, and gave its revision out again.
    let restart = "ALTER TABLE vault_audit DISABLE TRIGGER USER;
        UPDATE vault_audit SET at = at + 1 WHERE number = (SELECT max(number) FROM vault_audit);
        ALTER TABLE vault_audit ENABLE TRIGGER USER;
        UPDATE vault_state SET revision = revision - 1";
    schema(&site).execute(restart).unwrap();
    direct.revoke_keys(actor(), KeySelector::Key(&revoked.key)).unwrap();
    for _ in 0..2 {
        resume(&proxy, &database);
        cut(&proxy, &database);
        assert!(server.find_key(&used.key, NOW).unwrap().is_some(), "used before");
        assert!(server.find_key(&revoked.key, NOW).is_err(), "revoked meanwhile");
        assert!(server.find_key(&unused.key, NOW).is_err(), "never used");
        assert!(is_active(&used) && !is_active(&revoked));
        assert!(server.cached_plan(&used.row.hash).is_some());
    }
    // While the database can be reached, it is asked.
    schema(&site).execute("DELETE FROM vault_key WHERE number = 3").unwrap();
    resume(&proxy, &database);
    wait_until(|| server.find_key(&removed.key, NOW).is_ok_and(|found| found.is_none()));
    cut(&proxy, &database);
    assert!(server.find_key(&removed.key, NOW).is_err());
}

#[test]
fn a_killed_connection_is_replaced() {
    let site = TestSite::postgres();
    let vault = site.vault();
    let ann = owner("ann");
    let name = schema(&site).url.schema().to_owned();
    let kill = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_class c ON c.oid = relation
         JOIN pg_namespace n ON n.oid = relnamespace
         WHERE nspname = '{name}' AND pid <> pg_backend_pid()"
    );
    // The connection is killed inside a transaction, before its commit.
    let failed = vault.apply_account_change_with(
        actor(),
        &AccountChange {
            profile: ProfileChange { plan: Some(Plan::Pro), ..ProfileChange::default() },
            ..AccountChange::new(&ann)
        },
        || schema(&site).execute(&kill),
    );
    assert!(failed.is_err(), "{failed:?}");
    wait_until(|| vault.profile(&ann).is_ok());
    assert_eq!(vault.profile(&ann).unwrap(), None, "nothing was written");
    wait_until(|| vault.create_key(actor(), &NewKey::for_owner(&ann)).is_ok());
}

#[test]
fn a_server_that_hangs_blocks_the_others_for_a_time_only() {
    let site = TestSite::postgres();
    let (hung, other) = (site.vault(), site.vault());
    let ann = owner("ann");
    let change = pro_account(&ann);
    let failed = hung.apply_account_change_with(actor(), &change, || {
        // The transaction is open meanwhile.
        other.record(actor(), "a", "b")
    });
    assert!(failed.is_err(), "its transaction was ended: {failed:?}");
    assert_eq!(other.profile(&ann).unwrap(), None);
    assert_eq!(other.audit(0, 10).unwrap().len(), 1);
    let reader = std::thread::scope(|scope| {
        scope.spawn(|| hung.find_key("us-unknown", NOW)).join().unwrap()
    });
    assert!(reader.unwrap().is_none(), "its lookups go on");
    hung.apply_account_change(actor(), &change).unwrap();
}

#[test]
fn a_server_may_wait_for_the_store_for_longer_than_others_may_be_silent() {
    let site = TestSite::postgres();
    let vault = site.vault();
    let ann = owner("ann");
    let change = pro_account(&ann);
    let silence = PoolConfig::default().idle_timeout + Duration::from_secs(1);
    let done = vault.apply_account_change_with(actor(), &change, || {
        thread::sleep(silence);
        Ok::<_, ()>(())
    });
    assert!(done.is_ok(), "{done:?}");
    assert!(vault.profile(&ann).unwrap().is_some());
}

/// Changes an account on a connection that breaks after the commit, and returns the result. `meanwhile` runs after the
/// commit and before the server reaches the database again.
fn change_with_broken_commit(
    site: &TestSite,
    meanwhile: impl FnOnce(&Vault),
) -> Result<(), VaultError> {
    let (proxy, direct) = (TestProxy::start(schema(site)), site.vault());
    let server = Vault::open_postgres(&proxy.url, None, None).unwrap();
    let ann = owner("ann");
    proxy.cut_after_commit();
    thread::scope(|scope| {
        let change = scope.spawn(|| server.apply_account_change(actor(), &pro_account(&ann)));
        wait_until(|| direct.profile(&ann).unwrap().is_some());
        meanwhile(&direct);
        proxy.resume();
        change.join().unwrap()
    })
}

#[test]
fn a_commit_whose_answer_was_lost_is_found_though_others_commit_after_it() {
    let site = TestSite::postgres();
    let changed = change_with_broken_commit(&site, |other| {
        other.record(actor(), "a", "b").unwrap();
    });
    assert!(changed.is_ok(), "{changed:?}");
}

#[test]
fn a_commit_that_the_database_lost_is_not_acknowledged() {
    let site = TestSite::postgres();
    let changed = change_with_broken_commit(&site, |other| {
        // As a crash before the commit reached the disk. The numbers of transactions belong to others then.
        schema(&site).execute("DELETE FROM vault_profile; DELETE FROM vault_commit").unwrap();
        other.record(actor(), "a", "b").unwrap();
    });
    let failure = changed.unwrap_err().server_failure();
    assert_eq!(failure, Some(ServerFailure::Unavailable), "nothing was written");
}

#[test]
fn a_commit_that_does_not_arrive_is_waited_out() {
    let site = TestSite::postgres();
    let (proxy, direct) = (TestProxy::start(schema(&site)), site.vault());
    let server = Vault::open_postgres(&proxy.url, None, None).unwrap();
    let ann = owner("ann");
    proxy.swallow_commit();
    // The database holds the transaction open until its client has been silent for too long.
    let failed = server.apply_account_change(actor(), &pro_account(&ann)).unwrap_err();
    assert_eq!(failed.server_failure(), Some(ServerFailure::Unavailable), "{failed}");
    assert_eq!(direct.profile(&ann).unwrap(), None);
    server.apply_account_change(actor(), &pro_account(&ann)).unwrap();
    assert!(direct.profile(&ann).unwrap().is_some());
}

#[test]
fn ids_of_old_transactions_are_removed() {
    let site = TestSite::postgres();
    drop(site.vault());
    let old = "INSERT INTO vault_commit (id, at) VALUES ('old', now() - interval '25 hours'),
                                                        ('new', now() - interval '23 hours')";
    schema(&site).execute(old).unwrap();
    let backend = PostgresBackend::open(&schema(&site).url, None).unwrap();
    let database = Arc::clone(&backend.database);
    let count = || {
        let sql = "SELECT count(*) FROM vault_commit";
        database.quick(|session| column::<i64>(&session.query_one(sql, &[])?, 0)).unwrap()
    };
    assert_eq!(count(), 2);
    Vault::on(Box::new(backend), None).record(actor(), "a", "b").unwrap();
    assert_eq!(count(), 2, "the new one, and that of the change");
}

#[test]
fn a_vault_of_an_older_schema_is_migrated() {
    let site = TestSite::postgres();
    let key = site.vault().create_key(actor(), &NewKey::for_owner(&owner("ann"))).unwrap();
    let older = "DROP TABLE vault_commit;
                 UPDATE schema_version SET version = 1 WHERE component = 'vault'";
    schema(&site).execute(older).unwrap();
    let vault = site.vault();
    assert!(vault.find_key(&key.key, NOW).unwrap().is_some());
    vault.record(actor(), "a", "b").unwrap();
}

#[test]
fn a_database_that_refuses_connections_is_away() {
    let site = TestSite::postgres();
    let proxy = TestProxy::start(schema(&site));
    let server = Vault::open_postgres(&proxy.url, None, None).unwrap();
    let ann = owner("ann");
    let new = NewKey::for_owner(&ann);
    let (used, unused) = (
        server.create_key(actor(), &new).unwrap().key,
        server.create_key(actor(), &new).unwrap().key,
    );
    assert!(server.find_key(&used, NOW).unwrap().is_some());
    proxy.refuse();
    // Each check is refused.
    wait_until(|| proxy.refused() >= 4);
    for _ in 0..3 {
        assert!(server.find_key(&used, NOW).unwrap().is_some(), "accepted from memory");
        let failed = server.find_key(&unused, NOW).unwrap_err();
        assert_eq!(failed.code().as_str(), "store_unavailable", "{failed}");
        let seen = proxy.refused();
        wait_until(|| proxy.refused() > seen);
    }
    proxy.resume();
    wait_until(|| server.find_key(&unused, NOW).is_ok_and(|found| found.is_some()));
}

#[test]
fn exactly_the_limit_passes_over_all_servers() {
    let site = TestSite::postgres();
    let servers: Vec<RateLimits> = (0..3)
        .map(|_| RateLimits::open(PlanLimits::default(), &site.vault(), NOW).unwrap())
        .collect();
    // The vault of a limiter may be closed before it: the counters have connections of their own.
    let hash = Digest::of(b"k");
    let passed = AtomicU32::new(0);
    thread::scope(|scope| {
        for server in &servers {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let decision = wait(server.take(&hash, Plan::Pro, NOW));
                        assert_eq!(decision.limit, 300);
                        passed.fetch_add(u32::from(decision.allowed), Ordering::Relaxed);
                    }
                });
            }
        }
    });
    assert_eq!(passed.into_inner(), 300, "of 600");
    for server in &servers {
        let denied = wait(server.take(&hash, Plan::Pro, NOW));
        assert!(!denied.allowed && denied.remaining == 0 && denied.retry_after.is_some());
        let raised = wait(server.take(&hash, Plan::Scale, NOW));
        assert!(raised.allowed, "a larger plan counts at once");
        let next = Timestamp::from_micros(NOW.as_micros() + 60_000_000);
        assert!(wait(server.take(&hash, Plan::Pro, next)).allowed, "the next minute");
    }
}

#[test]
fn one_server_may_use_what_others_left() {
    let site = TestSite::postgres();
    let vault = site.vault();
    let open = || RateLimits::open(PlanLimits::default(), &vault, NOW).unwrap();
    let (one, other) = (open(), open());
    let hash = Digest::of(b"k");
    assert_eq!(wait(one.take(&hash, Plan::Free, NOW)).remaining, 29);
    let allowed = (0..40).filter(|_| wait(other.take(&hash, Plan::Free, NOW)).allowed).count();
    assert_eq!(allowed, 29, "nothing is reserved for the first");
    assert!(!wait(one.take(&hash, Plan::Free, NOW)).allowed);
    one.save(&vault, NOW).unwrap();
    assert_eq!(vault.windows(NOW).unwrap()[0].used, 30, "shared counters are not replaced");
}

#[test]
fn uses_are_counted_locally_while_the_database_is_away_and_added_after() {
    let site = TestSite::postgres();
    let proxy = TestProxy::start(schema(&site));
    let direct = site.vault();
    let backend = PostgresBackend::open(&proxy.url, None).unwrap();
    let database = Arc::clone(&backend.database);
    let vault = Vault::on(Box::new(backend), None);
    let limits = RateLimits::open(PlanLimits::default(), &vault, NOW).unwrap();
    let hash = Digest::of(b"k");
    let take = || wait(limits.take(&hash, Plan::Free, NOW));
    assert_eq!(take().remaining, 29);
    proxy.cut();
    // From then on no statement is sent, whose connection could break after it counted.
    wait_until(|| database.contact.failure().is_some());
    assert_eq!((take().remaining, take().remaining), (28, 27), "on top of the last count");
    assert_eq!(direct.windows(NOW).unwrap()[0].used, 1);
    proxy.resume();
    wait_until(|| database.contact.failure().is_none());
    assert_eq!(take().remaining, 26);
    assert_eq!(direct.windows(NOW).unwrap()[0].used, 4, "the uses meanwhile were added");
}

#[test]
fn a_revocation_that_is_not_stored_fails_and_leaves_the_key_active_on_all_servers() {
    let site = TestSite::postgres();
    let (one, other) = (site.vault(), site.vault());
    let key = one.create_key(actor(), &NewKey::for_owner(&owner("ann"))).unwrap();
    one.backend.set_read_only(true);
    let failed = one.revoke_keys(actor(), KeySelector::Id(&key.row.id())).unwrap_err();
    assert_eq!(failed.code().as_str(), "store_unavailable", "{failed}");
    for vault in [&one, &other] {
        assert!(vault.find_key(&key.key, NOW).unwrap().is_some());
    }
    one.backend.set_read_only(false);
    assert_eq!(one.revoke_keys(actor(), KeySelector::Id(&key.row.id())).unwrap().keys.len(), 1);
    wait_until(|| other.find_key(&key.key, NOW).unwrap().is_none());
}
