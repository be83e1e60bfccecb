//! Functions that several workers register.

use std::time::Duration;

use serde_json::{Value, json};
use skills_bus::{Bus as _, HubConfig};

use crate::test_hub::*;

async fn register(peer: &mut Peer, id: &str) -> Vec<Value> {
    peer.send(json!({"type": "registerfunction", "id": id})).await;
    peer.barrier().await
}

/// Calls `id` and checks that `server` receives the call.
async fn is_served_by(caller: &mut Peer, id: &str, server: &mut Peer) {
    caller.start_call("probe", id, json!({})).await;
    let invoke = server.expect("invokefunction").await;
    server.answer(&invoke, json!("here")).await;
    assert_eq!(caller.expect("invocationresult").await["result"], "here");
}

#[tokio::test]
async fn among_old_sdks_the_last_registration_wins_until_it_disconnects() {
    let test = TestHub::start().await;
    let mut first = test.sdk("rust", "0.11.3").await;
    let mut second = test.sdk("node", "0.22.1").await;
    let mut caller = test.peer().await;
    assert!(register(&mut first, "a::f").await.is_empty());
    is_served_by(&mut caller, "a::f", &mut first).await;
    assert!(register(&mut second, "a::f").await.is_empty());
    is_served_by(&mut caller, "a::f", &mut second).await;
    drop(second);
    until("the second has left", || test.hub.worker_count() == 2).await;
    is_served_by(&mut caller, "a::f", &mut first).await;
}

#[tokio::test]
async fn a_new_sdk_gets_an_error_for_a_taken_id() {
    let test = TestHub::start().await;
    let mut first = test.sdk("rust", "0.11.3").await;
    let mut second = test.sdk("rust", "0.25.0").await;
    let mut caller = test.peer().await;
    register(&mut first, "a::f").await;
    let messages = register(&mut second, "a::f").await;
    assert_eq!(
        messages,
        [
            json!({"type": "registrationrejected", "code": "FUNCTION_NAMESPACE_CONFLICT", "namespace": "default",
            "function_id": "a::f", "owner_worker_id": first.id})
        ]
    );
    is_served_by(&mut caller, "a::f", &mut first).await;
    drop(first);
    until("the first has left", || test.hub.worker_count() == 2).await;
    assert_eq!(caller.call_error("a::f", json!({})).await, "function_not_found");
    assert!(register(&mut second, "a::f").await.is_empty(), "now it is free");
    is_served_by(&mut caller, "a::f", &mut second).await;
}

#[tokio::test]
async fn a_worker_may_register_its_own_function_again() {
    let test = TestHub::start().await;
    let mut caller = test.peer().await;
    for version in ["0.11.3", "0.25.0"] {
        let mut worker = test.sdk("rust", version).await;
        let id = format!("a::{version}");
        register(&mut worker, &id).await;
        worker.send(json!({"type": "registerfunction", "id": id, "description": "second"})).await;
        assert!(worker.barrier().await.is_empty(), "{version}");
        is_served_by(&mut caller, &id, &mut worker).await;
        let info = caller.call("engine::functions::info", json!({"function_id": id})).await;
        assert_eq!(info["result"]["description"], "second", "{version}");
        worker.send(json!({"type": "unregisterfunction", "id": id})).await;
        worker.barrier().await;
        assert_eq!(caller.call_error(&id, json!({})).await, "function_not_found", "{version}");
    }
}

#[tokio::test]
async fn a_contested_id_waits_until_the_worker_identifies_itself() {
    let config = HubConfig { identify_timeout: Duration::from_secs(30), ..HubConfig::default() };
    let test = TestHub::with(config).await;
    let mut first = test.sdk("rust", "0.11.3").await;
    register(&mut first, "a::f").await;
    register(&mut first, "a::g").await;
    let mut caller = test.peer().await;

    let mut modern = test.peer().await;
    assert!(register(&mut modern, "a::f").await.is_empty());
    assert!(register(&mut modern, "a::free").await.is_empty());
    is_served_by(&mut caller, "a::f", &mut first).await;
    is_served_by(&mut caller, "a::free", &mut modern).await;
    modern
        .send(json!({"type": "invokefunction", "function_id": "engine::workers::register",
            "data": {"runtime": "rust", "version": "0.25.0"}, "action": {"type": "void"}}))
        .await;
    assert_eq!(modern.expect("registrationrejected").await["function_id"], "a::f");

    let mut old = test.peer().await;
    register(&mut old, "a::f").await;
    register(&mut old, "a::g").await;
    old.send(json!({"type": "unregisterfunction", "id": "a::g"})).await;
    old.identify(json!({"runtime": "rust", "version": "0.11.3"})).await;
    let start = std::time::Instant::now();
    loop {
        caller.start_call("probe", "a::f", json!({})).await;
        tokio::select! {
            invoke = old.recv() => { old.answer(&invoke, json!(1)).await; caller.recv().await; break }
            invoke = first.recv() => { first.answer(&invoke, json!(1)).await; caller.recv().await; }
        }
        assert!(start.elapsed() < DEADLINE);
    }
    is_served_by(&mut caller, "a::g", &mut first).await;
}

