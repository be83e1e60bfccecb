//! Observers of this bus's own functions and of functions of workers.

use std::sync::Arc;

use serde_json::{Value, json};
use skills_bus::{Activation, Bus as _, Json};
use skills_core::Coded as _;
use skills_engine::EngineBus;

use crate::support::*;
use crate::test_hub::*;

fn announce(bus: &EngineBus) -> Arc<EventLog> {
    let log = Arc::new(EventLog::default());
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
async fn an_observer_is_registered_activated_and_removed() {
    let test = TestHub::start().await;
    let mut peer = test.worker(&["w::changed"]).await;
    // The observer arrives before the function.
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
    // Equal events are delivered separately.
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
    assert_eq!(error.code().as_str(), "OBSERVER_NOT_ACTIVE");
    drop(peer);
    log.has("o-o2").await;
    bus.shutdown().await;
}

/// The notifier calls one target once, even if it has both a trigger and an observer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_and_an_observer_of_one_function_share_a_target() {
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
    // A notification by trigger does not activate observers.
    bus.notify("w::changed", Json::from(&json!({"n": 1})), None).await.unwrap();
    let invoke = peer.expect("invokefunction").await;
    assert_eq!(invoke.get("activation"), None);
    peer.answer(&invoke, json!(null)).await;
    call(&bus, "engine::functions::list", json!({"prefix": "none"})).await;
    assert!(peer.barrier().await.is_empty());
    bus.shutdown().await;
}

/// The restarted engine lost the observer, which returns before or after this bus does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_survives_an_engine_restart() {
    for is_observer_first in [true, false] {
        let test = TestHub::start().await;
        let bus = attach(&test.url(), "skills").await;
        let log = announce(&bus);
        let mut peer = test.worker(&["w::changed"]).await;
        peer.send(observe("o1", "own::on-change", &json!({}))).await;
        assert_eq!(peer.expect("observeresult").await["state"], "pending", "{is_observer_first:?}");
        assert_eq!(
            peer.expect("observerstatechanged").await["state"],
            "active",
            "{is_observer_first:?}"
        );
        log.has("o+o1 w::changed Input").await;
        bus.notify("w::changed", Json::from(&json!({"n": 1})), activation("o1")).await.unwrap();
        assert_eq!(
            peer.expect("invokefunction").await["data"]["input"]["n"],
            1,
            "{is_observer_first:?}"
        );

        let port = test.stop().await;
        drop(peer);
        state(&bus, |state| state.epoch().is_none()).await;
        // It waits for the next connection.
        let waiting = tokio::spawn({
            let bus = bus.clone();
            async move {
                let event = Json::from(&json!({"n": 2}));
                bus.notify("w::changed", event, activation("o1")).await
            }
        });
        let test = TestHub::at(port, Default::default()).await;
        if !is_observer_first {
            epoch_from(&bus, 2).await;
        }
        let mut peer = test.worker(&["w::changed"]).await;
        peer.send(observe("o1", "own::on-change", &json!({}))).await;
        epoch_from(&bus, 2).await;
        while peer.recv().await["state"] != "active" {}
        let is_known = || {
            let lines = log.lines();
            let count = |sign: &str| lines.iter().filter(|line| line.starts_with(sign)).count();
            count("o+") > count("o-")
        };
        until("the bus knows the observer", is_known).await;
        // The observer was gone for a moment if this bus returned first.
        let is_sent = waiting.await.unwrap().is_ok();
        bus.notify("w::changed", Json::from(&json!({"n": 3})), activation("o1")).await.unwrap();
        let expected = if is_sent { vec![2, 3] } else { vec![3] };
        for n in expected {
            assert_eq!(
                peer.expect("invokefunction").await["data"]["input"]["n"],
                n,
                "{is_observer_first:?}"
            );
        }
        drop(peer);
        log.has("o-o1").await;
        bus.shutdown().await;
    }
}

/// Greets as an engine with observers, and lists one observer.
async fn greet_with_observer(engine: &FakeEngine) -> EngineLink {
    let mut link = engine.accept().await;
    link.send(json!({"type": "workerregistered", "worker_id": "w", "reattach_token": "t",
        "features": ["observe.v1"]}))
        .await;
    assert_eq!(link.next("registerfunction").await["id"], "own::on-change");
    link.send(json!({"type": "functionregistered", "id": "own::on-change", "revision": 1,
        "observers": [{"id": "o1", "target": "w::changed"}]}))
        .await;
    assert_eq!(link.next("observerack").await["id"], "o1");
    link
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unconfirmed_event_is_sent_again_with_its_id() {
    let engine = FakeEngine::start().await;
    let bus = EngineBus::connect(config(&engine.url(), "skills")).unwrap();
    let log = announce(&bus);
    let mut link = greet_with_observer(&engine).await;
    log.has("o+o1 w::changed Input").await;
    let notifying = tokio::spawn({
        let bus = bus.clone();
        async move { bus.notify("w::changed", Json::from(&json!(1)), activation("o1")).await }
    });
    let first = link.next("invocationsobserved").await;
    assert!(!notifying.is_finished(), "the engine may not have it");
    drop(link);
    let mut link = greet_with_observer(&engine).await;
    let second = link.next("invocationsobserved").await;
    assert_eq!(second["items"][0]["invocation_id"], first["items"][0]["invocation_id"]);
    assert_eq!(second["items"][0]["input"], 1);
    let confirming = link.next("invokefunction").await;
    link.send(json!({"type": "invocationresult", "invocation_id": confirming["invocation_id"],
        "function_id": confirming["function_id"], "error": {"code": "X", "message": "x"}}))
        .await;
    notifying.await.unwrap().unwrap();
    assert_eq!(log.lines(), ["o+o1 w::changed Input"], "the same observer");
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

    // Void calls are observed too; the worker may name the observers concerned.
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
async fn only_the_owner_may_refuse_observers_and_report_events() {
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
    // Events are refused before activation and from other workers.
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
