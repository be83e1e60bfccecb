//! Observers of functions of the hub process.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use skills_bus::{Activation, Bus as _, DeliveryMode, Observer, ObserverSink};
use skills_core::Coded as _;

use crate::test_hub::*;

#[derive(Default)]
struct Recorder {
    log: Mutex<Vec<String>>,
    last: Mutex<Option<Observer>>,
}

impl ObserverSink for Recorder {
    fn observe(&self, observer: Observer) {
        self.log.lock().unwrap().push(format!("+{}", observer.id));
        *self.last.lock().unwrap() = Some(observer);
    }

    fn unobserve(&self, observer_id: &str) {
        self.log.lock().unwrap().push(format!("-{observer_id}"));
    }
}

impl Recorder {
    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

async fn start() -> (TestHub, Arc<Recorder>) {
    let test = TestHub::start().await;
    let recorder = Arc::new(Recorder::default());
    test.hub.register_observable(spec("own::on-change"), recorder.clone());
    (test, recorder)
}

fn observe(id: &str, extra: &Value) -> Value {
    let mut frame = json!({"type": "observe", "id": id, "source": {"function_id": "own::on-change"},
        "target": {"function_id": "w::changed"}});
    for (key, value) in extra.as_object().unwrap() {
        frame[key] = value.clone();
    }
    frame
}

fn activation(id: &str) -> Option<Activation> {
    Some(Activation {
        observer_id: id.into(),
        activation_id: "act".into(),
        metadata: Some(payload(&json!({"m": 1}))),
    })
}

#[tokio::test]
async fn an_observer_is_registered_activated_and_removed() {
    let (test, recorder) = start().await;
    let mut worker = test.worker(&["w::changed"]).await;
    let source = json!({"function_id": "own::on-change", "deliver": "input", "args": {}, "filters": {}, "capture": ["input"]});
    worker.send(observe("o1", &json!({"source": source, "metadata": {"m": 1}}))).await;
    assert_eq!(
        worker.recv().await,
        json!({"type": "observeresult", "id": "o1", "state": "active"})
    );
    let observer = recorder.last.lock().unwrap().clone().unwrap();
    assert_eq!((observer.target.as_str(), observer.deliver), ("w::changed", DeliveryMode::Input));
    assert_eq!(observer.metadata.unwrap().as_str(), r#"{"m":1}"#);

    test.hub.notify("w::changed", payload(&json!({"op": "x"})), activation("o1")).await.unwrap();
    let invoke = worker.expect("invokefunction").await;
    assert_eq!(invoke["data"], json!({"op": "x"}));
    assert_eq!(invoke["activation"], json!({"observer_id": "o1", "activation_id": "act"}));
    assert_eq!(invoke["metadata"], json!({"m": 1}));
    assert_eq!(invoke["observe_depth"], 1);

    worker.send(json!({"type": "unobserve", "id": "o1"})).await;
    let ended = worker.expect("observerstatechanged").await;
    assert_eq!(ended["state"], "disposed");
    assert_eq!(ended["reason"]["code"], "UNOBSERVED");
    assert_eq!(ended["fires"], 1);
    assert_eq!(recorder.log(), ["+o1", "-o1"]);
    let late =
        test.hub.notify("w::changed", payload(&json!({})), activation("o1")).await.unwrap_err();
    assert_eq!(late.code().as_str(), "OBSERVER_NOT_ACTIVE");
    assert!(worker.barrier().await.is_empty());
}

#[tokio::test]
async fn unobserve_is_always_answered() {
    let (test, recorder) = start().await;
    let mut owner = test.peer().await;
    owner.send(observe("o1", &json!({}))).await;
    owner.barrier().await;
    let mut stranger = test.peer().await;
    for id in ["never", "o1"] {
        stranger.send(json!({"type": "unobserve", "id": id})).await;
        let ended = stranger.expect("observerstatechanged").await;
        assert_eq!(
            (ended["id"].as_str(), ended["state"].as_str()),
            (Some(id), Some("disposed")),
            "{id}"
        );
    }
    assert_eq!(recorder.log(), ["+o1"], "a stranger ends nothing");
}

#[tokio::test]
async fn unobservable_sources_are_refused_with_the_sdk_error_code() {
    let (test, recorder) = start().await;
    test.hub.register_function(spec("local::plain"), echo());
    let mut worker = test.worker(&["w::changed"]).await;
    for (id, extra) in [
        ("w::private", json!({"private": true})),
        ("w::shy", json!({"observable": false})),
        ("w::shy25", json!({"observe": {"allow": false}})),
    ] {
        let mut frame = json!({"type": "registerfunction", "id": id});
        frame.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        worker.send(frame).await;
    }
    worker.barrier().await;
    let source = |value: Value| json!({"source": value});
    let cases = [
        (source(json!({"function_id": "local::plain"})), "NOT_OBSERVABLE"),
        (source(json!({"function_id": "w::changed"})), "SELF_TARGET"),
        (source(json!({"function_id": "w::private"})), "NOT_OBSERVABLE"),
        (source(json!({"function_id": "w::shy"})), "NOT_OBSERVABLE"),
        (source(json!({"function_id": "w::shy25"})), "NOT_OBSERVABLE"),
        (source(json!({"function_id": "engine::functions::list"})), "NOT_OBSERVABLE"),
        (json!({"target": {"function_id": "own::on-change"}}), "SELF_TARGET"),
        (source(json!({"function_id": "own::on-change", "args": {"a": 1}})), "INVALID_ARGS"),
        (
            source(json!({"function_id": "own::on-change", "filters": {"input.op": {"$eq": 1}}})),
            "INVALID_FILTER",
        ),
    ];
    for (extra, code) in cases {
        worker.send(observe("o", &extra)).await;
        let result = worker.expect("observeresult").await;
        assert_eq!(
            (result["state"].as_str(), result["error"]["code"].as_str()),
            (Some("error"), Some(code))
        );
    }
    assert!(recorder.log().is_empty());
    assert!(worker.barrier().await.is_empty(), "one answer each");
}

#[tokio::test]
async fn registering_an_observer_twice_keeps_one() {
    let (test, recorder) = start().await;
    let mut worker = test.worker(&["w::changed"]).await;
    worker.send(observe("o1", &json!({}))).await;
    worker.expect("observeresult").await;
    test.hub.notify("w::changed", payload(&json!({})), activation("o1")).await.unwrap();
    worker.expect("invokefunction").await;
    worker.send(observe("o1", &json!({}))).await;
    assert_eq!(worker.expect("observeresult").await["state"], "active");
    let mut other = test.peer().await;
    other.send(observe("o1", &json!({}))).await;
    assert_eq!(other.expect("observeresult").await["error"]["code"], "OBSERVER_ID_CONFLICT");
    worker.send(json!({"type": "unobserve", "id": "o1"})).await;
    assert_eq!(worker.expect("observerstatechanged").await["fires"], 1);
    assert_eq!(recorder.log(), ["+o1", "+o1", "-o1"]);
}

#[tokio::test]
async fn observers_end_with_their_connection_deadline_or_count() {
    let (test, recorder) = start().await;
    let mut worker = test.worker(&["w::changed"]).await;
    worker.send(observe("brief", &json!({"expires_in_ms": 20}))).await;
    worker.expect("observeresult").await;
    let ended = worker.expect("observerstatechanged").await;
    assert_eq!(
        (ended["id"].as_str(), ended["reason"]["code"].as_str()),
        (Some("brief"), Some("EXPIRED"))
    );

    worker.send(observe("twice", &json!({"max_fires": 2}))).await;
    worker.expect("observeresult").await;
    for _ in 0..2 {
        test.hub.notify("w::changed", payload(&json!({})), activation("twice")).await.unwrap();
        worker.expect("invokefunction").await;
    }
    let ended = worker.expect("observerstatechanged").await;
    assert_eq!(
        (ended["reason"]["code"].as_str(), ended["fires"].as_u64()),
        (Some("MAX_FIRES"), Some(2))
    );
    assert!(test.hub.notify("w::changed", payload(&json!({})), activation("twice")).await.is_err());

    worker.send(observe("lasting", &json!({"expires_in_ms": u64::MAX}))).await;
    worker.expect("observeresult").await;
    drop(worker);
    until("the worker has left", || test.hub.worker_count() == 0).await;
    assert_eq!(recorder.log(), ["+brief", "-brief", "+twice", "-twice", "+lasting", "-lasting"]);
}

#[tokio::test]
async fn an_observable_cannot_be_called_or_registered_by_a_worker() {
    let (test, _) = start().await;
    let mut worker = test.sdk("rust", "0.26.0").await;
    assert_eq!(worker.call_error("own::on-change", json!({})).await, "not_callable");
    worker.send(json!({"type": "registerfunction", "id": "own::on-change"})).await;
    worker.expect("registrationrejected").await;
    let own = test.hub.call("own::on-change", payload(&json!({})), DEADLINE).await.unwrap_err();
    assert_eq!(own.code().as_str(), "not_callable");
}

#[tokio::test]
async fn a_subscription_does_not_call_a_function_of_the_hub_process() {
    let (test, recorder) = start().await;
    let mut worker = test.worker(&["w::changed"]).await;
    // The function is registered after the observer, which waits for it.
    worker.send(observe("o1", &json!({"target": {"function_id": "local::late"}}))).await;
    worker.expect("observeresult").await;
    let called = Arc::new(Mutex::new(0));
    let count = Arc::clone(&called);
    let function = move |_: skills_bus::FunctionCall| {
        *count.lock().unwrap() += 1;
        async { Ok::<_, skills_bus::CallError>(payload(&json!(null))) }
    };
    test.hub.register_function(spec("local::late"), Arc::new(function));
    for id in ["local::late", "own::on-change", "engine::workers::list"] {
        worker.send(observe("o2", &json!({"target": {"function_id": id}}))).await;
        let refusal = worker.expect("observeresult").await;
        let code = if id == "own::on-change" { "SELF_TARGET" } else { "reserved_function" };
        assert_eq!(
            refusal["error"]["code"].as_str().map(str::to_lowercase),
            Some(code.to_lowercase())
        );
    }
    let refused = test.hub.notify("local::late", payload(&json!({})), activation("o1")).await;
    assert_eq!(refused.unwrap_err().code().as_str(), "reserved_function");
    let condition = payload(&json!({}));
    let refused = test.hub.call_for(Some("x"), "local::late", condition, DEADLINE).await;
    assert_eq!(refused.unwrap_err().code().as_str(), "reserved_function");
    assert!(!test.hub.may_deliver("local::late", Some("x")));
    assert_eq!((*called.lock().unwrap(), recorder.log()), (0, vec!["+o1".to_owned()]));
    let own = test.hub.call("local::late", payload(&json!({})), DEADLINE).await;
    assert!(own.is_ok() && *called.lock().unwrap() == 1, "the process itself");
}
