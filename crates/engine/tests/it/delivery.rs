//! Notifications whose connection breaks before they are answered.

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use skills_bus::{Bus as _, Json};
use tokio_tungstenite::tungstenite::Message;

use crate::support::*;
use crate::test_hub::*;

fn n(n: u64) -> Json {
    Json::from(&json!({"n": n}))
}

/// Accepts the connection of the worker, skipping probes.
async fn accept_worker(engine: &FakeEngine) -> EngineLink {
    loop {
        let mut link = engine.greet().await;
        if let Some(Ok(Message::Text(text))) = link.0.next().await
            && text.contains("\"reattach\"")
        {
            return link;
        }
    }
}

/// Returns the next call of a worker function and answers calls of the engine's own functions.
async fn next_call(link: &mut EngineLink) -> Value {
    loop {
        let invoke = link.next("invokefunction").await;
        if invoke["function_id"] == "w::changed" {
            return invoke;
        }
        answer(link, &invoke).await;
    }
}

async fn answer(link: &mut EngineLink, invoke: &Value) {
    if invoke["invocation_id"].is_string() {
        link.send(json!({"type": "invocationresult", "invocation_id": invoke["invocation_id"],
            "function_id": invoke["function_id"], "result": null}))
            .await;
    }
}

fn delivery(invoke: &Value) -> (String, u64, u64) {
    let delivery = &invoke["metadata"]["delivery"];
    let number = |name: &str| delivery[name].as_u64().unwrap();
    (delivery["lane"].as_str().unwrap().to_owned(), number("number"), number("answered"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unanswered_notifications_are_resent_first_with_the_same_number() {
    let engine = FakeEngine::start().await;
    let bus = skills_engine::EngineBus::connect(config(&engine.url(), "skills")).unwrap();
    let mut link = engine.greet().await;
    greeted(&bus, 1).await;
    for k in 1..=4 {
        bus.notify("w::changed", n(k), None).await.unwrap();
    }
    let first = next_call(&mut link).await;
    let (lane, number, answered) = delivery(&first);
    assert_eq!((number, answered), (1, 0));
    answer(&mut link, &first).await;
    for k in 2..=4 {
        let invoke = next_call(&mut link).await;
        assert_eq!((invoke["data"]["n"].as_u64(), delivery(&invoke).1), (Some(k), k));
    }
    drop(link);
    state(&bus, |state| state.epoch().is_none()).await;
    let later = tokio::spawn({
        let bus = bus.clone();
        async move { bus.notify("w::changed", n(5), None).await }
    });
    let mut link = accept_worker(&engine).await;
    for k in 2..=5 {
        let invoke = next_call(&mut link).await;
        assert_eq!(invoke["data"]["n"], k);
        let (same_lane, number, answered) = delivery(&invoke);
        assert_eq!((same_lane.as_str(), number), (lane.as_str(), k));
        assert!((1..k).contains(&answered), "{answered} of {k}");
        answer(&mut link, &invoke).await;
    }
    later.await.unwrap().unwrap();
    bus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hub_does_not_repeat_delivered_notifications() {
    let test = TestHub::start().await;
    let proxy = Proxy::to(test.address).await;
    let bus = attach(&proxy.url(), "skills").await;
    let log = provide(&bus, "own::on-change");
    let mut peer = test.worker(&["w::changed"]).await;
    peer.send(json!({"type": "registertrigger", "id": "t1", "trigger_type": "own::on-change",
        "function_id": "w::changed", "config": {}}))
        .await;
    log.has("+t1 w::changed").await;
    for k in 1..=3 {
        bus.notify("w::changed", n(k), None).await.unwrap();
        let invoke = peer.expect("invokefunction").await;
        assert_eq!(invoke["data"]["n"], k);
        // No answer.
    }
    proxy.cut();
    state(&bus, |state| state.epoch().is_none()).await;
    proxy.mend();
    epoch_from(&bus, 2).await;
    for k in 4..=8 {
        bus.notify("w::changed", n(k), None).await.unwrap();
    }
    for k in 4..=8 {
        let invoke = peer.expect("invokefunction").await;
        assert_eq!(invoke["data"]["n"], k, "once each");
        peer.answer(&invoke, json!(null)).await;
    }
    assert!(peer.barrier().await.is_empty(), "once each");
    bus.shutdown().await;
}

/// A function that is busy for longer than the answer timeout is not notified twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_function_is_not_notified_twice() {
    let test = TestHub::start().await;
    let bus = attach(&test.url(), "skills").await;
    let mut peer = test.worker(&["w::changed"]).await;
    bus.notify("w::changed", n(1), None).await.unwrap();
    let _unanswered = peer.expect("invokefunction").await;
    let sending = tokio::spawn({
        let bus = bus.clone();
        async move {
            // More than the limit of unanswered notifications.
            for k in 2..=300 {
                bus.notify("w::changed", n(k), None).await.unwrap();
            }
        }
    });
    for k in 2..=300 {
        let invoke = peer.expect("invokefunction").await;
        assert_eq!(invoke["data"]["n"], k);
    }
    sending.await.unwrap();
    bus.shutdown().await;
}
