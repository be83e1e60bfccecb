//! Messages at the size limits of the hub and its peers.

use std::{sync::Arc, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use skills_bus::{Bus as _, CallError, FunctionCall, HubConfig, Json};
use skills_core::Coded as _;
use tokio_tungstenite::tungstenite::{
    Bytes, Message,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

use crate::test_hub::*;

fn result_of(invocation_id: &str, size: usize) -> String {
    let body = "x".repeat(size);
    format!(
        r#"{{"type":"invocationresult","invocation_id":"{invocation_id}","function_id":"a::f","result":"{body}"}}"#
    )
}

/// Returns as many bytes as the payload asks for.
fn bytes(call: FunctionCall) -> impl Future<Output = Result<Json, CallError>> {
    let size: usize = call.data.parse().unwrap();
    async move { Json::from_serialize(&"x".repeat(size)).map_err(|_| CallError::remote("x", "x")) }
}

#[tokio::test]
async fn a_result_above_the_limit_is_refused_and_both_connections_stay_open() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.sdk("node", "0.22.1").await;
    for size in [70 * MIB, 100 * MIB] {
        caller.start_call("1", "a::f", json!({})).await;
        let invoke = worker.expect("invokefunction").await;
        worker.send_text(result_of(invoke["invocation_id"].as_str().unwrap(), size)).await;
        let answer = caller.expect("invocationresult").await;
        assert_eq!(answer["error"]["code"], "payload_too_large", "{size}");
        assert!(
            answer["error"]["message"].as_str().unwrap().contains(&(64 * MIB).to_string()),
            "{size}"
        );
    }
    caller.start_call("2", "a::f", json!({})).await;
    let invoke = worker.expect("invokefunction").await;
    worker.answer(&invoke, json!("small")).await;
    assert_eq!(caller.expect("invocationresult").await["result"], "small");
}

#[tokio::test]
async fn a_call_above_the_limit_is_refused() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut caller = test.peer().await;
    let body = "x".repeat(65 * MIB);
    caller
        .send_text(format!(r#"{{"type":"invokefunction","invocation_id":"1","function_id":"a::f","data":"{body}"}}"#))
        .await;
    let answer = caller.expect("invocationresult").await;
    assert_eq!(answer["error"]["code"], "payload_too_large");
    caller
        .send_text(format!(r#"{{"type":"registerfunction","id":"b","metadata":"{body}"}}"#))
        .await;
    assert_eq!(caller.expect("error").await["error"]["code"], "payload_too_large");
    assert!(worker.barrier().await.is_empty());
}

#[tokio::test]
async fn a_message_above_the_read_limit_closes_the_connection_with_1009() {
    let config = HubConfig { max_message: MIB, max_read: 2 * MIB, ..HubConfig::default() };
    let test = TestHub::with(config).await;
    let mut other = test.peer().await;
    let mut peer = test.peer().await;
    peer.send_text("x".repeat(MIB)).await;
    assert_eq!(peer.expect("error").await["error"]["code"], "malformed_frame");
    let _ = peer.ws.send(Message::text("x".repeat(3 * MIB))).await;
    assert_eq!(peer.close_code().await, Some(1009));
    assert!(other.barrier().await.is_empty());
}

#[tokio::test]
async fn a_message_of_sixty_megabytes_makes_the_round_trip() {
    let test = TestHub::start().await;
    let mut worker = test.sdk("rust", "0.25.0").await;
    worker.send(json!({"type": "registerfunction", "id": "a::f"})).await;
    worker.barrier().await;
    let mut caller = test.sdk("node", "0.22.1").await;
    let body = "y".repeat(60 * MIB);
    caller
        .send_text(format!(r#"{{"type":"invokefunction","invocation_id":"1","function_id":"a::f","data":{{"b":"{body}"}}}}"#))
        .await;
    let invoke = worker.expect("invokefunction").await;
    assert_eq!(invoke["data"]["b"].as_str().unwrap().len(), body.len());
    assert_eq!(invoke["data"]["_caller_worker_id"], caller.id.as_str());
    worker.send_text(result_of(invoke["invocation_id"].as_str().unwrap(), 60 * MIB)).await;
    assert_eq!(caller.expect("invocationresult").await["result"].as_str().unwrap().len(), 60 * MIB);
}

#[tokio::test]
async fn continuation_frames_are_reassembled() {
    let test = TestHub::start().await;
    test.hub.register_function(spec("local::echo"), echo());
    let mut peer = test.sdk("node", "0.22.1").await;
    let body = "é".repeat(10 * MIB);
    let text = format!(
        r#"{{"type":"invokefunction","invocation_id":"1","function_id":"local::echo","data":"{body}"}}"#
    );
    let payload = Bytes::from(text);
    // An odd size splits multi-byte characters.
    let chunk = MIB - 1;
    let mut start = 0;
    while start < payload.len() {
        let end = payload.len().min(start + chunk);
        let kind = if start == 0 { Data::Text } else { Data::Continue };
        let frame =
            Frame::message(payload.slice(start..end), OpCode::Data(kind), end == payload.len());
        peer.ws.send(Message::Frame(frame)).await.unwrap();
        // Control frames may arrive between fragments.
        peer.ws.send(Message::Ping(Bytes::new())).await.unwrap();
        start = end;
    }
    let answer = peer.expect("invocationresult").await;
    assert_eq!(answer["result"].as_str().unwrap().len(), body.len());
}

#[tokio::test]
async fn result_limits_depend_on_the_sdk_version() {
    let test = TestHub::start().await;
    test.hub.register_function(spec("local::bytes"), Arc::new(bytes));
    let cases = [
        ("python", "0.11.3", MIB / 2, true),
        ("python", "0.11.3", MIB + 1, false),
        ("python", "0.24.0", 2 * MIB, false),
        ("python", "0.25.0", 2 * MIB, true),
        ("rust", "0.11.3", 15 * MIB, true),
        ("rust", "0.24.0", 17 * MIB, false),
        ("rust", "0.24.6", 17 * MIB, true),
        ("node", "0.11.6", 64 * MIB - 1000, true),
        ("node", "0.11.6", 64 * MIB, false),
    ];
    for (runtime, version, size, fits) in cases {
        let mut peer = test.sdk(runtime, version).await;
        let answer = peer.call("local::bytes", json!(size)).await;
        if fits {
            assert_eq!(
                answer["result"].as_str().map(str::len),
                Some(size),
                "{runtime} {version} {size}"
            );
        } else {
            assert_eq!(answer["error"]["code"], "payload_too_large", "{runtime} {version} {size}");
        }
        assert!(peer.barrier().await.is_empty(), "the connection is kept");
    }
    let mut modern = test.peer().await;
    modern
        .identify(json!({"runtime": "python", "version": "7.0", "features": ["large-messages.v1"]}))
        .await;
    assert!(modern.call("local::bytes", json!(20 * MIB)).await["result"].is_string());
}

#[tokio::test]
async fn a_call_too_large_for_its_callee_fails_for_its_caller() {
    let test = TestHub::start().await;
    let mut worker = test.sdk("python", "0.11.3").await;
    worker.send(json!({"type": "registerfunction", "id": "a::f"})).await;
    worker.barrier().await;
    let mut caller = test.peer().await;
    let big = json!({"b": "x".repeat(2 * MIB)});
    assert_eq!(caller.call_error("a::f", big.clone()).await, "payload_too_large");
    let own = test.hub.call("a::f", payload(&big), DEADLINE).await.unwrap_err();
    assert_eq!(own.code().as_str(), "payload_too_large");
    test.hub.notify("a::f", payload(&big), None).await.unwrap();
    test.hub.notify("a::f", payload(&json!("small")), None).await.unwrap();
    let invoke = worker.expect("invokefunction").await;
    assert_eq!(invoke["data"], "small");
}

#[tokio::test]
async fn a_large_result_waits_until_the_peer_identifies_itself() {
    let config = HubConfig { identify_timeout: DEADLINE, ..HubConfig::default() };
    let test = TestHub::with(config).await;
    test.hub.register_function(spec("local::bytes"), Arc::new(bytes));
    // SDKs send queued calls before they identify themselves.
    let mut old = test.peer().await;
    old.start_call("1", "local::bytes", json!(2 * MIB)).await;
    old.send(json!({"type": "invokefunction", "function_id": "engine::workers::register",
        "data": {"runtime": "python", "version": "0.11.3"}, "action": {"type": "void"}}))
        .await;
    assert_eq!(old.expect("invocationresult").await["error"]["code"], "payload_too_large");
    let mut new = test.peer().await;
    new.start_call("1", "local::bytes", json!(2 * MIB)).await;
    new.send(json!({"type": "invokefunction", "function_id": "engine::workers::register",
        "data": {"runtime": "python", "version": "0.25.0"}, "action": {"type": "void"}}))
        .await;
    assert!(new.expect("invocationresult").await["result"].is_string());
}

#[tokio::test]
async fn a_peer_that_never_identifies_itself_gets_at_most_16_mib() {
    let config = HubConfig { identify_timeout: Duration::from_millis(50), ..HubConfig::default() };
    let test = TestHub::with(config).await;
    test.hub.register_function(spec("local::bytes"), Arc::new(bytes));
    let mut peer = test.peer().await;
    assert!(peer.call("local::bytes", json!(15 * MIB)).await["result"].is_string());
    assert_eq!(peer.call_error("local::bytes", json!(17 * MIB)).await, "payload_too_large");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_peers_sending_large_messages_to_each_other_do_not_deadlock() {
    let test = TestHub::start().await;
    test.hub.register_function(spec("local::echo"), echo());
    let mut peer = test.sdk("node", "0.22.1").await;
    let body = "x".repeat(8 * MIB);
    // Like an SDK with one loop, the peer writes everything before it reads.
    for n in 0..6 {
        peer.send_text(format!(
            r#"{{"type":"invokefunction","invocation_id":"{n}","function_id":"local::echo","data":"{body}"}}"#
        ))
        .await;
    }
    for n in 0..6 {
        let answer = peer.expect("invocationresult").await;
        assert_eq!(answer["invocation_id"], n.to_string());
        assert_eq!(answer["result"].as_str().map(str::len), Some(body.len()));
    }
    assert!(peer.ws.close(None).await.is_ok());
    while let Some(Ok(_)) = peer.ws.next().await {}
}
