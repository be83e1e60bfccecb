//! Handshake, keepalive, reattachment and shutdown.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use skills_bus::{Bus as _, CallError, EngineMode, HubConfig};
use skills_core::origin::WebHost;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::test_hub::*;

#[tokio::test]
async fn engine_modes_differ_in_greeting_and_capabilities() {
    let modes = [
        (EngineMode::default(), true, Some(json!(["observe.v1", "observe.v2"])), true),
        (EngineMode::V0_11, false, None, false),
        (EngineMode::V0_23, false, None, true),
        (EngineMode::V0_25, true, Some(json!(["observe.v1", "local-dispatch.v1"])), true),
        (
            EngineMode::V0_26,
            true,
            Some(json!(["observe.v1", "observe.v2", "local-dispatch.v1"])),
            true,
        ),
    ];
    for (engine_mode, declares_nodelay, features, has_token) in modes {
        let test = TestHub::with(HubConfig { engine_mode, ..HubConfig::default() }).await;
        let (mut socket, response) = dial_with(&test.url(), &[]).await.unwrap();
        let is_declared = response.headers().contains_key("x-iii-capabilities");
        assert_eq!(is_declared, declares_nodelay, "{engine_mode:?}");
        let first = socket.next().await.unwrap().unwrap().into_text().unwrap();
        let greeting: Value = serde_json::from_str(&first).unwrap();
        assert_eq!(greeting["type"], "workerregistered");
        assert_eq!(greeting.get("features"), features.as_ref(), "{engine_mode:?}");
        assert_eq!(greeting.get("reattach_token").is_some(), has_token, "{engine_mode:?}");
    }
}

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
async fn a_plain_get_describes_the_server() {
    let test = TestHub::start().await;
    let answer =
        http(&test, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
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
            assert_eq!(body["error"]["code"], "unauthorized", "{path:?}");
        }
    }
    let (code, _) = status(dial(&format!("{}/?token=wrong", test.url())).await.unwrap_err());
    assert_eq!(code, 401);
    let right = [("authorization", "Bearer s3cret/+ &")];
    assert!(dial_with(&test.url(), &right).await.is_ok());
    assert!(dial_with(&format!("{}/otel", test.url()), &right).await.is_ok());
    assert!(dial(&format!("{}/?x=1&token=s3cret%2F%2B%20%26", test.url())).await.is_ok());
}

/// A page whose name was rebound to this machine sends no origin with its own requests.
#[tokio::test]
async fn requests_that_name_another_host_are_refused() {
    let allowed_hosts = vec![WebHost::Name("bus.example".to_owned())];
    let test = TestHub::with(HubConfig { allowed_hosts, ..HubConfig::default() }).await;
    for path in ["/proof", "/", "/otel"] {
        for (host, status) in [
            ("Host: evil.example\r\n", Some("403")),
            ("Host: 192.168.0.1\r\n", Some("403")),
            ("Host: a b\r\n", Some("400")),
            ("", Some("400")),
            ("Host: localhost:1\r\n", None),
            ("Host: 127.0.0.1\r\n", None),
            ("Host: bus.example\r\n", None),
        ] {
            let request = format!("GET {path} HTTP/1.1\r\n{host}Connection: close\r\n\r\n");
            let answer = http(&test, &request).await;
            let is_refused = ["403", "400"].iter().find(|status| answer.contains(*status));
            assert_eq!(is_refused.copied(), status, "{path} {host}: {answer}");
        }
    }
    // Browsers send an origin with a handshake; workers use names of their network.
    assert!(dial_with(&test.url(), &[("host", "bus.internal")]).await.is_ok());
}

#[tokio::test]
async fn origins_of_other_hosts_and_of_content_ports_are_refused() {
    let config = HubConfig { content_ports: vec![80, 47372], ..HubConfig::default() };
    let test = TestHub::with(config).await;
    for origin in [
        "http://evil.example",
        "https://localhost.evil.example",
        "null",
        "http://192.168.0.1",
        "https://app.localhost",
        "http://127.0.0.2",
        "file://localhost",
        "http://localhost:47372",
        "http://127.0.0.1",
    ] {
        let (code, body) = status(dial_with(&test.url(), &[("origin", origin)]).await.unwrap_err());
        assert_eq!(
            (code, body["error"]["code"].as_str()),
            (403, Some("forbidden_origin")),
            "{origin}"
        );
    }
    for origin in
        ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:8080", "https://localhost"]
    {
        assert!(dial_with(&test.url(), &[("origin", origin)]).await.is_ok(), "{origin}");
    }
}

