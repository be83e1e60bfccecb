//! The engine comes, goes and comes back.

use serde_json::json;

use crate::{
    attached::{Attached, eventually, hears, registered, serves, subscriber, unregistered},
    engine::{Engine, Kind, delete, record, set, state},
    support::{ids, read, register},
};
use skills_store::MemoryStore;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_may_start_before_the_engine() {
    let mut engine = Engine::planned(Kind::default(), Arc::new(MemoryStore::new())).await;
    let attached = Attached::spawn(&engine.url(), "");
    attached.says("no connection to the engine").await;
    engine.run().await;
    let worker = engine.worker().await;
    serves(&worker).await;
    register(&worker, "a", "x").await;
    assert_eq!(ids(&worker).await, ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_read_once_at_the_start() {
    let engine = Engine::of(Kind { stateless: true, ..Kind::default() }).await;
    let state = engine.worker().await;
    let pages = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&pages);
    let page = move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Some(Ok(json!({ "entries": [], "done": true })))
    };
    state.serve("state::list_entries", page).await;
    for function in ["state::get", "state::set"] {
        state.serve(function, |_| Some(Ok(json!(null)))).await;
    }
    let _attached = Attached::to(&engine).await;
    // A comparison of everything would be carried out before this.
    register(&engine.worker().await, "a", "x").await;
    assert_eq!(pages.load(Ordering::SeqCst), 2, "one page of each scope");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_engine_finds_everything_as_it_was() {
    let mut engine = Engine::start().await;
    let _attached = Attached::to(&engine).await;
    let worker = engine.worker().await;
    register(&worker, "a", "# A").await;
    register(&worker, "b", "# B").await;
    let before = worker.ok("skills::list", json!({})).await;
    drop(worker);
    engine.restart().await;
    // Subscribed before the registry is back: the engine keeps the subscription for it.
    let worker = engine.worker().await;
    let mut heard = worker.collect("me::heard").await;
    worker.subscribe("skills::on-change", "me::heard", json!({})).await;
    serves(&worker).await;
    assert_eq!(worker.ok("skills::list", json!({})).await, before);
    assert_eq!(read(&worker, "iii://a").await, "# A");
    register(&worker, "c", "x").await;
    assert_eq!(hears(&mut heard).await, registered("c"), "nothing is announced again");
    set(&worker, "skills", "d", &record("d", "x")).await;
    assert_eq!(hears(&mut heard).await, registered("d"), "the state is followed again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changed_while_there_was_no_connection_is_announced_afterwards() {
    let store = Arc::new(MemoryStore::new());
    let engine = Engine::on(Kind::default(), store).await;
    let proxy = crate::proxy::Proxy::before(engine.address).await;
    let _attached = Attached::spawn(&proxy.url(), "");
    let worker = engine.worker().await;
    serves(&worker).await;
    for id in ["changed", "removed", "same"] {
        register(&worker, id, "x").await;
    }
    let (_subscriber, mut heard) = subscriber(&engine).await;
    proxy.open(false);
    proxy.cut();
    crate::attached::serves_no_more(&worker).await;
    set(&worker, "skills", "changed", &record("changed", "y")).await;
    set(&worker, "skills", "changed", &record("changed", "z")).await;
    set(&worker, "skills", "new", &record("new", "x")).await;
    set(&worker, "skills", "brief", &record("brief", "x")).await;
    delete(&worker, "skills", "brief").await;
    delete(&worker, "skills", "removed").await;
    proxy.open(true);
    let mut changes = BTreeSet::new();
    for _ in 0..3 {
        changes.insert(hears(&mut heard).await.to_string());
    }
    let expected = [registered("changed"), registered("new"), unregistered("removed")];
    assert_eq!(changes, expected.iter().map(ToString::to_string).collect());
    assert_eq!(ids(&worker).await, ["changed", "new", "same"]);
    assert_eq!(read(&worker, "iii://changed").await, "z");
    register(&worker, "last", "x").await;
    assert_eq!(hears(&mut heard).await, registered("last"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_lost_its_state_empties_the_catalog() {
    let mut engine = Engine::start().await;
    let _attached = Attached::to(&engine).await;
    let worker = engine.worker().await;
    for id in ["a", "b", "c"] {
        register(&worker, id, "x").await;
    }
    drop(worker);
    // The subscriber comes back as SDKs do: with the same subscription.
    let old = engine.worker().await;
    old.collect("me::heard").await;
    old.subscribe_as("mine", "skills::on-change", "me::heard", json!({})).await;
    crate::attached::bound(&old, 1).await;
    engine.restart_empty().await;
    let worker = engine.worker().await;
    let mut heard = worker.collect("me::heard").await;
    worker.subscribe_as("mine", "skills::on-change", "me::heard", json!({})).await;
    let mut changes = BTreeSet::new();
    for _ in 0..3 {
        changes.insert(hears(&mut heard).await.to_string());
    }
    let expected = ["a", "b", "c"].map(|id| unregistered(id).to_string());
    assert_eq!(changes, expected.into_iter().collect());
    assert!(ids(&worker).await.is_empty());
    register(&worker, "d", "x").await;
    assert_eq!(hears(&mut heard).await, registered("d"));
    assert_eq!(state(&worker, "skills").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_restarts_leave_one_subscription() {
    let mut engine = Engine::start().await;
    let mut attached = Attached::to(&engine).await;
    let mut number = 0;
    for _ in 0..3 {
        engine.restart().await;
        let worker = engine.worker().await;
        let mut heard = worker.collect("me::heard").await;
        worker.subscribe_as("mine", "skills::on-change", "me::heard", json!({})).await;
        serves(&worker).await;
        for _ in 0..5 {
            number += 1;
            register(&worker, &format!("s{number}"), "x").await;
            assert_eq!(hears(&mut heard).await, registered(&format!("s{number}")));
        }
        eventually("all are listed", async || ids(&worker).await.len() == number).await;
        assert!(heard.try_recv().is_err());
    }
    assert!(attached.is_running());
}
