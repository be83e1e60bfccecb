//! Notifications of an engine bus whose connection breaks before they are answered.

#![cfg(feature = "engine")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
mod engine_support;

use common::*;
use engine_support::*;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use skills_bus::{Bus as _, Json};
use tokio_tungstenite::tungstenite::Message;

fn n(n: u64) -> Json {
    Json::from(&json!({"n": n}))
}

/// The worker itself, and not a look at what is in the way.
async fn returned(engine: &Engine) -> Link {
    loop {
        let mut link = engine.greet().await;
        if let Some(Ok(Message::Text(text))) = link.0.next().await
            && text.contains("\"reattach\"")
        {
            return link;
        }
    }
}

/// The next call of a function; the engine's own are answered.
async fn invoked(link: &mut Link) -> Value {
    loop {
        let invoke = link.next("invokefunction").await;
        if invoke["function_id"] == "w::changed" {
            return invoke;
        }
        answer(link, &invoke).await;
    }
}

async fn answer(link: &mut Link, invoke: &Value) {
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
async fn what_was_unanswered_is_sent_again_under_the_same_number_before_anything_else() {
    let engine = Engine::start().await;
    let bus = skills_bus::EngineBus::connect(config(&engine.url(), "skills")).unwrap();
    let mut link = engine.greet().await;
    connected(&bus).await;
    for k in 1..=4 {
        bus.notify("w::changed", n(k), None).await.unwrap();
    }
    let first = invoked(&mut link).await;
    let (lane, number, answered) = delivery(&first);
    assert_eq!((number, answered), (1, 0));
    answer(&mut link, &first).await;
    for k in 2..=4 {
        let invoke = invoked(&mut link).await;
        assert_eq!((invoke["data"]["n"].as_u64(), delivery(&invoke).1), (Some(k), k));
    }
    drop(link);
    state(&bus, |state| state.epoch().is_none()).await;
    let later = tokio::spawn({
        let bus = bus.clone();
        async move { bus.notify("w::changed", n(5), None).await }
    });
    let mut link = returned(&engine).await;
    for k in 2..=5 {
        let invoke = invoked(&mut link).await;
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
async fn what_the_hub_has_brought_is_not_brought_again() {
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
        // Never answered.
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

/// A function that is busy for longer than an answer is waited for does not hear twice either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_takes_its_time_is_not_notified_again() {
    let test = TestHub::start().await;
    let bus = attach(&test.url(), "skills").await;
    let mut peer = test.worker(&["w::changed"]).await;
    bus.notify("w::changed", n(1), None).await.unwrap();
    let _unanswered = peer.expect("invokefunction").await;
    let sending = tokio::spawn({
        let bus = bus.clone();
        async move {
            // More than may be unanswered at once.
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
