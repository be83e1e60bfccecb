//! Servers that send garbage, too much, or nothing.

use std::time::Duration;

use futures_util::SinkExt as _;
use serde_json::json;
use skills_bus::{
    Json,
    client::{ConnectionState, WorkerOptions},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::Message;

use super::{FakeServer, Worker, options};
use crate::test_hub::{DEADLINE, echo, spec};

#[tokio::test]
async fn garbage_is_ignored_and_the_connection_stays() {
    let server = FakeServer::start().await;
    let worker = Worker::start(options(&server.url()));
    worker.client.register_function(&spec("w::echo"), echo(), false);
    let mut link = server.greet().await;
    worker.connected(1).await;
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{\"type\":7}",
        "{\"type\":\"later\"}",
        "{\"type\":\"invocationresult\",\"invocation_id\":\"unknown\"}",
        "{\"type\":\"invocationresult\",\"invocation_id\":\"7d444840-9dc0-11d1-b245-5ffdce74fad2\"}",
        "{\"type\":\"invokefunction\",\"function_id\":\"w::echo\",\"data\":{\"a\":}}",
        "{\"type\":\"invokefunction\",\"function_id\":\"no::such\"}",
        "{\"type\":\"registertrigger\",\"id\":\"t\"}",
        "{\"type\":\"unregistertrigger\",\"id\":\"unknown\"}",
        "{\"type\":\"observeradded\",\"function_id\":\"w::echo\",\"revision\":1,\"observer\":7}",
        "{\"type\":\"observerremoved\",\"function_id\":\"no::such\",\"revision\":1,\"id\":\"o\"}",
        "{\"type\":\"error\"}",
        "{\"type\":\"workerregistered\",\"worker_id\":\"again\"}",
    ] {
        link.0.send(Message::text(text)).await.unwrap();
    }
    link.0.send(Message::binary(vec![0xff, 0xfe])).await.unwrap();
    let nested = format!("{{\"type\":\"later\",\"x\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
    link.0.send(Message::text(nested)).await.unwrap();
    // Unknown functions and trigger types are refused with a code.
    link.send(&json!({"type": "invokefunction", "function_id": "no::such", "invocation_id": "a"}))
        .await;
    assert_eq!(link.next("invocationresult").await["error"]["code"], "function_not_found",);
    link.send(&json!({"type": "registertrigger", "id": "t", "trigger_type": "no::such",
        "function_id": "f"}))
        .await;
    let refused = link.next("triggerregistrationresult").await;
    assert_eq!(refused["error"]["code"], "trigger_registration_failed");
    let call = worker.call("x::y", Json::null(), DEADLINE);
    let invoke = link.next_call().await;
    link.answer(&invoke, json!(1)).await;
    assert_eq!(call.await.unwrap().unwrap().as_str(), "1");
    assert_eq!(worker.client.epoch(), Some(1));
    worker.client.shutdown().await;
}

#[tokio::test]
async fn a_frame_above_the_limit_ends_the_connection_before_it_is_read() {
    let server = FakeServer::start().await;
    let worker = Worker::start(options(&server.url()));
    let mut link = server.greet().await;
    worker.connected(1).await;
    // The head of a text frame of one terabyte.
    let mut head = vec![0x81, 127];
    head.extend((1_u64 << 40).to_be_bytes());
    link.0.get_mut().write_all(&head).await.unwrap();
    let reason = worker.lost().await;
    assert!(reason.contains("too long") || reason.contains("Space limit"), "{reason}");
    let _next = server.greet().await;
    worker.connected(2).await;
    worker.client.shutdown().await;
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let server = FakeServer::start().await;
    let quick =
        WorkerOptions { connect_timeout: Duration::from_millis(100), ..options(&server.url()) };
    let worker = Worker::start(quick);
    // No handshake, then a handshake without a greeting.
    let _silent = server.accept_tcp().await;
    let reason = worker.lost().await;
    assert!(reason.contains("no answer within 100 ms"), "{reason}");
    let mut mute = server.accept_tcp().await;
    let mut request = vec![0; 4096];
    assert!(mute.read(&mut request).await.unwrap() > 0, "it tries again");
    worker.client.shutdown().await;
}

#[tokio::test]
async fn other_servers_are_named_in_the_reason() {
    for (response, wanted) in [
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "404"),
        ("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n", "token"),
        ("SSH-2.0-x\r\n\r\n", ""),
    ] {
        let server = FakeServer::start().await;
        let worker = Worker::start(options(&server.url()));
        let mut stream = server.accept_tcp().await;
        let mut request = vec![0; 4096];
        let _ = stream.read(&mut request).await;
        stream.write_all(response.as_bytes()).await.unwrap();
        drop(stream);
        let reason = worker.lost().await;
        assert!(reason.contains(wanted) && !reason.is_empty(), "{response}: {reason}");
        worker.client.shutdown().await;
    }
}

#[tokio::test]
async fn an_unknown_rejection_is_final() {
    let server = FakeServer::start().await;
    let worker = Worker::start(options(&server.url()));
    let mut link = server.greet().await;
    worker.connected(1).await;
    // One function that another worker has is no rejection of the worker.
    link.send(&json!({"type": "registrationrejected", "code": "FUNCTION_NAMESPACE_CONFLICT",
        "function_id": "w::echo", "namespace": "default", "owner_worker_id": "o"}))
        .await;
    let waiting = worker.call("x::y", Json::null(), 10 * DEADLINE);
    link.next_call().await;
    link.send(&json!({"type": "registrationrejected", "code": "LATER_CODE"})).await;
    let state = worker.state(|state| matches!(state, ConnectionState::Rejected { .. })).await;
    assert!(matches!(state, ConnectionState::Rejected { reason } if reason.contains("LATER_CODE")));
    assert!(waiting.await.unwrap().is_err());
    worker.client.shutdown().await;
}
