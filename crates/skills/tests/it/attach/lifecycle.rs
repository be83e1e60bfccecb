//! Engine start, loss and restart.

use serde_json::json;

use skills_store::MemoryStore;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::support::{
    attached::{
        AttachedWorker, next_event, register_event, subscriber, unregister_event,
        wait_until_serving,
    },
    engine::{EngineOptions, TestEngine, delete, record, set, state},
    ids, read, register,
    wait::eventually,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_may_start_before_the_engine() {
    let mut engine = TestEngine::reserve(EngineOptions::default(), Arc::new(MemoryStore::new()));
    let attached = AttachedWorker::spawn(&engine.url(), "");
    attached.says("no connection to the engine").await;
    engine.run().await;
    let worker = engine.worker().await;
    wait_until_serving(&worker).await;
    register(&worker, "a", "x").await;
    assert_eq!(ids(&worker).await, ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_content_is_read_once_at_start_up() {
    let engine =
        TestEngine::with_options(EngineOptions { stateless: true, ..EngineOptions::default() })
            .await;
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
    let _attached = AttachedWorker::start(&engine).await;
    // A full comparison would run before this.
    register(&engine.worker().await, "a", "x").await;
    assert_eq!(pages.load(Ordering::SeqCst), 2, "one page of each scope");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_restored_after_an_engine_restart() {
    let mut engine = TestEngine::start().await;
    let _attached = AttachedWorker::start(&engine).await;
    let worker = engine.worker().await;
    register(&worker, "a", "# A").await;
    register(&worker, "b", "# B").await;
    let before = worker.ok("skills::list", json!({})).await;
    drop(worker);
    engine.restart().await;
    // Subscribes before the registry reconnects: the engine keeps the subscription for it.
    let worker = engine.worker().await;
    let mut received = worker.collect("me::heard").await;
    worker.subscribe("skills::on-change", "me::heard", json!({})).await;
    wait_until_serving(&worker).await;
    assert_eq!(worker.ok("skills::list", json!({})).await, before);
    assert_eq!(read(&worker, "iii://a").await, "# A");
    register(&worker, "c", "x").await;
    assert_eq!(next_event(&mut received).await, register_event("c"), "nothing is announced again");
    set(&worker, "skills", "d", &record("d", "x")).await;
    assert_eq!(next_event(&mut received).await, register_event("d"), "the state is followed again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_during_a_disconnect_notify_after_reconnecting() {
    let store = Arc::new(MemoryStore::new());
    let engine = TestEngine::with_store(EngineOptions::default(), store).await;
    let proxy = crate::support::proxy::Proxy::start(engine.address).await;
    let _attached = AttachedWorker::spawn(&proxy.url(), "");
    let worker = engine.worker().await;
    wait_until_serving(&worker).await;
    for id in ["changed", "removed", "same"] {
        register(&worker, id, "x").await;
    }
    let (_subscriber, mut received) = subscriber(&engine).await;
    proxy.open(false);
    proxy.cut();
    crate::support::attached::wait_until_not_serving(&worker).await;
    set(&worker, "skills", "changed", &record("changed", "y")).await;
    set(&worker, "skills", "changed", &record("changed", "z")).await;
    set(&worker, "skills", "new", &record("new", "x")).await;
    set(&worker, "skills", "brief", &record("brief", "x")).await;
    delete(&worker, "skills", "brief").await;
    delete(&worker, "skills", "removed").await;
    proxy.open(true);
    let mut changes = BTreeSet::new();
    for _ in 0..3 {
        changes.insert(next_event(&mut received).await.to_string());
    }
    let expected = [register_event("changed"), register_event("new"), unregister_event("removed")];
    assert_eq!(changes, expected.iter().map(ToString::to_string).collect());
    assert_eq!(ids(&worker).await, ["changed", "new", "same"]);
    assert_eq!(read(&worker, "iii://changed").await, "z");
    register(&worker, "last", "x").await;
    assert_eq!(next_event(&mut received).await, register_event("last"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_lost_its_state_empties_the_catalog() {
    let mut engine = TestEngine::start().await;
    let _attached = AttachedWorker::start(&engine).await;
    let worker = engine.worker().await;
    for id in ["a", "b", "c"] {
        register(&worker, id, "x").await;
    }
    drop(worker);
    // The subscriber reconnects as SDKs do, with the same subscription.
    let old = engine.worker().await;
    old.collect("me::heard").await;
    old.subscribe_as("mine", "skills::on-change", "me::heard", json!({})).await;
    crate::support::attached::wait_until_bound(&old, 1).await;
    engine.restart_empty().await;
    let worker = engine.worker().await;
    let mut received = worker.collect("me::heard").await;
    worker.subscribe_as("mine", "skills::on-change", "me::heard", json!({})).await;
    let mut changes = BTreeSet::new();
    for _ in 0..3 {
        changes.insert(next_event(&mut received).await.to_string());
    }
    let expected = ["a", "b", "c"].map(|id| unregister_event(id).to_string());
    assert_eq!(changes, expected.into_iter().collect());
    assert!(ids(&worker).await.is_empty());
    register(&worker, "d", "x").await;
    assert_eq!(next_event(&mut received).await, register_event("d"));
    assert_eq!(state(&worker, "skills").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_restarts_leave_one_subscription() {
    let mut engine = TestEngine::start().await;
    let mut attached = AttachedWorker::start(&engine).await;
    let mut number = 0;
    for _ in 0..3 {
        engine.restart().await;
        let worker = engine.worker().await;
        let mut received = worker.collect("me::heard").await;
        worker.subscribe_as("mine", "skills::on-change", "me::heard", json!({})).await;
        wait_until_serving(&worker).await;
        for _ in 0..5 {
            number += 1;
            register(&worker, &format!("s{number}"), "x").await;
            assert_eq!(next_event(&mut received).await, register_event(&format!("s{number}")));
        }
        eventually("all are listed", async || ids(&worker).await.len() == number).await;
        assert!(received.try_recv().is_err());
    }
    assert!(attached.is_running());
}
