//! Connecting, staying connected, coming back and being let go.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::*;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use skills_bus::{Bus as _, CallError, HubConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::{Error, Message};

#[tokio::test]
async fn the_first_frame_greets_the_worker() {
    let test = TestHub::start().await;
    let (mut ws, response) = dial_with(&test.url(), &[]).await.unwrap();
    assert_eq!(response.headers()["x-iii-capabilities"], "tcp-nodelay");
    let Some(Ok(Message::Text(text))) = ws.next().await else { panic!("no greeting") };
    let frame: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(frame["type"], "workerregistered");
    assert_eq!(frame["features"], json!(["observe.v1", "observe.v2"]));
    assert!(uuid::Uuid::try_parse(frame["worker_id"].as_str().unwrap()).is_ok());
    assert!(uuid::Uuid::try_parse(frame["reattach_token"].as_str().unwrap()).is_ok());
    assert_ne!(frame["worker_id"], frame["reattach_token"]);
}

async fn http(test: &TestHub, request: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(test.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_plain_get_is_told_what_this_is() {
    let test = TestHub::start().await;
    let answer = http(&test, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 426 "), "{answer}");
    assert!(answer.contains("iii workers"), "{answer}");
    assert!(answer.contains("x-iii-capabilities: tcp-nodelay"), "{answer}");
}

fn status(error: Box<Error>) -> (u16, serde_json::Value) {
    let Error::Http(response) = *error else { panic!("{error}") };
    let body = response.body().clone().unwrap_or_default();
    (response.status().as_u16(), serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn channels_are_not_found() {
    let test = TestHub::start().await;
    let refused =
        dial(&format!("{}/ws/channels/abc?key=k&dir=read", test.url())).await.unwrap_err();
    let Error::Http(response) = *refused else { panic!("{refused}") };
    assert_eq!(response.status(), 404);
    assert_eq!(response.body().as_deref().unwrap(), b"Channel not found");
}

#[tokio::test]
async fn a_token_is_checked_on_every_route() {
    let config = HubConfig { token: Some("s3cret/+ &".into()), ..HubConfig::default() };
    let test = TestHub::with(config).await;
    for path in ["/", "/otel", "/ws/channels/x"] {
        let url = format!("{}{path}", test.url());
        for headers in
            [vec![], vec![("authorization", "Bearer wrong")], vec![("authorization", "s3cret/+ &")]]
        {
            let (code, body) = status(dial_with(&url, &headers).await.unwrap_err());
            assert_eq!(code, 401, "{path} {headers:?}");
            assert_eq!(body["error"]["code"], "unauthorized");
        }
    }
    let (code, _) = status(dial(&format!("{}/?token=wrong", test.url())).await.unwrap_err());
    assert_eq!(code, 401);
    let right = [("authorization", "Bearer s3cret/+ &")];
    assert!(dial_with(&test.url(), &right).await.is_ok());
    assert!(dial_with(&format!("{}/otel", test.url()), &right).await.is_ok());
    assert!(dial(&format!("{}/?x=1&token=s3cret%2F%2B%20%26", test.url())).await.is_ok());
}

#[tokio::test]
async fn web_pages_of_other_hosts_are_refused() {
    let test = TestHub::start().await;
    for origin in
        ["http://evil.example", "https://localhost.evil.example", "null", "http://192.168.0.1"]
    {
        let (code, body) = status(dial_with(&test.url(), &[("origin", origin)]).await.unwrap_err());
        assert_eq!(
            (code, body["error"]["code"].as_str()),
            (403, Some("forbidden_origin")),
            "{origin}"
        );
    }
    for origin in
        ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:8080", "https://app.localhost"]
    {
        assert!(dial_with(&test.url(), &[("origin", origin)]).await.is_ok(), "{origin}");
    }
}

#[tokio::test]
async fn telemetry_is_drained_and_never_answered() {
    let test = TestHub::start().await;
    let mut ws = dial(&format!("{}/otel", test.url())).await.unwrap();
    for _ in 0..100 {
        ws.send(Message::binary([b"OTLP".as_slice(), &[b'x'; 100_000]].concat())).await.unwrap();
    }
    ws.send(Message::text("not json")).await.unwrap();
    ws.send(Message::Ping("still there?".into())).await.unwrap();
    let pong = loop {
        match tokio::time::timeout(DEADLINE, ws.next()).await.unwrap().unwrap().unwrap() {
            Message::Ping(_) => {}
            other => break other,
        }
    };
    assert_eq!(pong, Message::Pong("still there?".into()));
    assert_eq!(test.hub.workers(), 0, "a telemetry connection is not a worker");
}

#[tokio::test]
async fn websocket_and_json_pings_are_answered() {
    let test = TestHub::start().await;
    let mut peer = test.peer().await;
    peer.ws.send(Message::Ping("x".into())).await.unwrap();
    assert_eq!(peer.ws.next().await.unwrap().unwrap(), Message::Pong("x".into()));
    peer.send(json!({"type": "ping"})).await;
    peer.expect("pong").await;
    peer.send(json!({"type": "pong"})).await;
    assert!(peer.barrier().await.is_empty());
}

#[tokio::test]
async fn a_silent_peer_is_pinged_and_then_dropped() {
    let config = HubConfig {
        ping_every: Duration::from_millis(100),
        silence: Duration::from_secs(2),
        ..HubConfig::default()
    };
    let test = TestHub::with(config).await;
    // A peer that reads answers pings without being asked, and stays.
    let mut alive = test.peer().await;
    // A socket that nobody reads sends no pongs.
    let silent = test.peer().await;
    let listening = async {
        while test.hub.workers() > 1 {
            let _ = tokio::time::timeout(Duration::from_millis(20), alive.ws.next()).await;
        }
    };
    tokio::time::timeout(DEADLINE, listening).await.expect("the silent peer is dropped");
    assert!(alive.barrier().await.is_empty());
    drop(silent);
}

#[tokio::test]
async fn reattach_replaces_the_old_connection() {
    let test = TestHub::start().await;
    let mut old = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    caller.start_call("1", "a::f", json!({})).await;
    old.expect("invokefunction").await;

    let mut new = test.peer().await;
    new.send(
        json!({"type": "reattach", "previous_worker_id": old.id, "reattach_token": old.token}),
    )
    .await;
    new.identify(json!({"version": "0.25.0", "runtime": "rust"})).await;
    new.send(json!({"type": "registerfunction", "id": "a::f"})).await;
    assert!(new.barrier().await.is_empty(), "no conflict: the old registration is gone");

    let stopped = caller.expect("invocationresult").await;
    assert_eq!(stopped["error"]["code"], "invocation_stopped");
    old.ended().await;
    assert_eq!(test.hub.workers(), 2);

    caller.start_call("2", "a::f", json!({})).await;
    let invoke = new.expect("invokefunction").await;
    new.answer(&invoke, json!("new")).await;
    assert_eq!(caller.expect("invocationresult").await["result"], "new");
}

#[tokio::test]
async fn reattach_with_a_wrong_token_changes_nothing() {
    let test = TestHub::start().await;
    let mut old = test.worker(&["a::f"]).await;
    let mut thief = test.peer().await;
    for token in [json!("guess"), json!(null), json!(thief.token)] {
        thief
            .send(
                json!({"type": "reattach", "previous_worker_id": old.id, "reattach_token": token}),
            )
            .await;
        assert_eq!(thief.expect("error").await["error"]["code"], "reattach_refused");
    }
    // A hub that has restarted does not know the id: that is no error.
    thief
        .send(json!({"type": "reattach", "previous_worker_id": "gone", "reattach_token": "x"}))
        .await;
    assert!(thief.barrier().await.is_empty());
    thief.start_call("1", "a::f", json!({})).await;
    let invoke = old.expect("invokefunction").await;
    old.answer(&invoke, json!(1)).await;
    assert_eq!(thief.expect("invocationresult").await["result"], 1);
}

#[tokio::test]
async fn stopping_lets_running_calls_finish_and_refuses_new_ones() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    caller.start_call("1", "a::f", json!({})).await;
    let invoke = worker.expect("invokefunction").await;

    test.shutdown.cancel();
    // The stop is noticed by a refused call, not by a pause.
    let mut calls = 0;
    let refused = loop {
        calls += 1;
        let answer = caller.call("no::such", json!({})).await;
        if answer["error"]["code"] == "shutting_down" {
            break answer;
        }
        assert!(calls < 100_000);
    };
    assert!(refused["error"]["message"].as_str().unwrap().contains("shutting down"));

    worker.answer(&invoke, json!("finished")).await;
    let answer = caller.expect("invocationresult").await;
    assert_eq!(
        (answer["invocation_id"].as_str(), answer["result"].as_str()),
        (Some("1"), Some("finished"))
    );
    assert_eq!(caller.close_code().await, Some(1012));
    assert_eq!(worker.close_code().await, Some(1012));
    test.served.await.unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(test.address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn stopping_does_not_wait_for_ever() {
    let config = HubConfig { drain: Duration::from_millis(100), ..HubConfig::default() };
    let test = TestHub::with(config).await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    caller.start_call("1", "a::f", json!({})).await;
    worker.expect("invokefunction").await;
    // Peers that do not answer the close, and one that has not finished its handshake.
    let _half_open = tokio::net::TcpStream::connect(test.address).await.unwrap();
    let start = std::time::Instant::now();
    test.shutdown.cancel();
    test.served.await.unwrap().unwrap();
    assert!(start.elapsed() < DEADLINE / 2, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_handshake_must_come_in_time() {
    let config = HubConfig { handshake: Duration::from_millis(50), ..HubConfig::default() };
    let test = TestHub::with(config).await;
    let mut stream = tokio::net::TcpStream::connect(test.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost:").await.unwrap();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection is ended");
}

#[tokio::test]
async fn a_call_of_this_process_sees_each_failure_by_name() {
    let test = TestHub::start().await;
    let timeout = Duration::from_millis(50);
    let null = || payload(&json!(null));
    let missing = test.hub.call("no::such", null(), timeout).await.unwrap_err();
    assert_eq!(missing, CallError::NotFound("no::such".into()));

    let mut worker = test.worker(&["a::slow"]).await;
    let slow = test.hub.call("a::slow", null(), timeout).await.unwrap_err();
    assert_eq!(slow, CallError::Timeout { function_id: "a::slow".into(), after: timeout });
    let late = worker.expect("invokefunction").await;
    assert_eq!(late["data"], json!(null));
    worker.answer(&late, json!("too late")).await;

    let (stopped, _) = tokio::join!(test.hub.call("a::slow", null(), DEADLINE), async {
        worker.expect("invokefunction").await;
        worker.ws.close(None).await.unwrap();
    });
    assert_eq!(stopped.unwrap_err(), CallError::Stopped("a::slow".into()));
}
