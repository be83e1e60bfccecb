//! Trigger types and bindings between workers.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use skills_bus::{Bus as _, CallError, TriggerBinding, TriggerProvider, TriggerTypeSpec};

use crate::test_hub::*;

async fn provide(peer: &mut Peer, id: &str) {
    peer.send(json!({"type": "registertriggertype", "id": id, "description": "d"})).await;
}

async fn bind(peer: &mut Peer, id: &str, kind: &str) {
    peer.send(
        json!({"type": "registertrigger", "id": id, "trigger_type": kind, "function_id": "a::f",
        "config": {"n": id}}),
    )
    .await;
}

#[tokio::test]
async fn a_binding_is_added_to_and_removed_from_its_provider() {
    let test = TestHub::start().await;
    let mut provider = test.peer().await;
    provide(&mut provider, "my::type").await;
    provider.barrier().await;
    let mut subscriber = test.peer().await;
    subscriber
        .send(json!({"type": "registertrigger", "message_type": "x", "id": "t1", "trigger_type": "my::type",
            "function_id": "a::f", "config": {"deep": [1]}, "metadata": {"m": 1}, "namespace": "default"}))
        .await;
    assert_eq!(
        provider.recv().await,
        json!({"type": "registertrigger", "id": "t1", "trigger_type": "my::type", "function_id": "a::f",
            "config": {"deep": [1]}, "metadata": {"m": 1}})
    );
    // The subscriber gets no acknowledgement of success.
    provider
        .send(json!({"type": "triggerregistrationresult", "id": "t1", "trigger_type": "my::type", "function_id": "a::f"}))
        .await;
    provider.barrier().await;
    assert!(subscriber.barrier().await.is_empty());

    subscriber.send(json!({"type": "unregistertrigger", "id": "t1"})).await;
    assert_eq!(
        provider.recv().await,
        json!({"type": "unregistertrigger", "id": "t1", "trigger_type": "my::type"})
    );
    // Absent config becomes null, because Rust providers drop the frame otherwise.
    subscriber.send(json!({"type": "registertrigger", "id": "t2", "trigger_type": "my::type", "function_id": "a::f"})).await;
    assert_eq!(provider.recv().await.get("config"), Some(&Value::Null));
    drop(subscriber);
    let gone = provider.expect("unregistertrigger").await;
    assert_eq!(gone["id"], "t2");
}

#[tokio::test]
async fn bindings_wait_for_a_provider_and_are_bound_in_order() {
    let test = TestHub::start().await;
    let mut subscriber = test.peer().await;
    let mut other = test.peer().await;
    for n in 0..5 {
        bind(&mut subscriber, &format!("s{n}"), "late::type").await;
        subscriber.barrier().await;
        bind(&mut other, &format!("o{n}"), "late::type").await;
        other.barrier().await;
    }
    bind(&mut subscriber, "else", "other::type").await;
    subscriber.send(json!({"type": "unregistertrigger", "id": "s1"})).await;
    subscriber.barrier().await;
    let mut provider = test.peer().await;
    provide(&mut provider, "late::type").await;
    let brought: Vec<Value> =
        provider.barrier().await.into_iter().map(|frame| frame["id"].clone()).collect();
    assert_eq!(json!(brought), json!(["s0", "o0", "o1", "s2", "o2", "s3", "o3", "s4", "o4"]));
    // SDK 0.11 repeats registrations made before it connected.
    provide(&mut provider, "late::type").await;
    assert!(provider.barrier().await.is_empty());
}

#[tokio::test]
async fn a_second_provider_takes_over_until_it_disconnects() {
    let test = TestHub::start().await;
    let mut subscriber = test.peer().await;
    let mut first = test.peer().await;
    let mut second = test.peer().await;
    provide(&mut first, "my::type").await;
    first.barrier().await;
    bind(&mut subscriber, "t1", "my::type").await;
    first.expect("registertrigger").await;

    provide(&mut second, "my::type").await;
    assert_eq!(second.expect("registertrigger").await["id"], "t1");
    assert_eq!(first.expect("unregistertrigger").await["id"], "t1");
    // Answers of the former provider are ignored.
    first
        .send(json!({"type": "triggerregistrationresult", "id": "t1", "trigger_type": "my::type",
            "function_id": "a::f", "error": {"code": "X", "message": "x"}}))
        .await;
    first.barrier().await;
    assert!(subscriber.barrier().await.is_empty());

    drop(second);
    assert_eq!(first.expect("registertrigger").await["id"], "t1");
    first.send(json!({"type": "unregistertriggertype", "id": "my::type"})).await;
    first.barrier().await;
    // The binding is parked, so no provider gets a call for its removal.
    bind(&mut subscriber, "t2", "my::type").await;
    subscriber.barrier().await;
    assert!(first.barrier().await.is_empty());
    provide(&mut first, "my::type").await;
    let brought = first.barrier().await;
    assert_eq!(brought.len(), 2, "{brought:?}");
}

#[tokio::test]
async fn a_reconnected_provider_gets_its_bindings() {
    let test = TestHub::start().await;
    let mut subscriber = test.peer().await;
    bind(&mut subscriber, "t1", "my::type").await;
    subscriber.barrier().await;
    for _ in 0..3 {
        let mut provider = test.peer().await;
        provide(&mut provider, "my::type").await;
        assert_eq!(provider.expect("registertrigger").await["id"], "t1");
        drop(provider);
        until("the provider has left", || test.hub.worker_count() == 1).await;
    }
}

