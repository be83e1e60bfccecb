//! `EngineBus` on a hub: functions and calls in both directions.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use skills_bus::{Bus as _, CallError, FunctionCall, FunctionSpec, Json};
use skills_core::Coded as _;
use skills_engine::EngineBus;
use tokio::sync::Semaphore;

use crate::support::*;
use crate::test_hub::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registered_functions_show_their_schemas_and_can_be_called() {
    let test = TestHub::start().await;
    let bus = EngineBus::connect(config(&test.url(), "skills")).unwrap();
    let full = FunctionSpec {
        id: "own::full".into(),
        description: "Says it.".into(),
        request_format: Some(json!({"title": "In", "type": "object"})),
        response_format: Some(json!({"title": "Out"})),
        metadata: Some(json!({"public": true})),
    };
    bus.register_function(full, echo());
    bus.register_function(spec("own::bare"), echo());
    connected(&bus).await;
    let mut peer = test.peer().await;
    let list = peer.call("engine::functions::list", json!({"prefix": "own::"})).await;
    let rows = list["result"]["functions"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{list}");
    let bare = &rows[0];
    assert_eq!(bare["request_format"], Value::Null, "no schema that nobody gave");
    let full = &rows[1];
    assert_eq!(full["description"], "Says it.");
    assert_eq!(full["request_format"], json!({"title": "In", "type": "object"}));
    assert_eq!(full["response_format"], json!({"title": "Out"}));
    assert_eq!(full["metadata"], json!({"public": true}));
    assert_eq!(full["worker_name"], "skills");

    for data in [json!({"a": [1, 2.5, null, "é"]}), json!("text"), json!(null), json!([])] {
        assert_eq!(peer.call("own::full", data.clone()).await["result"], data, "{data:?}");
    }
    // A second registration replaces the first.
    let other = |_: FunctionCall| async { Ok::<_, CallError>(Json::from(&json!("new"))) };
    bus.register_function(spec("own::bare"), Arc::new(other));
    handled(&bus).await;
    assert_eq!(peer.call("own::bare", json!({})).await["result"], "new");
    bus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_caller_id_is_passed_beside_the_payload() {
    let test = TestHub::start().await;
    let bus = attach(&test.url(), "skills").await;
    let tell = |call: FunctionCall| async move {
        Ok::<_, CallError>(Json::from(&json!([call.caller.worker_id(), call.data])))
    };
    bus.register_function(spec("own::tell"), Arc::new(tell));
    let other = attach(&test.url(), "other").await;
    let answer = call(&other, "own::tell", json!({"x": 1})).await;
    assert_eq!(answer[1], json!({"x": 1}));
    let workers = call(&other, "engine::workers::list", json!({})).await;
    let row = workers["workers"].as_array().unwrap().iter().find(|row| row["name"] == "other");
    assert_eq!(answer[0], row.unwrap()["id"]);
    bus.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_keep_their_codes_in_both_directions() {
    let test = TestHub::start().await;
    let bus = attach(&test.url(), "skills").await;
    let fail =
        |_: FunctionCall| async { Err::<Json, _>(CallError::remote("skill_not_found", "no such")) };
    bus.register_function(spec("own::fail"), Arc::new(fail));
    let crash = |call: FunctionCall| async move {
        let n: Vec<u8> = Vec::new();
        Ok::<_, CallError>(Json::from(&json!(n[call.data.as_str().len()])))
    };
    bus.register_function(spec("own::crash"), Arc::new(crash));
    bus.register_function(spec("own::ready"), echo());
    call(&bus, "own::ready", json!(1)).await;

    let mut peer = test.peer().await;
    let answer = peer.call("own::fail", json!({})).await;
    assert_eq!(answer["error"], json!({"code": "skill_not_found", "message": "no such"}));
    let answer = peer.call("own::crash", json!({})).await;
    assert_eq!(answer["error"]["code"], "invocation_failed");
    assert_eq!(answer["error"].get("stacktrace"), None);

    let error = bus.call("own::fail", Json::null(), DEADLINE).await.unwrap_err();
    assert_eq!(error, CallError::remote("skill_not_found", "no such"));
    let error = bus.call("no::such", Json::null(), DEADLINE).await.unwrap_err();
    assert_eq!(error, CallError::NotFound("no::such".into()));

    let mut worker = test.worker(&["w::silent"]).await;
    let error = bus.call("w::silent", Json::null(), Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.code().as_str(), "timeout");
    worker.expect("invokefunction").await;
    let calling = tokio::spawn({
        let bus = bus.clone();
        async move { bus.call("w::silent", Json::null(), DEADLINE).await }
    });
    worker.expect("invokefunction").await;
    drop(worker);
    assert_eq!(calling.await.unwrap().unwrap_err(), CallError::Stopped("w::silent".into()));
    let large = Json::from(&json!("x".repeat(65 * MIB)));
    assert_eq!(
        bus.call("own::ready", large, DEADLINE).await.unwrap_err().code().as_str(),
        "payload_too_large"
    );
    bus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_start_in_order() {
    let test = TestHub::start().await;
    let bus = attach(&test.url(), "skills").await;
    let log = Arc::new(EventLog::default());
    let gate = Arc::new(Semaphore::new(0));
    let function = {
        let (log, gate) = (log.clone(), gate.clone());
        move |call: FunctionCall| {
            log.add(call.data.as_str());
            let gate = gate.clone();
            async move {
                let _open = gate.acquire().await;
                // Tasks it spawns run in this process.
                tokio::spawn(async {}).await.unwrap();
                Ok::<_, CallError>(call.data)
            }
        }
    };
    bus.register_function(spec("own::slow"), Arc::new(function));
    bus.register_function(spec("own::ready"), echo());
    call(&bus, "own::ready", json!(1)).await;
    let mut peer = test.peer().await;
    for n in 0..200 {
        peer.start_call(&uuid::Uuid::new_v4().to_string(), "own::slow", json!(n)).await;
    }
    log.len(200).await;
    assert_eq!(log.lines(), (0..200).map(|n| n.to_string()).collect::<Vec<_>>());
    gate.add_permits(200);
    for _ in 0..200 {
        assert!(peer.expect("invocationresult").await["result"].is_number());
    }
    bus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_connection_a_call_fails_at_once_and_is_never_sent() {
    let test = TestHub::start().await;
    let url = test.url();
    let port = test.stop().await;
    let bus = EngineBus::connect(config(&url, "skills")).unwrap();
    let error = bus.call("w::count", Json::null(), DEADLINE).await.unwrap_err();
    assert_eq!(error, CallError::Disconnected("w::count".into()));
    assert_eq!(error.code().as_str(), "not_connected");

    let test = TestHub::at(port, Default::default()).await;
    let mut worker = test.worker(&["w::count"]).await;
    connected(&bus).await;
    let calling = tokio::spawn({
        let bus = bus.clone();
        async move { bus.call("w::count", Json::from(&json!("second")), DEADLINE).await }
    });
    let invoke = worker.expect("invokefunction").await;
    assert_eq!(invoke["data"], "second", "the first was never made");
    worker.answer(&invoke, json!("done")).await;
    assert_eq!(calling.await.unwrap().unwrap().as_str(), "\"done\"");
    bus.shutdown().await;
}