#[tokio::test]
async fn connections_over_the_limit_are_asked_to_retry_later() {
    let test = TestHub::with(HubConfig { max_connections: 3, ..HubConfig::default() }).await;
    let mut worker = test.peer().await;
    let telemetry = dial(&format!("{}/otel", test.url())).await.unwrap();
    let other = dial(&format!("{}/otel", test.url())).await.unwrap();
    worker.barrier().await;
    for _ in 0..20 {
        let answer = http(&test, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("\r\nretry-after: "), "{answer}");
        assert!(answer.contains("too_many_connections"), "{answer}");
    }
    let (code, _) = status(dial(&test.url()).await.unwrap_err());
    assert_eq!(code, 503);
    worker.barrier().await;
    drop((telemetry, other));
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while dial(&test.url()).await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "no slot was given back");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn connections_without_a_handshake_do_not_block_workers() {
    let config = HubConfig {
        token: Some("s3cret".into()),
        max_connections: 8,
        max_handshakes: 2,
        ..HubConfig::default()
    };
    let test = TestHub::with(config).await;
    let right = [("authorization", "Bearer s3cret")];
    let mut silent = Vec::new();
    let mut workers = Vec::new();
    for _ in 0..6 {
        for _ in 0..4 {
            silent.push(tokio::net::TcpStream::connect(test.address).await.unwrap());
        }
        // The slot of an ended connection becomes free a moment later.
        let deadline = tokio::time::Instant::now() + DEADLINE;
        workers.push(loop {
            if let Ok(worker) = dial_with(&test.url(), &right).await {
                break worker;
            }
            assert!(tokio::time::Instant::now() < deadline, "a worker is kept out");
            tokio::task::yield_now().await;
        });
    }
    let mut first = silent.swap_remove(0);
    let mut buffer = [0; 16];
    let end = tokio::io::AsyncReadExt::read(&mut first, &mut buffer);
    let end = tokio::time::timeout(DEADLINE, end).await.expect("the oldest is still open");
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}

#[tokio::test]
async fn an_endless_request_head_is_cut_off() {
    let test = TestHub::start().await;
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(64 * 1024));
    let answer = http(&test, &head).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn telemetry_connections_are_read_and_never_answered() {
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
    assert_eq!(test.hub.worker_count(), 0, "a telemetry connection is not a worker");
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
        ping_interval: Duration::from_millis(100),
        idle_timeout: Duration::from_secs(5),
        ..HubConfig::default()
    };
    let test = TestHub::with(config).await;
    // A reading peer answers pings automatically and stays.
    let mut alive = test.peer().await;
    // A socket without a reader sends no pongs.
    let silent = test.peer().await;
    let listening = async {
        while test.hub.worker_count() > 1 {
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
    assert_eq!(test.hub.worker_count(), 2);

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
        assert_eq!(thief.expect("error").await["error"]["code"], "reattach_refused", "{token:?}");
    }
    // A restarted hub does not know the id, which is no error.
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
async fn shutdown_finishes_running_calls_and_refuses_new_ones() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    caller.start_call("1", "a::f", json!({})).await;
    let invoke = worker.expect("invokefunction").await;

    test.shutdown.cancel();
    // A refused call, not a pause, shows that the hub is stopping.
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
async fn shutdown_has_a_deadline() {
    let config = HubConfig { drain_timeout: Duration::from_millis(100), ..HubConfig::default() };
    let test = TestHub::with(config).await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    caller.start_call("1", "a::f", json!({})).await;
    worker.expect("invokefunction").await;
    // Peers that do not answer the close frame, and one with an unfinished handshake.
    let _half_open = tokio::net::TcpStream::connect(test.address).await.unwrap();
    tokio::time::timeout(DEADLINE, test.stop()).await.expect("it ends by itself");
}

#[tokio::test]
async fn a_late_handshake_is_cut_off() {
    let config = HubConfig { handshake_timeout: Duration::from_millis(50), ..HubConfig::default() };
    let test = TestHub::with(config).await;
    let mut stream = tokio::net::TcpStream::connect(test.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost:").await.unwrap();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection is ended");
}

#[tokio::test]
async fn calls_of_the_hub_process_fail_with_distinct_errors() {
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
