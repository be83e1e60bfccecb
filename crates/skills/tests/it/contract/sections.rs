//! Sections: content that a function returns when it is read.

use std::time::{Duration, Instant};

use serde_json::json;
use skills_testkit::{CallFailure, Peer, next};

use crate::support::{TestServer, ids, read, read_error, register};

#[tokio::test]
async fn text_is_markdown_and_other_values_are_json() {
    let server = TestServer::new();
    let (worker, reader) = (server.worker().await, server.worker().await);
    let pretty = "{\n  \"a\": [\n    1,\n    null\n  ]\n}";
    for (number, (output, mime_type, text)) in [
        (json!("# Ünï\r\n"), "text/markdown", "# Ünï\r\n"),
        (json!(""), "text/markdown", ""),
        (json!({ "content": "# C", "more": 1 }), "text/markdown", "# C"),
        (json!({ "a": [1, null] }), "application/json", pretty),
        (json!({ "content": 7 }), "application/json", "{\n  \"content\": 7\n}"),
        (json!(null), "application/json", "null"),
        (json!(1.5), "application/json", "1.5"),
        (json!([]), "application/json", "[]"),
    ]
    .into_iter()
    .enumerate()
    {
        let function_id = format!("demo::s{number}");
        worker.serve(&function_id, move |_| Some(Ok(output.clone()))).await;
        let uri = format!("iii://demo/{function_id}");
        assert_eq!(
            reader.ok("skills::resources-read", json!({ "uri": uri })).await,
            json!({ "contents": [{ "uri": uri, "mimeType": mime_type, "text": text }] })
        );
    }
}

#[tokio::test]
async fn the_function_is_called_once_per_read_with_an_empty_object() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut calls = worker.collect("demo::guide").await;
    for _ in 0..3 {
        // The reading worker may serve the function itself.
        read(&worker, "iii://demo/demo::guide").await;
        assert_eq!(next(&mut calls).await, json!({}));
    }
    assert!(calls.try_recv().is_err());
}

#[tokio::test]
async fn a_section_of_an_unregistered_function_fails() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let failure = read_error(&worker, "iii://demo/demo::nobody").await;
    assert_eq!(failure.code, "handler_not_registered");
    assert!(failure.message.contains("demo::nobody is not registered"), "{}", failure.message);
}

#[tokio::test]
async fn a_failing_function_fails_the_read() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let thrown = CallFailure { code: "invocation_failed".into(), message: "disk on fire".into() };
    worker.serve("demo::throws", move |_| Some(Err(thrown.clone()))).await;
    let failure = read_error(&worker, "iii://demo/demo::throws").await;
    assert_eq!(failure.code, "handler_failed");
    assert!(failure.message.contains("demo::throws failed: disk on fire"), "{}", failure.message);
}

#[tokio::test]
async fn a_worker_that_disconnects_fails_the_read() {
    let server = TestServer::new();
    let reader = server.worker().await;
    let mut leaving = Peer::connect(&server.process.url).await;
    leaving.send(&json!({ "type": "registerfunction", "id": "demo::leaves" })).await;
    leaving.send(&json!({ "type": "ping" })).await;
    leaving.next_of_type("pong").await;
    let call = reader.start("skills::resources-read", &json!({ "uri": "iii://demo/demo::leaves" }));
    leaving.next_of_type("invokefunction").await;
    drop(leaving);
    let failure = call.await.expect_err("its worker has gone");
    assert_eq!(failure.code, "handler_disconnected");
    assert!(failure.message.contains("demo::leaves disconnected"), "{}", failure.message);
}

#[tokio::test]
async fn a_slow_function_times_out() {
    let server = TestServer::with_config("state_timeout_ms: 3000\n");
    let worker = server.worker().await;
    worker.serve("demo::slow", |_| None).await;
    let started = Instant::now();
    let failure = read_error(&worker, "iii://demo/demo::slow").await;
    assert_eq!(failure.code, "handler_timeout");
    assert!(failure.message.contains("demo::slow timed out after 3000 ms"), "{}", failure.message);
    assert!(started.elapsed() >= Duration::from_secs(3));
    // Another call to the same worker is not blocked.
    worker.serve("demo::quick", |_| Some(Ok(json!("quick")))).await;
    assert_eq!(read(&worker, "iii://demo/demo::quick").await, "quick");
}

#[tokio::test]
async fn a_slow_section_does_not_delay_other_reads() {
    let server = TestServer::new();
    let (slow, other) = (server.worker().await, server.worker().await);
    slow.serve("demo::slow", |_| None).await;
    let uri = json!({ "uri": "iii://demo/demo::slow" });
    let waiting: Vec<_> = (0..100).map(|_| other.start("skills::resources-read", &uri)).collect();
    register(&other, "a", "x").await;
    assert_eq!(read(&other, "iii://a").await, "x");
    assert_eq!(read(&slow, "iii://a").await, "x");
    drop(slow);
    for call in waiting {
        assert_eq!(call.await.expect_err("its worker has gone").code, "handler_disconnected");
    }
}

/// Setting for sections that an unoptimised build takes seconds to pass on.
const PATIENT: &str = "state_timeout_ms: 60000\n";

#[tokio::test]
async fn a_section_of_thirty_megabytes_is_served() {
    let server = TestServer::with_config(PATIENT);
    let (worker, reader) = (server.worker().await, server.worker().await);
    worker.identify().await;
    reader.identify().await;
    let text = "0123456789".repeat(3_000_000);
    let output = json!(text);
    worker.serve("demo::large", move |_| Some(Ok(output.clone()))).await;
    assert!(read(&reader, "iii://demo/demo::large").await == text);
}

#[tokio::test]
async fn a_reader_that_cannot_receive_the_answer_gets_an_error() {
    let server = TestServer::new();
    let (worker, reader) = (server.worker().await, server.worker().await);
    worker.identify().await;
    // An SDK of that version drops its connection on messages over one megabyte.
    let old = json!({ "runtime": "python", "version": "0.11.3" });
    reader.ok("engine::workers::register", old).await;
    let output = json!("x".repeat(2 << 20));
    worker.serve("demo::large", move |_| Some(Ok(output.clone()))).await;
    let failure = read_error(&reader, "iii://demo/demo::large").await;
    assert_eq!(failure.code, "payload_too_large");
    register(&reader, "a", "still here").await;
}

#[tokio::test]
async fn a_section_of_a_hundred_megabytes_is_refused() {
    let server = TestServer::with_config(PATIENT);
    let (worker, reader) = (server.worker().await, server.worker().await);
    worker.identify().await;
    reader.identify().await;
    let output = json!("x".repeat(100_000_000));
    worker.serve("demo::huge", move |_| Some(Ok(output.clone()))).await;
    let failure = read_error(&reader, "iii://demo/demo::huge").await;
    assert_eq!(failure.code, "handler_failed");
    assert!(failure.message.contains("payload_too_large"), "{}", failure.message);
    assert!(failure.message.len() < 300);
    register(&worker, "a", "still here").await;
    assert_eq!(ids(&reader).await, ["a"]);
}
