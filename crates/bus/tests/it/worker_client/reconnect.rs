//! Reconnects: what is sent again and what is not.

use std::{process::Stdio, sync::Arc, time::Duration};

use serde_json::json;
use skills_bus::{CallError, FunctionCall, Json, TriggerTypeSpec};
use tokio::sync::Semaphore;

use super::{FakeServer, ServerLink, Worker, options};
use crate::test_hub::{DEADLINE, MIB, echo, spec};

/// Reads the registrations up to a subscription, as pairs of type and id.
async fn registrations(link: &mut ServerLink<tokio::net::TcpStream>) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    loop {
        let frame = link.recv().await;
        let text = |key: &str| frame[key].as_str().unwrap_or_default().to_owned();
        let id = if text("type") == "registertrigger" { text("trigger_type") } else { text("id") };
        seen.push((text("type"), id));
        if frame["type"] == "registertrigger" && frame["trigger_type"] == "z::last" {
            return seen;
        }
    }
}

#[tokio::test]
async fn registrations_are_sent_on_each_connection() {
    let server = FakeServer::start().await;
    let worker = Worker::start(options(&server.url()));
    let client = &worker.client;
    let trigger_type = TriggerTypeSpec { id: "w::type".into(), ..TriggerTypeSpec::default() };
    client.register_trigger_type(&trigger_type);
    client.register_function(&spec("w::a"), echo(), false);
    let ended = client.subscribe("x::type", "w::a", &Json::null()).unwrap();
    let mut link = server.greet().await;
    link.next("registertrigger").await;
    client.unsubscribe(&ended);
    assert_eq!(link.next("unregistertrigger").await["trigger_type"], "x::type");
    drop(link);
    worker.lost().await;
    // Added without a connection.
    client.register_function(&spec("w::b"), echo(), false);
    client.subscribe("z::last", "w::b", &Json::from(&json!({"k": 1}))).unwrap();
    for _ in 0..2 {
        let mut link = server.greet().await;
        let seen = registrations(&mut link).await;
        let seen: Vec<_> = seen.iter().map(|(kind, id)| (kind.as_str(), id.as_str())).collect();
        assert_eq!(
            seen,
            [
                ("reattach", ""),
                ("invokefunction", ""),
                ("registertriggertype", "w::type"),
                ("registerfunction", "w::a"),
                ("registerfunction", "w::b"),
                ("registertrigger", "z::last"),
            ]
        );
    }
    client.shutdown().await;
}

#[tokio::test]
async fn calls_and_results_are_not_sent_again() {
    let server = FakeServer::start().await;
    let worker = Worker::start(options(&server.url()));
    let gate = Arc::new(Semaphore::new(0));
    let slow = {
        let gate = Arc::clone(&gate);
        move |call: FunctionCall| {
            let gate = Arc::clone(&gate);
            async move {
                let _open = gate.acquire().await;
                Ok::<_, CallError>(call.data)
            }
        }
    };
    worker.client.register_function(&spec("w::slow"), Arc::new(slow), false);
    let mut link = server.greet().await;
    worker.connected(1).await;
    let call = worker.call("x::never", Json::null(), Duration::from_secs(2));
    let late = worker.call("x::late", Json::null(), DEADLINE);
    let mut sent = [link.next_call().await, link.next_call().await];
    sent.sort_by_key(|call| call["function_id"].to_string());
    link.send(&json!({"type": "invokefunction", "function_id": "w::slow", "data": 1,
        "invocation_id": "7d444840-9dc0-11d1-b245-5ffdce74fad2"}))
        .await;
    link.send(&json!({"type": "ping"})).await;
    link.next("pong").await;
    drop(link);
    let mut link = server.greet().await;
    worker.connected(2).await;
    gate.add_permits(1);
    // A server may still answer a call of the previous connection.
    link.answer(&sent[0], json!("late")).await;
    assert_eq!(late.await.unwrap().unwrap().as_str(), "\"late\"");
    assert!(matches!(call.await.unwrap(), Err(CallError::Timeout { .. })));
    link.send(&json!({"type": "ping"})).await;
    loop {
        let frame = link.recv().await;
        match frame["type"].as_str().unwrap() {
            "pong" => break,
            "invokefunction" => assert_eq!(frame["function_id"], "engine::workers::register"),
            kind => assert_ne!(kind, "invocationresult", "of a call that is over"),
        }
    }
    worker.client.shutdown().await;
}

#[tokio::test]
async fn a_call_that_was_not_sent_fails_at_once() {
    let server = FakeServer::start().await;
    let worker = Worker::start(options(&server.url()));
    let link = server.greet().await;
    worker.connected(1).await;
    // The server does not read: the first call fills the socket, the second one waits behind it.
    let large = Json::from(&json!("x".repeat(32 * MIB)));
    let first = worker.call("x::large", large, Duration::from_secs(2));
    tokio::task::yield_now().await;
    let second = worker.call("x::small", Json::null(), 10 * DEADLINE);
    tokio::task::yield_now().await;
    drop(link);
    let error = second.await.unwrap().unwrap_err();
    assert_eq!(error, CallError::Disconnected("x::small".into()));
    first.await.unwrap().unwrap_err();
    worker.client.shutdown().await;
}

#[tokio::test]
async fn calls_for_another_connection_are_not_sent() {
    let server = FakeServer::start().await;
    let worker = Worker::start(options(&server.url()));
    let _link = server.greet().await;
    worker.connected(1).await;
    let call = skills_bus::client::WorkerCall {
        function_id: "x::y",
        data: &Json::null(),
        namespace: None,
        metadata: None,
        epoch: Some(2),
    };
    let error = worker.client.start_call(&call).unwrap_err();
    assert_eq!(error, CallError::Disconnected("x::y".into()));
    worker.client.shutdown().await;
}

/// Reconnects of the memory test; `SKILLS_TEST_RECONNECTS` sets another number.
const RECONNECTS: u64 = 1000;

/// Growth that the allocator and the runtime may cause.
const MAX_GROWTH: u64 = 6 << 20;

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 =
        statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * 4096
}

/// Runs in a process of its own: other tests would change the memory of this one.
#[tokio::test]
#[ignore = "a child of memory_is_flat_over_many_reconnects"]
async fn reconnect_many_times() {
    let wanted = std::env::var("SKILLS_TEST_RECONNECTS").ok().and_then(|n| n.parse().ok());
    let wanted: u64 = wanted.unwrap_or(RECONNECTS);
    let server = FakeServer::start().await;
    let worker = Worker::start(options(&server.url()));
    worker.client.register_function(&spec("w::echo"), echo(), false);
    worker.client.subscribe("x::type", "w::echo", &Json::null()).unwrap();
    let mut warm = 0;
    for round in 1..=wanted {
        let mut link = server.greet().await;
        worker.connected(round).await;
        let call = worker.call("x::y", Json::from(&json!({"n": round})), DEADLINE);
        let invoke = link.next_call().await;
        link.answer(&invoke, json!(round)).await;
        call.await.unwrap().unwrap();
        if round == wanted / 5 {
            warm = resident();
        }
    }
    let growth = resident().saturating_sub(warm);
    println!("{wanted} reconnects: {growth} bytes more than after a fifth of them");
    assert!(growth < MAX_GROWTH, "{growth} bytes");
}

#[test]
fn memory_is_flat_over_many_reconnects() {
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "worker_client::reconnect::reconnect_many_times"])
        .stdout(Stdio::inherit())
        .status()
        .unwrap();
    assert!(status.success());
}
