//! Large messages in both directions.

use serde_json::json;
use skills_bus::{Bus as _, CallError, Json, client::WorkerCall};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::{FakeServer, ServerLink, Worker, greeting, options};
use crate::test_hub::{DEADLINE, MIB, TestHub, echo, payload, spec};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_almost_64_mib_pass_in_both_directions() {
    let test = TestHub::start().await;
    test.hub.register_function(spec("local::echo"), echo());
    let worker = Worker::start(options(&test.url()));
    worker.client.register_function(&spec("w::echo"), echo(), false);
    worker.connected(1).await;
    let text = "é".repeat(63 * MIB / 2);
    let large = payload(&json!(text));
    let back = worker.call("local::echo", large.clone(), 10 * DEADLINE).await.unwrap().unwrap();
    assert!(back.as_str() == large.as_str(), "unchanged");
    let served = test.hub.call("w::echo", large.clone(), 10 * DEADLINE).await.unwrap();
    assert!(served.as_str() == large.as_str(), "unchanged");
    let huge = payload(&json!("x".repeat(64 * MIB)));
    let error = worker.call("local::echo", huge, DEADLINE).await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::PayloadTooLarge(_)), "{error}");
    worker.client.shutdown().await;
}

/// Engines limit a frame to 16 MiB, and a message to 64 MiB.
#[tokio::test]
async fn large_messages_are_sent_in_continuation_frames() {
    let server = FakeServer::start().await;
    let worker = Worker::start(options(&server.url()));
    let config =
        WebSocketConfig::default().max_frame_size(Some(MIB)).max_message_size(Some(64 * MIB));
    let stream = server.accept_tcp().await;
    let socket = tokio_tungstenite::accept_async_with_config(stream, Some(config)).await.unwrap();
    let mut link = ServerLink(socket);
    link.send(&greeting()).await;
    worker.connected(1).await;
    let data = payload(&json!("é".repeat(10 * MIB)));
    let call = worker.call("x::large", data, 10 * DEADLINE);
    let after = worker.client.start_call(&WorkerCall {
        function_id: "x::after",
        data: &Json::null(),
        namespace: None,
        metadata: None,
        epoch: None,
    });
    let mut calls = [link.next_call().await, link.next_call().await];
    calls.sort_by_key(|call| call["function_id"].to_string());
    assert_eq!(calls[1]["data"].as_str().unwrap().len(), 20 * MIB);
    link.answer(&calls[1], json!("done")).await;
    assert_eq!(call.await.unwrap().unwrap().as_str(), "\"done\"");
    drop(after);
    worker.client.shutdown().await;
}
