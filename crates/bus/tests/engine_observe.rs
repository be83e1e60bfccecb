//! Observing: functions that an engine bus announces with, and functions of workers.

#![cfg(feature = "engine")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
mod engine_support;

use std::sync::Arc;

use common::*;
use engine_support::*;
use iii_sdk::{InitOptions, RegisterFunction, Source, WorkerIdentityMode, runtime::WorkerMetadata};
use serde_json::{Value, json};
use skills_bus::{Activation, Bus as _, EngineBus, Json};

fn announce(bus: &EngineBus) -> Arc<Log> {
    let log = Arc::new(Log::default());
    bus.register_observable(spec("own::on-change"), log.clone());
    log
}

fn activation(observer_id: &str) -> Option<Activation> {
    Some(Activation {
        observer_id: observer_id.to_owned(),
        activation_id: "ignored".to_owned(),
        metadata: None,
    })
}

fn observe(id: &str, source: &str, extra: &Value) -> Value {
    let mut frame = json!({"type": "observe", "id": id, "source": {"function_id": source},
        "target": {"function_id": "w::changed"}});
    for (key, value) in extra.as_object().unwrap() {
        frame[key] = value.clone();
    }
    frame
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_is_announced_activated_and_removed() {
    let test = TestHub::start().await;
    let mut peer = test.worker(&["w::changed"]).await;
    // Before the function is there.
    peer.send(observe("o1", "own::on-change", &json!({"metadata": {"m": 1}}))).await;
    assert_eq!(peer.expect("observeresult").await["state"], "pending");
    let bus = attach(&test.url(), "skills").await;
    let log = announce(&bus);
    let active = peer.expect("observerstatechanged").await;
    assert_eq!((active["id"].as_str(), active["state"].as_str()), (Some("o1"), Some("active")));
    log.has("o+o1 w::changed Input").await;

    for n in 0..3 {
        bus.notify("w::changed", Json::from(&json!({"n": n})), activation("o1")).await.unwrap();
    }
    for n in 0..3 {
        let invoke = peer.expect("invokefunction").await;
        assert_eq!(invoke["function_id"], "w::changed");
        assert_eq!(invoke["activation"]["observer_id"], "o1");
        assert_eq!(invoke["metadata"], json!({"m": 1}));
        let envelope = &invoke["data"];
        assert_eq!(envelope["input"], json!({"n": n}));
        assert_eq!(envelope["function_id"], "own::on-change");
        assert_eq!(envelope["status"], "success");
        assert_eq!(envelope["observer_id"], "o1");
        assert_eq!(envelope["caller"]["worker_name"], "skills");
    }
    // Equal events are events of their own.
    let input = json!({"source": {"function_id": "own::on-change", "deliver": "input"}});
    peer.send(observe("o2", "own::on-change", &input)).await;
    assert_eq!(peer.expect("observeresult").await["state"], "pending");
    assert_eq!(peer.expect("observerstatechanged").await["state"], "active");
    for _ in 0..2 {
        bus.notify("w::changed", Json::from(&json!("same")), activation("o2")).await.unwrap();
    }
    for _ in 0..2 {
        assert_eq!(peer.expect("invokefunction").await["data"], "same");
    }
    let code = test.peer().await.call_error("own::on-change", json!({})).await;
    assert_eq!(code, "not_callable");

    peer.send(json!({"type": "unobserve", "id": "o1"})).await;
    let ended = peer.expect("observerstatechanged").await;
    assert_eq!((ended["state"].as_str(), ended["fires"].as_u64()), (Some("disposed"), Some(3)));
    log.has("o-o1").await;
    let error = bus.notify("w::changed", Json::null(), activation("o1")).await.unwrap_err();
    assert_eq!(error.code(), "OBSERVER_NOT_ACTIVE");
    drop(peer);
    log.has("o-o2").await;
    bus.shutdown().await;
}

/// What an announcer does: one target is told once, whatever its grounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_subscribed_in_both_ways_is_the_same_target() {
    let test = TestHub::start().await;
    let bus = attach(&test.url(), "skills").await;
    let log = announce(&bus);
    let bindings = provide(&bus, "own::on-change");
    let mut peer = test.worker(&["w::changed"]).await;
    peer.send(json!({"type": "registertrigger", "id": "t1", "trigger_type": "own::on-change",
        "function_id": "w::changed", "config": {}}))
        .await;
    peer.send(observe("o1", "own::on-change", &json!({}))).await;
    bindings.has("+t1 w::changed").await;
    assert_eq!(peer.expect("observeresult").await["state"], "pending");
    assert_eq!(peer.expect("observerstatechanged").await["state"], "active");
    assert_eq!(log.lines(), ["o+o1 w::changed Input"]);
    // A notification by trigger activates nobody.
    bus.notify("w::changed", Json::from(&json!({"n": 1})), None).await.unwrap();
    let invoke = peer.expect("invokefunction").await;
    assert_eq!(invoke.get("activation"), None);
    peer.answer(&invoke, json!(null)).await;
    call(&bus, "engine::functions::list", json!({"prefix": "none"})).await;
    assert!(peer.barrier().await.is_empty());
    bus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_of_the_sdk_is_served_through_a_restart() {
    let test = TestHub::start().await;
    let address = test.address;
    let bus = attach(&test.url(), "skills").await;
    let log = announce(&bus);
    let metadata = WorkerMetadata { name: "watcher".into(), ..WorkerMetadata::default() };
    let options = InitOptions {
        metadata: Some(metadata),
        otel: Some(iii_helpers::observability::OtelConfig {
            enabled: Some(false),
            ..Default::default()
        }),
        identity: WorkerIdentityMode::Explicit,
        ..InitOptions::default()
    };
    let watcher = iii_sdk::register_worker(&test.url(), options);
    let seen = Arc::new(Log::default());
    let heard = seen.clone();
    watcher.register_function(
        "watcher::changed",
        RegisterFunction::new(move |data: Value| {
            heard.add(data["input"]["n"].to_string());
            Ok::<_, iii_sdk::Error>(Value::Null)
        }),
    );
    let observer = watcher.observe(Source::function("own::on-change"), "watcher::changed");
    tokio::time::timeout(DEADLINE, observer.ready()).await.unwrap().unwrap();
    log.len(1).await;
    let id = observer.id().to_owned();
    bus.notify("watcher::changed", Json::from(&json!({"n": 1})), activation(&id)).await.unwrap();
    seen.has("1").await;

    test.stop().await;
    state(&bus, |state| state.epoch().is_none()).await;
    let test = TestHub::at(address, Default::default()).await;
    epoch_from(&bus, 2).await;
    // The hub has forgotten it, and it has come again: either before this bus or after it.
    let active = "the observer is active again";
    until(active, || test.hub.workers() == 2 && observer.state() == iii_sdk::ObserverState::Active)
        .await;
    until("its announcer knows", || {
        let lines = log.lines();
        lines.iter().filter(|line| line.starts_with("o+")).count()
            > lines.iter().filter(|line| line.starts_with("o-")).count()
    })
    .await;
    let again = async {
        // Removed and added once more while the two come back.
        while bus
            .notify("watcher::changed", Json::from(&json!({"n": 2})), activation(&id))
            .await
            .is_err()
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, again).await.unwrap();
    seen.has("2").await;
    assert_eq!(seen.lines(), ["1", "2"]);
    watcher.shutdown_async().await;
    log.has(&format!("o-{id}")).await;
    bus.shutdown().await;
}

#[tokio::test]
async fn calls_of_a_workers_function_activate_its_observers() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["w::work"]).await;
    let mut peer = test.worker(&["w::changed"]).await;
    let mut caller = test.sdk("rust", "0.25.0").await;
    let mut other = test.peer().await;
    peer.send(observe("o1", "w::work", &json!({}))).await;
    assert_eq!(peer.expect("observeresult").await["state"], "active");
    let errors = json!({"source": {"function_id": "w::work", "on": "error", "capture": ["error"]}});
    peer.send(observe("o2", "w::work", &errors)).await;
    peer.expect("observeresult").await;
    let output = json!({"source": {"function_id": "w::work", "deliver": "output"}, "max_fires": 1});
    peer.send(observe("o3", "w::work", &output)).await;
    peer.expect("observeresult").await;

    caller.start_call("c1", "w::work", json!({"x": 1})).await;
    let invoke = worker.expect("invokefunction").await;
    worker.answer(&invoke, json!({"y": 2})).await;
    caller.expect("invocationresult").await;
    let first = peer.expect("invokefunction").await;
    assert_eq!(first["activation"]["observer_id"], "o1");
    let envelope = &first["data"];
    assert_eq!(envelope["input"], json!({"x": 1}), "without the caller's id");
    assert_eq!(envelope["output"], json!({"y": 2}));
    assert_eq!(envelope["caller"], json!({"worker_id": caller.id, "worker_name": "test"}));
    assert!(envelope["started_at_ms"].is_u64() && envelope["duration_ms"].is_number());
    let third = peer.expect("invokefunction").await;
    assert_eq!(
        (&third["data"], &third["activation"]["observer_id"]),
        (&json!({"y": 2}), &json!("o3"))
    );
    let spent = peer.expect("observerstatechanged").await;
    assert_eq!(spent["reason"]["code"], "MAX_FIRES");

    caller.start_call("c2", "w::work", json!({})).await;
    let invoke = worker.expect("invokefunction").await;
    worker
        .send(json!({"type": "invocationresult", "invocation_id": invoke["invocation_id"],
            "function_id": "w::work", "error": {"code": "E", "message": "m"}}))
        .await;
    caller.expect("invocationresult").await;
    let failed = peer.expect("invokefunction").await;
    assert_eq!(failed["activation"]["observer_id"], "o2");
    assert_eq!(failed["data"]["error"], json!({"code": "E", "message": "m"}));
    assert_eq!(failed["data"].get("input"), None, "not captured");

    // A void call is observed too; and its worker may say whom it concerns.
    other
        .send(json!({"type": "invokefunction", "function_id": "w::work", "data": 3,
            "action": {"type": "void"}}))
        .await;
    let invoke = worker.expect("invokefunction").await;
    worker.answer(&invoke, json!(null)).await;
    assert_eq!(peer.expect("invokefunction").await["data"]["input"], 3);
    caller.start_call("c3", "w::work", json!({})).await;
    let invoke = worker.expect("invokefunction").await;
    worker
        .send(json!({"type": "invocationresult", "invocation_id": invoke["invocation_id"],
            "function_id": "w::work", "result": 1, "matched": []}))
        .await;
    let answer = caller.expect("invocationresult").await;
    assert_eq!(answer.get("matched"), None);
    assert!(peer.barrier().await.is_empty());

    drop(worker);
    for _ in 0..2 {
        assert_eq!(peer.expect("observerstatechanged").await["state"], "suspended");
    }
    let _worker = test.worker(&["w::work"]).await;
    for _ in 0..2 {
        assert_eq!(peer.expect("observerstatechanged").await["state"], "active");
    }
}