#[tokio::test]
async fn a_worker_that_never_identifies_itself_takes_over() {
    let config = HubConfig { identify_timeout: Duration::from_millis(30), ..HubConfig::default() };
    let test = TestHub::with(config).await;
    let mut first = test.worker(&["a::f"]).await;
    let mut second = test.peer().await;
    second.send(json!({"type": "registerfunction", "id": "a::f"})).await;
    let mut caller = test.peer().await;
    let start = std::time::Instant::now();
    loop {
        caller.start_call("probe", "a::f", json!({})).await;
        tokio::select! {
            invoke = second.recv() => { second.answer(&invoke, json!(1)).await; caller.recv().await; break }
            invoke = first.recv() => { first.answer(&invoke, json!(1)).await; caller.recv().await; }
        }
        assert!(start.elapsed() < DEADLINE);
    }
    assert!(second.barrier().await.is_empty());
}

#[tokio::test]
async fn workers_cannot_take_ids_of_the_hub_process_or_the_engine() {
    let test = TestHub::start().await;
    test.hub.register_function(spec("local::f"), echo());
    let mut old = test.sdk("rust", "0.11.3").await;
    let mut new = test.sdk("rust", "0.25.0").await;
    for id in ["local::f", "engine::functions::list", "engine::new"] {
        let messages = register(&mut old, id).await;
        assert_eq!(messages.len(), 1, "{id}");
        assert_eq!(messages[0]["type"], "error", "{id}");
        assert_eq!(messages[0]["error"]["code"], "FUNCTION_NAMESPACE_CONFLICT", "{id}");
        let messages = register(&mut new, id).await;
        assert_eq!(messages.len(), 1, "{id}");
        assert_eq!(messages[0]["type"], "registrationrejected", "{id}");
        assert_eq!(messages[0]["function_id"], id, "{id}");
        assert!(messages[0]["owner_worker_id"].is_string(), "{id}");
    }
    assert_eq!(old.call("local::f", json!("mine")).await["result"], "mine");
    // The hub process may take a worker's id.
    register(&mut old, "w::f").await;
    test.hub.register_function(spec("w::f"), echo());
    assert_eq!(new.call("w::f", json!("taken")).await["result"], "taken");
}

#[tokio::test]
async fn one_worker_can_register_ten_thousand_functions() {
    let test = TestHub::start().await;
    let mut worker = test.sdk("rust", "0.25.0").await;
    for n in 0..10_000 {
        worker
            .send(json!({"type": "registerfunction", "id": format!("many::f{n}"), "description": "one of many"}))
            .await;
    }
    assert!(worker.barrier().await.is_empty());
    let mut caller = test.sdk("rust", "0.25.0").await;
    let list = caller.call("engine::functions::list", json!({})).await;
    assert_eq!(list["result"]["functions"].as_array().unwrap().len(), 10_000);
    is_served_by(&mut caller, "many::f9999", &mut worker).await;
    drop(worker);
    until("the worker has left", || test.hub.worker_count() == 1).await;
    let list = caller.call("engine::functions::list", json!({})).await;
    assert_eq!(list["result"]["functions"], json!([]));
}

#[tokio::test]
async fn registrations_are_limited_in_number_and_in_bytes() {
    let config =
        HubConfig { max_registrations: 5, max_registration_bytes: 1000, ..HubConfig::default() };
    let test = TestHub::with(config).await;
    let mut worker = test.sdk("rust", "0.25.0").await;
    for n in 0..5 {
        assert!(register(&mut worker, &format!("f{n}")).await.is_empty());
    }
    let messages = register(&mut worker, "f5").await;
    assert_eq!(messages[0]["error"]["code"], "too_many_registrations");
    assert!(register(&mut worker, "f4").await.is_empty(), "renewing one needs no room");
    worker
        .send(
            json!({"type": "registertrigger", "id": "t", "trigger_type": "x", "function_id": "f0"}),
        )
        .await;
    assert_eq!(worker.expect("error").await["error"]["code"], "too_many_registrations");
    worker.send(json!({"type": "unregisterfunction", "id": "f0"})).await;
    worker
        .send(json!({"type": "registerfunction", "id": "big", "description": "x".repeat(1000)}))
        .await;
    assert_eq!(worker.expect("error").await["error"]["code"], "too_many_registrations");
    worker
        .send(json!({"type": "registerfunction", "id": "fits", "description": "x".repeat(900)}))
        .await;
    assert!(worker.barrier().await.is_empty());
    assert!(register(&mut test.sdk("rust", "0.25.0").await, "other").await.is_empty());
}
