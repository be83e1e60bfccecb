//! External writes to the state scopes.

use serde_json::json;

use crate::support::{
    attached::{AttachedWorker, next_event, register_event, subscriber, unregister_event},
    engine::{TestEngine, delete, record, set},
    ids, read, register,
    wait::eventually,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn external_writes_notify_once_in_order() {
    let engine = TestEngine::start().await;
    let _attached = AttachedWorker::start(&engine).await;
    let (_subscriber, mut received) = subscriber(&engine).await;
    let other = engine.worker().await;
    for number in 0..20 {
        set(&other, "skills", "a", &record("a", &format!("version {number}"))).await;
        assert_eq!(next_event(&mut received).await, register_event("a"));
        assert_eq!(read(&other, "iii://a").await, format!("version {number}"));
    }
    delete(&other, "skills", "a").await;
    assert_eq!(next_event(&mut received).await, unregister_event("a"));
    assert!(ids(&other).await.is_empty());
    // The key is absent, and the engine sends an event all the same.
    delete(&other, "skills", "a").await;
    // Writing the same value again is no change.
    set(&other, "skills", "b", &record("b", "x")).await;
    set(&other, "skills", "b", &record("b", "x")).await;
    set(&other, "skills", "c", &record("c", "x")).await;
    assert_eq!(next_event(&mut received).await, register_event("b"));
    assert_eq!(next_event(&mut received).await, register_event("c"));
    assert!(received.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_external_writes_converges_to_the_state() {
    let engine = TestEngine::start().await;
    let _attached = AttachedWorker::start(&engine).await;
    let (_subscriber, mut received) = subscriber(&engine).await;
    let other = engine.worker().await;
    let ids_written: Vec<_> = (0..100).map(|number| format!("s{number:02}")).collect();
    let mut writes = Vec::new();
    for id in &ids_written {
        let value = json!({ "scope": "skills", "key": id, "value": record(id, "x") });
        writes.push(other.start("state::set", &value));
    }
    for write in writes {
        write.await.unwrap();
    }
    for id in &ids_written {
        assert_eq!(next_event(&mut received).await, register_event(id));
    }
    assert_eq!(ids(&other).await, ids_written);
    assert!(received.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_writes_notify_once_despite_their_state_events() {
    let engine = TestEngine::start().await;
    let _attached = AttachedWorker::start(&engine).await;
    let (_subscriber, mut received) = subscriber(&engine).await;
    let worker = engine.worker().await;
    let mut expected = Vec::new();
    for number in 0..40 {
        let id = format!("s{}", number % 3);
        if number % 2 == 0 {
            register(&worker, &id, &format!("{number}")).await;
        } else {
            set(&worker, "skills", &id, &record(&id, &format!("{number}"))).await;
        }
        expected.push(register_event(&id));
        // Wait until the external write has notified; before that, an own write may overtake it.
        assert_eq!(next_event(&mut received).await, expected[number]);
    }
    register(&worker, "last", "x").await;
    assert_eq!(next_event(&mut received).await, register_event("last"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_external_removal_disappears_from_the_catalog() {
    let engine = TestEngine::start().await;
    let _attached = AttachedWorker::start(&engine).await;
    let worker = engine.worker().await;
    for round in 0..30 {
        register(&worker, "a", &format!("round {round}")).await;
        // Concurrent removals: the skill is gone afterwards in any order.
        let theirs = worker.start("state::delete", &json!({ "scope": "skills", "key": "a" }));
        let ours = worker.start("skills::unregister", &json!({ "id": "a" }));
        theirs.await.unwrap();
        ours.await.unwrap();
        eventually("the skill is gone", async || ids(&worker).await.is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn external_prompt_writes_notify_too() {
    let engine = TestEngine::start().await;
    let _attached = AttachedWorker::start(&engine).await;
    let worker = engine.worker().await;
    let mut received = worker.collect("me::prompts").await;
    worker.subscribe("prompts::on-change", "me::prompts", json!({})).await;
    crate::support::attached::wait_until_bound(&worker, 1).await;
    let prompt = json!({ "name": "p", "description": "d", "function_id": "x::y" });
    set(&worker, "prompts", "p", &prompt).await;
    assert_eq!(next_event(&mut received).await, json!({ "op": "register", "name": "p" }));
    let list = worker.ok("prompts::list", json!({})).await;
    assert_eq!(list["prompts"][0]["name"], "p");
    delete(&worker, "prompts", "p").await;
    assert_eq!(next_event(&mut received).await, json!({ "op": "unregister", "name": "p" }));
}