#[tokio::test]
async fn an_owner_may_refuse_and_only_it_may_report() {
    let test = TestHub::start().await;
    let mut owner = test.peer().await;
    owner
        .send(
            json!({"type": "registerfunction", "id": "w::tick", "observe": {"delivery": "owner"}}),
        )
        .await;
    let registered = owner.expect("functionregistered").await;
    assert_eq!((&registered["id"], &registered["observers"]), (&json!("w::tick"), &json!([])));
    let mut peer = test.worker(&["w::changed"]).await;
    let args = json!({"source": {"function_id": "w::tick", "args": {"every": 5}}});
    peer.send(observe("o1", "w::tick", &args)).await;
    assert_eq!(peer.expect("observeresult").await["state"], "pending");
    let added = owner.expect("observeradded").await;
    assert_eq!(added["observer"]["args"], json!({"every": 5}));
    assert_eq!(added["observer"]["target"], "w::changed");
    assert!(added["revision"].as_u64() > registered["revision"].as_u64());
    owner
        .send(json!({"type": "observerack", "function_id": "w::tick", "id": "o1",
            "revision": added["revision"], "error": {"code": "NOPE", "message": "no"}}))
        .await;
    let refused = peer.expect("observerstatechanged").await;
    assert_eq!((&refused["state"], &refused["reason"]["code"]), (&json!("error"), &json!("NOPE")));

    peer.send(observe("o2", "w::tick", &json!({}))).await;
    peer.expect("observeresult").await;
    let added = owner.expect("observeradded").await;
    let item = json!({"type": "invocationsobserved", "items": [{"function_id": "w::tick",
        "invocation_id": "i", "matched": ["o2"], "status": "success", "input": 1,
        "started_at_ms": 1, "duration_ms": 0.0, "observe_depth": 0}]});
    // Not before it is active, and not from a stranger.
    owner.send(item.clone()).await;
    owner.barrier().await;
    owner
        .send(json!({"type": "observerack", "function_id": "w::tick", "id": "o2",
            "revision": added["revision"]}))
        .await;
    assert_eq!(peer.expect("observerstatechanged").await["state"], "active");
    let mut stranger = test.peer().await;
    stranger.send(item.clone()).await;
    stranger.barrier().await;
    owner.send(item).await;
    assert_eq!(peer.expect("invokefunction").await["data"]["input"], 1);
    assert!(peer.barrier().await.is_empty());
    peer.send(json!({"type": "unobserve", "id": "o2"})).await;
    assert_eq!(owner.expect("observerremoved").await["id"], "o2");
}
