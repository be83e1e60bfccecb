//! Malformed input gets an error with a code and a message and keeps the connection.

use futures_util::SinkExt as _;
use serde_json::{Value, json};
use skills_bus::Bus as _;
use tokio_tungstenite::tungstenite::{
    Message,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

use crate::test_hub::*;

#[tokio::test]
async fn unreadable_frames_get_an_error_and_keep_the_connection() {
    let test = TestHub::start().await;
    let mut peer = test.peer().await;
    let cases = [
        ("", "one JSON object"),
        ("   ", "one JSON object"),
        ("not json", "one JSON object"),
        ("null", "one JSON object"),
        ("[1,2]", "one JSON object"),
        ("\"ping\"", "one JSON object"),
        ("{", "not valid JSON"),
        ("{\"type\":\"ping\"", "not valid JSON"),
        ("{\"type\":\"ping\"} trailing", "not valid JSON"),
        ("{\"type\":\"ping\",\"type\":\"ping\"}", "duplicate"),
        ("{}", "no \"type\""),
        ("{\"type\":null}", "no \"type\""),
        ("{\"type\":5}", "\"type\" must be a string"),
        ("{\"type\":{\"a\":1}}", "\"type\" must be a string"),
        ("{\"type\":\"registerfunction\"}", "registerfunction: \"id\" is missing"),
        ("{\"type\":\"registerfunction\",\"id\":7}", "registerfunction: \"id\" must be a string"),
        (
            "{\"type\":\"registerfunction\",\"id\":\"\"}",
            "registerfunction: \"id\" must be non-empty",
        ),
        (
            "{\"type\":\"registerfunction\",\"id\":\"a\\u0000b\"}",
            "registerfunction: \"id\" must not contain control",
        ),
        (
            "{\"type\":\"registerfunction\",\"id\":\"a\",\"description\":[]}",
            "registerfunction: \"description\" must",
        ),
        (
            "{\"type\":\"registerfunction\",\"id\":\"a\",\"private\":\"yes\"}",
            "registerfunction: \"private\" must be",
        ),
        (
            "{\"type\":\"unregisterfunction\",\"id\":{}}",
            "unregisterfunction: \"id\" must be a string",
        ),
        (
            "{\"type\":\"registertriggertype\",\"id\":false}",
            "registertriggertype: \"id\" must be a string",
        ),
        ("{\"type\":\"unregistertriggertype\"}", "unregistertriggertype: \"id\" is missing"),
        (
            "{\"type\":\"registertrigger\",\"id\":\"t\",\"function_id\":\"f\"}",
            "registertrigger: \"trigger_type\" is missing",
        ),
        (
            "{\"type\":\"registertrigger\",\"id\":\"t\",\"trigger_type\":\"y\"}",
            "registertrigger: \"function_id\" is missing",
        ),
        ("{\"type\":\"unregistertrigger\",\"id\":1}", "unregistertrigger: \"id\" must be a string"),
        (
            "{\"type\":\"triggerregistrationresult\"}",
            "triggerregistrationresult: \"id\" is missing",
        ),
        ("{\"type\":\"invokefunction\",\"data\":{}}", "invokefunction: \"function_id\" is missing"),
        (
            "{\"type\":\"invokefunction\",\"function_id\":\"f\",\"invocation_id\":42}",
            "invokefunction: \"invocation_id\" must",
        ),
        (
            "{\"type\":\"invocationresult\",\"result\":1}",
            "invocationresult: \"invocation_id\" is missing",
        ),
        ("{\"type\":\"reattach\"}", "reattach: \"previous_worker_id\" is missing"),
        ("{\"type\":\"observe\",\"id\":\"o\"}", "observe: \"source\" is missing"),
        ("{\"type\":\"observe\",\"id\":\"o\",\"source\":{},\"target\":{}}", "observe: \"target\""),
        (
            "{\"type\":\"observe\",\"id\":\"o\",\"source\":[],\"target\":{\"function_id\":\"f\"}}",
            "observe: \"source\"",
        ),
        ("{\"type\":\"unobserve\"}", "unobserve: \"id\" is missing"),
    ];
    for (text, expected) in cases {
        peer.send_text(text).await;
        let frame = peer.expect("error").await;
        assert_eq!(frame["error"]["code"], "malformed_frame", "{text}");
        let message = frame["error"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{text}: {message}");
    }
    assert!(peer.barrier().await.is_empty());
    assert_eq!(peer.call_error("no::such", json!({})).await, "function_not_found");
}

#[tokio::test]
async fn a_malformed_call_with_an_id_is_answered() {
    let test = TestHub::start().await;
    let mut peer = test.peer().await;
    let cases = [
        json!({"type": "invokefunction", "invocation_id": "i1"}),
        json!({"type": "invokefunction", "invocation_id": "i1", "function_id": 5}),
        json!({"type": "invokefunction", "invocation_id": "i1", "function_id": "f", "action": "void"}),
        json!({"type": "invokefunction", "invocation_id": "i1", "function_id": "f", "action": {"type": "dance"}}),
        json!({"type": "invokefunction", "invocation_id": "i1", "function_id": "f", "traceparent": 1}),
        json!({"type": "invokefunction", "invocation_id": "i1", "function_id": "f", "caller": "me"}),
    ];
    for frame in cases {
        peer.send(frame.clone()).await;
        let answer = peer.expect("invocationresult").await;
        assert_eq!(answer["invocation_id"], "i1");
        assert_eq!(answer["error"]["code"], "malformed_frame", "{frame}");
        assert!(answer["function_id"].is_string(), "SDKs drop an answer without it");
    }
}

#[tokio::test]
async fn ids_are_accepted_up_to_their_limit() {
    let test = TestHub::start().await;
    let mut peer = test.peer().await;
    peer.send(json!({"type": "registerfunction", "id": "x".repeat(1024)})).await;
    assert!(peer.barrier().await.is_empty());
    peer.send(json!({"type": "registerfunction", "id": "x".repeat(1025)})).await;
    let error = peer.expect("error").await;
    assert!(error["error"]["message"].as_str().unwrap().contains("too long"));
}

#[tokio::test]
async fn unknown_types_and_fields_are_ignored() {
    let test = TestHub::start().await;
    let mut peer = test.peer().await;
    for kind in ["localinvocationstats", "registerservice", "from-the-future", ""] {
        peer.send(json!({"type": kind, "id": 5, "data": [1], "items": {}})).await;
    }
    peer.send(json!({"type": "registertrigger", "message_type": "x", "id": "t", "trigger_type": "y", "function_id": "f"}))
        .await;
    assert!(peer.barrier().await.is_empty());
}

#[tokio::test]
async fn binary_frames_are_telemetry_or_json() {
    let test = TestHub::start().await;
    let mut peer = test.peer().await;
    for telemetry in [b"OTLP{\"resourceSpans\":[]}".as_slice(), b"MTRC", b"LOGS\xff\xfe"] {
        peer.ws.send(Message::binary(telemetry.to_vec())).await.unwrap();
    }
    assert!(peer.barrier().await.is_empty());
    peer.ws.send(Message::binary(b"{\"type\":\"ping\"}".to_vec())).await.unwrap();
    peer.expect("pong").await;
    for bad in [b"\xff\xfe".as_slice(), b"{\"type\":\"\xff\"}", b"", b"\x00"] {
        peer.ws.send(Message::binary(bad.to_vec())).await.unwrap();
        assert_eq!(peer.expect("error").await["error"]["code"], "malformed_frame", "{bad:?}");
    }
}

#[tokio::test]
async fn text_that_is_not_utf8_closes_the_connection() {
    let test = TestHub::start().await;
    let mut other = test.peer().await;
    let mut peer = test.peer().await;
    let frame = Frame::message(b"{\"type\":\"\xff\"}".to_vec(), OpCode::Data(Data::Text), true);
    peer.ws.send(Message::Frame(frame)).await.unwrap();
    assert_eq!(peer.close_code().await, Some(1007));
    assert!(other.barrier().await.is_empty());
}

#[tokio::test]
async fn deeply_nested_payloads_pass_through_unchanged() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    test.hub.register_function(spec("local::echo"), echo());
    let mut caller = test.peer().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    caller
        .send_text(format!(r#"{{"type":"invokefunction","invocation_id":"1","function_id":"local::echo","data":{deep}}}"#))
        .await;
    caller
        .send_text(format!(r#"{{"type":"invokefunction","invocation_id":"2","function_id":"engine::functions::list","data":{deep}}}"#))
        .await;
    // The JSON parser of the test would refuse the echo, so compare the text.
    use futures_util::StreamExt as _;
    let Some(Ok(Message::Text(text))) = caller.ws.next().await else { panic!("no answer") };
    assert!(text.contains(&deep));
    let refused = caller.expect("invocationresult").await;
    assert_eq!(refused["error"]["code"], "deserialization_error");
    assert!(worker.barrier().await.is_empty());
}

#[tokio::test]
async fn one_bad_peer_does_not_disturb_another() {
    let test = TestHub::start().await;
    let mut worker = test.worker(&["a::f"]).await;
    let mut good = test.peer().await;
    let mut bad = test.peer().await;
    for n in 0..200 {
        bad.send_text("{\"type\":").await;
        good.start_call(&n.to_string(), "a::f", json!(n)).await;
        let invoke = worker.expect("invokefunction").await;
        worker.answer(&invoke, json!(n)).await;
        assert_eq!(good.expect("invocationresult").await["result"], n);
    }
    let errors: Vec<Value> = bad.barrier().await;
    assert_eq!(errors.len(), 200);
}
