//! Connection life cycle of `EngineBus`.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use skills_bus::{Bus as _, CallError, FunctionCall, HubConfig, Json};
use skills_core::Coded as _;
use skills_engine::{ConnectionState, EngineBus, EngineConfig, EngineError};
use tokio::sync::Semaphore;

use crate::support::*;
use crate::test_hub::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registrations_are_restored_after_an_engine_restart() {
    let test = TestHub::start().await;
    let bus = attach(&test.url(), "skills").await;
    bus.register_function(spec("own::echo"), echo());
    let provider = provide(&bus, "own::on-change");
    let received = listen(&bus, "own::heard");
    let other = attach(&test.url(), "other").await;
    let source = provide(&other, "other::type");
    let subscription = bus.subscribe("other::type", "own::heard", &Json::from(&json!({}))).unwrap();
    source.len(1).await;

    let port = test.stop().await;
    let lost = state(&bus, |state| matches!(state, ConnectionState::Lost { .. })).await;
    assert_ne!(lost.epoch(), Some(1));
    state(&other, |state| state.epoch().is_none()).await;

    let test = TestHub::at(port, HubConfig::default()).await;
    assert_eq!(epoch_from(&bus, 2).await, 2);
    assert_eq!(epoch_from(&other, 2).await, 2);
    assert_eq!(call(&other, "own::echo", json!("again")).await, "again");
    let types = call(&other, "engine::trigger-types::list", json!({})).await;
    let ids: Vec<&str> = types["trigger_types"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["id"].as_str())
        .collect();
    assert_eq!(ids, ["other::type", "own::on-change"]);
    let bound = call(&other, "engine::registered-triggers::list", json!({})).await;
    assert_eq!(bound["registered_triggers"][0]["function_id"], "own::heard");
    other.notify("own::heard", Json::from(&json!(7)), None).await.unwrap();
    received.has("7").await;
    assert_eq!(source.lines().len(), 1, "the same subscription: {:?}", source.lines());
    assert!(provider.lines().is_empty());
    subscription.end();
    until("it is gone", || source.lines().len() == 2).await;
    bus.shutdown().await;
    other.shutdown().await;
    assert!(matches!(&*bus.connection().borrow(), ConnectionState::Lost { .. }));
    test.stop().await;
}

