//! What others write to the same scopes.

use serde_json::json;

use crate::{
    attached::{Attached, eventually, hears, registered, subscriber, unregistered},
    engine::{Engine, delete, record, set},
    support::{ids, read, register},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_others_are_announced_once_each_and_in_order() {
    let engine = Engine::start().await;
    let _attached = Attached::to(&engine).await;
    let (_subscriber, mut heard) = subscriber(&engine).await;
    let other = engine.worker().await;
    for number in 0..20 {
        set(&other, "skills", "a", &record("a", &format!("version {number}"))).await;
        assert_eq!(hears(&mut heard).await, registered("a"));
        assert_eq!(read(&other, "iii://a").await, format!("version {number}"));
    }
    delete(&other, "skills", "a").await;
    assert_eq!(hears(&mut heard).await, unregistered("a"));
    assert!(ids(&other).await.is_empty());
    // Nothing is there, and the engine says so all the same.
    delete(&other, "skills", "a").await;
    // The same again is no change.
    set(&other, "skills", "b", &record("b", "x")).await;
    set(&other, "skills", "b", &record("b", "x")).await;
    set(&other, "skills", "c", &record("c", "x")).await;
    assert_eq!(hears(&mut heard).await, registered("b"));
    assert_eq!(hears(&mut heard).await, registered("c"));
    assert!(heard.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_others_ends_where_the_state_does() {
    let engine = Engine::start().await;
    let _attached = Attached::to(&engine).await;
    let (_subscriber, mut heard) = subscriber(&engine).await;
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
        assert_eq!(hears(&mut heard).await, registered(id));
    }
    assert_eq!(ids(&other).await, ids_written);
    assert!(heard.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_writes_are_announced_once_though_the_state_tells_of_them_too() {
    let engine = Engine::start().await;
    let _attached = Attached::to(&engine).await;
    let (_subscriber, mut heard) = subscriber(&engine).await;
    let worker = engine.worker().await;
    let mut expected = Vec::new();
    for number in 0..40 {
        let id = format!("s{}", number % 3);
        if number % 2 == 0 {
            register(&worker, &id, &format!("{number}")).await;
        } else {
            set(&worker, "skills", &id, &record(&id, &format!("{number}"))).await;
        }
        expected.push(registered(&id));
        // A write of another is known when it is announced; before that, ours may overtake it.
        assert_eq!(hears(&mut heard).await, expected[number]);
    }
    register(&worker, "last", "x").await;
    assert_eq!(hears(&mut heard).await, registered("last"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_has_just_removed_is_gone_from_the_catalog_too() {
    let engine = Engine::start().await;
    let _attached = Attached::to(&engine).await;
    let worker = engine.worker().await;
    for round in 0..30 {
        register(&worker, "a", &format!("round {round}")).await;
        // Both at once: whoever is first, it is gone afterwards.
        let theirs = worker.start("state::delete", &json!({ "scope": "skills", "key": "a" }));
        let ours = worker.start("skills::unregister", &json!({ "id": "a" }));
        theirs.await.unwrap();
        ours.await.unwrap();
        eventually("the skill is gone", async || ids(&worker).await.is_empty()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_of_others_are_heard_of_as_well() {
    let engine = Engine::start().await;
    let _attached = Attached::to(&engine).await;
    let worker = engine.worker().await;
    let mut heard = worker.collect("me::prompts").await;
    worker.subscribe("prompts::on-change", "me::prompts", json!({})).await;
    crate::attached::bound(&worker, 1).await;
    let prompt = json!({ "name": "p", "description": "d", "function_id": "x::y" });
    set(&worker, "prompts", "p", &prompt).await;
    assert_eq!(hears(&mut heard).await, json!({ "op": "register", "name": "p" }));
    let list = worker.ok("prompts::list", json!({})).await;
    assert_eq!(list["prompts"][0]["name"], "p");
    delete(&worker, "prompts", "p").await;
    assert_eq!(hears(&mut heard).await, json!({ "op": "unregister", "name": "p" }));
}