#[tokio::test]
async fn a_reconnected_subscriber_moves_its_binding() {
    let test = TestHub::start().await;
    let mut provider = test.peer().await;
    provide(&mut provider, "my::type").await;
    provider.barrier().await;
    let mut old = test.peer().await;
    bind(&mut old, "t1", "my::type").await;
    provider.expect("registertrigger").await;
    let mut new = test.peer().await;
    bind(&mut new, "t1", "my::type").await;
    assert_eq!(provider.expect("registertrigger").await["id"], "t1");
    drop(old);
    until("the old connection has left", || test.hub.worker_count() == 2).await;
    assert!(provider.barrier().await.is_empty(), "the binding belongs to the new connection");
    let list = new.call("engine::registered-triggers::list", json!({})).await;
    assert_eq!(list["result"]["registered_triggers"].as_array().unwrap().len(), 1);
    drop(new);
    provider.expect("unregistertrigger").await;
}

#[tokio::test]
async fn another_worker_cannot_unregister_a_binding() {
    let test = TestHub::start().await;
    let mut provider = test.peer().await;
    provide(&mut provider, "my::type").await;
    let mut subscriber = test.peer().await;
    bind(&mut subscriber, "t1", "my::type").await;
    provider.expect("registertrigger").await;
    let mut stranger = test.peer().await;
    stranger
        .send(json!({"type": "unregistertrigger", "id": "t1", "trigger_type": "my::type"}))
        .await;
    stranger.barrier().await;
    assert!(provider.barrier().await.is_empty());
}

#[tokio::test]
async fn a_providers_refusal_reaches_the_subscriber() {
    let test = TestHub::start().await;
    let mut provider = test.peer().await;
    provide(&mut provider, "my::type").await;
    let mut subscriber = test.peer().await;
    bind(&mut subscriber, "t1", "my::type").await;
    provider.expect("registertrigger").await;
    provider
        .send(json!({"type": "triggerregistrationresult", "id": "t1", "trigger_type": "my::type",
            "function_id": "a::f", "error": {"code": "BAD", "message": "no", "stacktrace": "secret"}}))
        .await;
    assert_eq!(
        subscriber.recv().await,
        json!({"type": "triggerregistrationresult", "id": "t1", "trigger_type": "my::type",
            "function_id": "a::f", "error": {"code": "BAD", "message": "no"}})
    );
    // The binding is parked, so the refusing provider gets no call when it ends.
    drop(subscriber);
    until("the subscriber has left", || test.hub.worker_count() == 1).await;
    assert!(provider.barrier().await.is_empty());
}

#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl TriggerProvider for Recorder {
    fn bind(&self, binding: TriggerBinding) -> Result<(), CallError> {
        let config: Value = binding.config.parse().unwrap();
        if config["n"] == "bad" {
            return Err(CallError::remote("BAD_CONFIG", "n must not be bad"));
        }
        self.0.lock().unwrap().push(format!("+{} {}", binding.id, binding.function_id));
        Ok(())
    }

    fn unbind(&self, trigger_id: &str) {
        self.0.lock().unwrap().push(format!("-{trigger_id}"));
    }
}

#[tokio::test]
async fn trigger_types_of_the_hub_process_bind_at_once_and_cannot_be_taken() {
    let test = TestHub::start().await;
    let mut subscriber = test.peer().await;
    bind(&mut subscriber, "early", "own::type").await;
    subscriber.barrier().await;
    let recorder = Arc::new(Recorder::default());
    let about =
        TriggerTypeSpec { id: "own::type".into(), description: "own".into(), ..Default::default() };
    test.hub.register_trigger_type(about, recorder.clone());
    bind(&mut subscriber, "second", "own::type").await;
    bind(&mut subscriber, "bad", "own::type").await;
    let refused = subscriber.expect("triggerregistrationresult").await;
    assert_eq!(refused["id"], "bad");
    assert_eq!(refused["error"], json!({"code": "BAD_CONFIG", "message": "n must not be bad"}));

    let mut thief = test.peer().await;
    for id in ["own::type", "engine::functions-available", "engine::x"] {
        provide(&mut thief, id).await;
        assert_eq!(thief.expect("error").await["error"]["code"], "trigger_type_conflict", "{id}");
    }
    subscriber
        .send(json!({"type": "unregistertrigger", "id": "early", "trigger_type": "own::type"}))
        .await;
    subscriber.barrier().await;
    drop(subscriber);
    until("the subscriber has left", || test.hub.worker_count() == 1).await;
    let log = recorder.0.lock().unwrap().clone();
    assert_eq!(log, ["+early a::f", "+second a::f", "-early", "-second"]);
}

#[tokio::test]
async fn functions_available_reports_every_change() {
    let test = TestHub::start().await;
    let mut watcher = test.sdk("rust", "0.11.3").await;
    watcher.send(json!({"type": "registerfunction", "id": "iii.on_functions_available.1"})).await;
    watcher
        .send(json!({"type": "registertrigger", "id": "t", "trigger_type": "engine::functions-available",
            "function_id": "iii.on_functions_available.1", "config": {}}))
        .await;
    watcher.barrier().await;
    let worker = test.worker(&["new::f"]).await;
    let has = |frame: &Value| {
        frame["function_id"] == "iii.on_functions_available.1"
            && frame["data"]["functions"]
                .as_array()
                .unwrap()
                .iter()
                .any(|row| row["function_id"] == "new::f")
    };
    while !has(&watcher.expect("invokefunction").await) {}
    drop(worker);
    while has(&watcher.expect("invokefunction").await) {}
}