/// On one thread, so that no attempt to connect ends before the first assertion.
#[tokio::test]
async fn the_bus_may_start_before_the_engine() {
    let test = TestHub::start().await;
    let url = test.url();
    let port = test.stop().await;
    let bus = EngineBus::connect(config(&url, "skills")).unwrap();
    assert_eq!(*bus.connection().borrow(), ConnectionState::Connecting);
    bus.register_function(spec("own::echo"), echo());
    let lost = state(&bus, |state| matches!(state, ConnectionState::Lost { .. })).await;
    let ConnectionState::Lost { reason } = lost else { panic!() };
    assert!(reason.contains("refused"), "{reason}");
    let test = TestHub::at(port, HubConfig::default()).await;
    assert_eq!(connected(&bus).await, 1);
    // The call of another connection may overtake the registration.
    let mut peer = test.peer().await;
    let answered = async { while peer.call("own::echo", json!(1)).await["result"] != 1 {} };
    tokio::time::timeout(DEADLINE, answered).await.expect("the function is registered");
    bus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_and_headers_are_sent_and_a_wrong_token_is_reported() {
    let hub = HubConfig { token: Some("right".into()), ..HubConfig::default() };
    let test = TestHub::with(hub).await;
    let with = |token: Option<&str>, headers: Vec<(String, String)>| EngineConfig {
        token: token.map(str::to_owned),
        headers,
        ..config(&test.url(), "skills")
    };
    for token in [None, Some("wrong")] {
        let bus = EngineBus::connect(with(token, Vec::new())).unwrap();
        let lost = state(&bus, |state| matches!(state, ConnectionState::Lost { .. })).await;
        let ConnectionState::Lost { reason } = lost else { panic!() };
        assert!(reason.contains("token") && !reason.contains("wrong"), "{reason}");
        bus.shutdown().await;
    }
    let bus = EngineBus::connect(with(Some("right"), Vec::new())).unwrap();
    connected(&bus).await;
    bus.shutdown().await;
    let header = ("Authorization".to_owned(), "Bearer right".to_owned());
    let bus = EngineBus::connect(with(None, vec![header])).unwrap();
    connected(&bus).await;
    bus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_after_the_handshake_is_reported_with_its_reason() {
    let engine = FakeEngine::start().await;
    let bus = EngineBus::connect(config(&engine.url(), "skills")).unwrap();
    let refusing = tokio::spawn(async move {
        loop {
            let mut link = engine.accept().await;
            link.send(json!({"type": "error",
                "error": {"code": "AUTH_ERROR", "message": "who are you"}}))
                .await;
            let _ = link.0.close(None).await;
        }
    });
    let refused = state(&bus, |state| {
        assert_eq!(state.epoch(), None, "it has not greeted");
        matches!(state, ConnectionState::Lost { reason } if reason.contains("who are you (AUTH_ERROR)"))
    });
    refused.await;
    refusing.abort();
    bus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_worker_name_ends_the_connection() {
    let hub = HubConfig { unique_names: true, ..HubConfig::default() };
    let test = TestHub::with(hub).await;
    let first = attach(&test.url(), "skills").await;
    let second = EngineBus::connect(config(&test.url(), "skills")).unwrap();
    let rejected = state(&second, |state| matches!(state, ConnectionState::Rejected { .. })).await;
    let ConnectionState::Rejected { reason } = rejected else { panic!() };
    assert!(reason.contains("WORKER_NAMESPACE_CONFLICT") && reason.contains("skills"), "{reason}");
    let error = second.call("x::y", Json::null(), DEADLINE).await.unwrap_err();
    assert_eq!(error.code().as_str(), "not_connected");
    let error = second.notify("x::y", Json::null(), None).await.unwrap_err();
    assert_eq!(error.code().as_str(), "not_connected");
    second.shutdown().await;
    // The first worker stays connected; an older SDK has no names.
    assert_eq!(first.connection().borrow().epoch(), Some(1));
    let mut old = test.sdk("rust", "0.11.3").await;
    old.identify(json!({"runtime": "rust", "version": "0.11.3", "name": "skills"})).await;
    first.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_answers_running_calls_and_accepts_no_more() {
    let test = TestHub::start().await;
    let config = EngineConfig { drain_timeout: DEADLINE, ..config(&test.url(), "skills") };
    let bus = EngineBus::connect(config).unwrap();
    connected(&bus).await;
    let gate = Arc::new(Semaphore::new(0));
    let log = Arc::new(EventLog::default());
    let slow = {
        let (gate, log) = (gate.clone(), log.clone());
        move |call: FunctionCall| {
            let gate = gate.clone();
            log.add(call.data.as_str());
            async move {
                let _open = gate.acquire().await;
                Ok::<_, CallError>(call.data)
            }
        }
    };
    bus.register_function(spec("own::slow"), Arc::new(slow));
    bus.register_function(spec("own::ready"), echo());
    call(&bus, "own::ready", json!(1)).await;
    let mut peer = test.peer().await;
    for n in 0..50 {
        peer.start_call(&uuid::Uuid::new_v4().to_string(), "own::slow", json!(n)).await;
    }
    log.len(50).await;
    let closing = tokio::spawn({
        let bus = bus.clone();
        async move { bus.shutdown().await }
    });
    // Until the bus closes, a new call may still be accepted.
    loop {
        let answer = peer.call("own::ready", json!(1)).await;
        match answer["error"]["code"].as_str() {
            None => {}
            Some(code) => {
                assert_eq!(code, "shutting_down");
                break;
            }
        }
    }
    gate.add_permits(50);
    for _ in 0..50 {
        let answer = peer.expect("invocationresult").await;
        assert!(answer["result"].is_number(), "{answer}");
    }
    tokio::time::timeout(DEADLINE, closing).await.expect("it ends with the calls").unwrap();
    until("the connection is closed", || test.hub.worker_count() == 1).await;
    assert_eq!(
        bus.call("x::y", Json::null(), DEADLINE).await.unwrap_err(),
        CallError::Disconnected("x::y".into())
    );
    assert_eq!(
        bus.notify("x::y", Json::null(), None).await.unwrap_err().code().as_str(),
        "not_connected"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_has_a_deadline() {
    let test = TestHub::start().await;
    let bus = attach(&test.url(), "skills").await;
    let log = Arc::new(EventLog::default());
    let never = {
        let log = log.clone();
        move |_: FunctionCall| {
            log.add("began");
            std::future::pending::<Result<Json, CallError>>()
        }
    };
    bus.register_function(spec("own::never"), Arc::new(never));
    bus.register_function(spec("own::ready"), echo());
    call(&bus, "own::ready", json!(1)).await;
    let mut peer = test.peer().await;
    peer.start_call(&uuid::Uuid::new_v4().to_string(), "own::never", json!(1)).await;
    log.len(1).await;
    let pending = tokio::spawn({
        let bus = bus.clone();
        async move { bus.call("own::never", Json::null(), 10 * DEADLINE).await }
    });
    log.len(2).await;
    tokio::time::timeout(DEADLINE, bus.shutdown()).await.expect("it ends by itself");
    assert_eq!(pending.await.unwrap().unwrap_err().code().as_str(), "not_connected");
    let answer = peer.expect("invocationresult").await;
    assert_eq!(answer["error"]["code"], "invocation_stopped");
    // Shutdown without any connection.
    let bus = EngineBus::connect(config("ws://127.0.0.1:9", "skills")).unwrap();
    tokio::time::timeout(DEADLINE, bus.shutdown()).await.expect("it ends by itself");
}

/// The connection breaks after the call was sent; the answer arrives over the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_delivered_over_the_next_connection() {
    let test = TestHub::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let log = Arc::new(EventLog::default());
    let slow = {
        let (gate, log) = (gate.clone(), log.clone());
        move |call: FunctionCall| {
            log.add("began");
            let gate = gate.clone();
            async move {
                let _open = gate.acquire().await;
                Ok::<_, CallError>(call.data)
            }
        }
    };
    test.hub.register_function(spec("hub::slow"), Arc::new(slow));
    let mut worker = test.worker(&["w::slow"]).await;
    let proxy = Proxy::to(test.address).await;
    let bus = attach(&proxy.url(), "skills").await;
    let calls: Vec<_> = ["hub::slow", "w::slow"]
        .into_iter()
        .map(|id| {
            let bus = bus.clone();
            tokio::spawn(async move { bus.call(id, Json::from(&json!("kept")), DEADLINE).await })
        })
        .collect();
    log.len(1).await;
    let invoke = worker.expect("invokefunction").await;
    proxy.cut();
    until("the hub has noticed", || test.hub.worker_count() == 1).await;
    // One worker answers while the caller is disconnected, the other afterwards.
    worker.answer(&invoke, json!("kept")).await;
    worker.barrier().await;
    proxy.mend();
    epoch_from(&bus, 2).await;
    gate.add_permits(1);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().as_str(), "\"kept\"");
    }
    bus.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_on_a_broken_connection_ends_with_its_timeout() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["w::silent"]).await;
    let proxy = Proxy::to(test.address).await;
    let bus = attach(&proxy.url(), "skills").await;
    let calling = tokio::spawn({
        let bus = bus.clone();
        async move { bus.call("w::silent", Json::null(), Duration::from_secs(2)).await }
    });
    worker.expect("invokefunction").await;
    proxy.cut();
    let ended = tokio::time::timeout(DEADLINE, calling).await.expect("it ends by itself");
    assert_eq!(ended.unwrap().unwrap_err().code().as_str(), "timeout");
    bus.shutdown().await;
}

#[tokio::test]
async fn invalid_settings_are_refused_at_once() {
    for url in ["http://127.0.0.1:49134", "nonsense", ""] {
        let error = EngineBus::connect(config(url, "skills")).unwrap_err();
        assert!(matches!(error, EngineError::BadUrl { .. }), "{url}: {error}");
    }
    let headers = vec![("x y".to_owned(), "z".to_owned())];
    let config = EngineConfig { headers, ..config("ws://127.0.0.1:9", "skills") };
    assert_eq!(EngineBus::connect(config).unwrap_err(), EngineError::BadHeader("x y".into()));
}
