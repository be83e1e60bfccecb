//! `EngineBus` as the provider of a trigger type.

use std::time::Duration;

use serde_json::{Value, json};
use skills_bus::{Bus as _, CallError, Json};
use skills_engine::{EngineBus, EngineConfig};

use crate::support::*;
use crate::test_hub::*;

async fn bind(peer: &mut Peer, id: &str, config: Value) {
    peer.send(json!({"type": "registertrigger", "id": id, "trigger_type": "own::on-change",
        "function_id": "w::changed", "config": config}))
        .await;
}

/// Receives and answers a notification.
async fn next_notification(peer: &mut Peer) -> Value {
    let invoke = peer.expect("invokefunction").await;
    assert_eq!(invoke["function_id"], "w::changed");
    peer.answer(&invoke, json!(null)).await;
    invoke["data"]["n"].clone()
}

fn n(n: u64) -> Json {
    Json::from(&json!({"n": n}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_is_bound_once_and_removed_by_its_id() {
    let test = TestHub::start().await;
    let bus = attach(&test.url(), "skills").await;
    let log = provide(&bus, "own::on-change");
    let mut peer = test.worker(&["w::changed"]).await;
    bind(&mut peer, "t1", json!({})).await;
    log.has("+t1 w::changed").await;
    bind(&mut peer, "t1", json!({})).await;
    bind(&mut peer, "bad", json!("bad")).await;
    let refused = peer.expect("triggerregistrationresult").await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("BAD_CONFIG"), "{refused}");
    bind(&mut peer, "t2", json!({})).await;
    log.has("+t2 w::changed").await;
    for k in 0..3 {
        bus.notify("w::changed", n(k), None).await.unwrap();
        assert_eq!(next_notification(&mut peer).await, k);
    }
    peer.send(json!({"type": "unregistertrigger", "id": "t1"})).await;
    log.has("-t1").await;
    drop(peer);
    log.has("-t2").await;
    assert_eq!(log.lines(), ["+t1 w::changed", "+t2 w::changed", "-t1", "-t2"]);
    bus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_keep_their_order_without_waiting_for_answers() {
    let test = TestHub::start().await;
    let bus = attach(&test.url(), "skills").await;
    let log = provide(&bus, "own::on-change");
    let mut peer = test.worker(&["w::changed"]).await;
    bind(&mut peer, "t1", json!({})).await;
    log.has("+t1 w::changed").await;
    let sending = tokio::spawn({
        let bus = bus.clone();
        async move {
            for k in 0..1000 {
                bus.notify("w::changed", n(k), None).await.unwrap();
            }
        }
    });
    // The first notifications stay unanswered.
    let mut unanswered = Vec::new();
    for k in 0..200 {
        let invoke = peer.expect("invokefunction").await;
        assert_eq!(invoke["data"]["n"], k);
        unanswered.push(invoke);
    }
    assert!(!sending.is_finished(), "a subscriber that does not answer is not sent everything");
    for invoke in &unanswered {
        peer.answer(invoke, json!(null)).await;
    }
    for k in 200..1000 {
        assert_eq!(next_notification(&mut peer).await, k);
    }
    sending.await.unwrap();
    bus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_is_dropped_when_its_function_is_not_found() {
    let test = TestHub::start().await;
    let bus = attach(&test.url(), "skills").await;
    let log = provide(&bus, "own::on-change");
    let mut peer = test.worker(&["w::changed"]).await;
    bind(&mut peer, "t1", json!({})).await;
    log.has("+t1 w::changed").await;
    bus.notify("w::changed", n(1), None).await.unwrap();
    assert_eq!(next_notification(&mut peer).await, 1);
    // An error returned by the function does not drop the subscriber.
    bus.notify("w::changed", n(2), None).await.unwrap();
    let invoke = peer.expect("invokefunction").await;
    peer.send(json!({"type": "invocationresult", "invocation_id": invoke["invocation_id"],
        "function_id": "w::changed", "error": {"code": "X", "message": "x"}}))
        .await;
    bus.notify("w::changed", n(3), None).await.unwrap();
    assert_eq!(next_notification(&mut peer).await, 3);

    peer.send(json!({"type": "unregisterfunction", "id": "w::changed"})).await;
    peer.barrier().await;
    assert_eq!(log.lines(), ["+t1 w::changed"], "not before");
    let error = loop {
        if let Err(error) = bus.notify("w::changed", n(4), None).await {
            break error;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(error, CallError::NotFound("w::changed".into()));
    assert_eq!(log.lines(), ["+t1 w::changed", "-t1"]);

    // The subscriber may register again under the same id.
    peer.send(json!({"type": "registerfunction", "id": "w::changed"})).await;
    bind(&mut peer, "t1", json!({})).await;
    log.len(3).await;
    bus.notify("w::changed", n(5), None).await.unwrap();
    // Notifications in flight may have found the function again.
    while next_notification(&mut peer).await != 5 {}
    bus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_of_another_namespace_is_called_there() {
    let engine = FakeEngine::start().await;
    let config = EngineConfig { namespace: Some("team".into()), ..config(&engine.url(), "skills") };
    let bus = EngineBus::connect(config).unwrap();
    let log = provide(&bus, "own::on-change");
    let mut link = engine.greet().await;
    greeted(&bus, 1).await;
    for (id, namespace) in [("t1", "team"), ("t2", "elsewhere"), ("t3", "default")] {
        link.send(json!({"type": "registertrigger", "id": id, "trigger_type": "own::on-change",
            "function_id": "w::changed", "config": {}, "namespace": namespace}))
            .await;
        let result = link.next("triggerregistrationresult").await;
        assert_eq!(result["id"], id, "{id:?}");
        let target = log.lines().last().unwrap().split_once(' ').unwrap().1.to_owned();
        bus.notify(&target, n(1), None).await.unwrap();
        let invoke = link.next("invokefunction").await;
        assert_eq!(
            (invoke["function_id"].as_str(), invoke["namespace"].as_str()),
            (Some("w::changed"), Some(namespace)),
            "{target}"
        );
    }
    let calling = tokio::spawn({
        let bus = bus.clone();
        async move { bus.call_in("default", "state::get", Json::null(), DEADLINE).await }
    });
    let invoke = link.next("invokefunction").await;
    assert_eq!(invoke["namespace"], "default");
    link.send(json!({"type": "invocationresult", "invocation_id": invoke["invocation_id"],
        "function_id": "state::get", "result": 1}))
        .await;
    assert_eq!(calling.await.unwrap().unwrap().as_str(), "1");
    bus.shutdown().await;
}

/// All connections are lost; the subscriber reconnects last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_survive_an_engine_restart() {
    let test = TestHub::start().await;
    let bus = attach(&test.url(), "skills").await;
    let log = provide(&bus, "own::on-change");
    let mut peer = test.worker(&["w::changed"]).await;
    bind(&mut peer, "t1", json!({})).await;
    log.has("+t1 w::changed").await;
    bus.notify("w::changed", n(0), None).await.unwrap();
    assert_eq!(next_notification(&mut peer).await, 0);
    drop(peer);
    log.has("-t1").await;
    let mut peer = test.worker(&["w::changed"]).await;
    bind(&mut peer, "t1", json!({})).await;
    log.len(3).await;

    let port = test.stop().await;
    state(&bus, |state| state.epoch().is_none()).await;
    let sending = tokio::spawn({
        let bus = bus.clone();
        async move {
            for k in 1..=20 {
                bus.notify("w::changed", n(k), None).await.unwrap();
            }
        }
    });
    let test = TestHub::at(port, Default::default()).await;
    assert_eq!(epoch_from(&bus, 2).await, 2);
    let mut peer = test.peer().await;
    peer.send(json!({"type": "registerfunction", "id": "w::changed"})).await;
    bind(&mut peer, "t1", json!({})).await;
    for k in 1..=20 {
        assert_eq!(next_notification(&mut peer).await, k);
    }
    sending.await.unwrap();
    assert!(peer.barrier().await.is_empty(), "once each");
    assert_eq!(log.lines().len(), 3, "the provider goes on where it was: {:?}", log.lines());
    bus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_that_does_not_reconnect_is_dropped() {
    let test = TestHub::start().await;
    let config = EngineConfig {
        subscriber_grace: Duration::from_millis(300),
        ..config(&test.url(), "skills")
    };
    let bus = EngineBus::connect(config).unwrap();
    let log = provide(&bus, "own::on-change");
    connected(&bus).await;
    let mut peer = test.worker(&["w::changed"]).await;
    bind(&mut peer, "t1", json!({})).await;
    log.has("+t1 w::changed").await;
    let port = test.stop().await;
    state(&bus, |state| state.epoch().is_none()).await;
    let test = TestHub::at(port, Default::default()).await;
    epoch_from(&bus, 2).await;
    let error = loop {
        if let Err(error) = bus.notify("w::changed", n(1), None).await {
            break error;
        }
    };
    assert_eq!(error, CallError::NotFound("w::changed".into()));
    assert_eq!(log.lines(), ["+t1 w::changed", "-t1"]);
    bus.shutdown().await;
    drop(test);
}
