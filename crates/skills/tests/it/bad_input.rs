//! Invalid input of a bus client keeps its connection and affects no other.

use serde_json::{Value, json};
use skills_testkit::{Peer, Worker};
use tokio_tungstenite::tungstenite::{
    Bytes, Message, Utf8Bytes,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

use crate::support::{TestServer, ids, read, register};

const ID: &str = "11f0a3c2-5d0e-4f5e-9a53-8f3b6a1d2c47";

/// Calls `skills::list` and returns the frames before its answer.
async fn frames_before_an_answer(peer: &mut Peer) -> Vec<Value> {
    peer.send(&json!({
        "type": "invokefunction", "invocation_id": ID, "function_id": "skills::list", "data": {},
    }))
    .await;
    let mut before = Vec::new();
    loop {
        let frame = peer.next().await.expect("the connection is kept");
        if frame["type"] == "invocationresult" && frame["invocation_id"] == ID {
            assert!(frame["result"]["skills"].is_array(), "{frame}");
            return before;
        }
        before.push(frame);
    }
}

async fn connect(server: &TestServer) -> Peer {
    let mut peer = Peer::connect(&server.process.url).await;
    peer.next_of_type("workerregistered").await;
    peer
}

#[tokio::test]
async fn invalid_text_frames_get_an_error_and_keep_the_connection() {
    let server = TestServer::new();
    let bystander = server.worker().await;
    register(&bystander, "a", "x").await;
    let mut peer = connect(&server).await;
    let deep = "[".repeat(100_000);
    let object = format!("{{\"type\":\"registerfunction\",\"id\":{}", "{\"a\":".repeat(10_000));
    for text in [
        "",
        " ",
        "not json",
        "{",
        "{\"type\":\"ping\"",
        "{\"type\":\"ping\"}{}",
        "[]",
        "7",
        "null",
        "\"ping\"",
        "{}",
        "{\"type\":7}",
        "{\"type\":null}",
        "{\"type\":\"invokefunction\"}",
        "{\"type\":\"invokefunction\",\"function_id\":7}",
        "{\"type\":\"registerfunction\"}",
        "{\"type\":\"registerfunction\",\"id\":[]}",
        "{\"type\":\"registertrigger\",\"id\":\"x\"}",
        "{\"type\":\"observe\",\"id\":\"x\"}",
        "{\"type\":\"reattach\"}",
        "{\"type\":\"invocationresult\"}",
        deep.as_str(),
        object.as_str(),
    ] {
        peer.send_raw(Message::text(text)).await;
        let before = frames_before_an_answer(&mut peer).await;
        let shown = text.get(..60).unwrap_or(text);
        assert_eq!(before.len(), 1, "{shown}: {before:?}");
        assert_eq!(before[0]["type"], "error", "{shown}: {before:?}");
        assert!(before[0]["error"]["message"].as_str().unwrap().len() < 500, "{shown}");
    }
    assert_eq!(ids(&bystander).await, ["a"]);
}

#[tokio::test]
async fn a_malformed_call_with_an_id_is_answered() {
    let server = TestServer::new();
    let mut peer = connect(&server).await;
    let call = json!({ "type": "invokefunction", "invocation_id": ID, "function_id": 7 });
    peer.send(&call).await;
    let answer = peer.next().await.unwrap();
    let code = &answer["error"]["code"];
    assert_eq!((&answer["type"], code), (&json!("invocationresult"), &json!("malformed_frame")));
    assert_eq!(answer["invocation_id"], ID);
}

#[tokio::test]
async fn unknown_frames_are_ignored() {
    let server = TestServer::new();
    let mut peer = connect(&server).await;
    for frame in [
        json!({ "type": "frobnicate", "id": 7 }),
        json!({ "type": "REGISTERFUNCTION", "id": "x::y" }),
        json!({ "type": "registerservice", "id": "s", "name": "s" }),
        json!({ "type": "pong" }),
        json!({ "type": "unregisterfunction", "id": "nobody::there" }),
        json!({ "type": "unregistertrigger", "id": "nobody" }),
        json!({ "type": "invocationresult", "invocation_id": ID, "function_id": "x", "result": 1 }),
        json!({ "type": "localinvocationstats", "window_ms": 1, "functions": [] }),
        json!({ "type": "reattach", "previous_worker_id": "x", "reattach_token": "y" }),
    ] {
        peer.send(&frame).await;
        let before = frames_before_an_answer(&mut peer).await;
        assert!(before.is_empty(), "{frame}: {before:?}");
    }
}

#[tokio::test]
async fn binary_frames_are_telemetry_or_json_or_refused() {
    let server = TestServer::new();
    let mut peer = connect(&server).await;
    for telemetry in [b"OTLP{\"resourceSpans\":[]}" as &[u8], b"MTRC\xff\xff", b"LOGS"] {
        peer.send_raw(Message::binary(telemetry)).await;
        assert!(frames_before_an_answer(&mut peer).await.is_empty(), "{telemetry:?}");
    }
    for rubbish in [b"\xff\xfe\x00\x01" as &[u8], b"", b"{\"type\":"] {
        peer.send_raw(Message::binary(rubbish)).await;
        let before = frames_before_an_answer(&mut peer).await;
        assert_eq!(before.len(), 1, "{rubbish:?}: {before:?}");
        assert_eq!(before[0]["error"]["code"], "malformed_frame", "{rubbish:?}");
    }
    peer.send_raw(Message::binary(b"{\"type\":\"ping\"}" as &[u8])).await;
    let before = frames_before_an_answer(&mut peer).await;
    assert_eq!(before, [json!({ "type": "pong" })]);
}

#[tokio::test]
async fn text_that_is_not_utf8_closes_only_that_connection() {
    let server = TestServer::new();
    let (bystander, mut peer) = (server.worker().await, connect(&server).await);
    let bytes = Bytes::from_static(b"{\"type\":\"\xff\xff\"}");
    let frame = Frame::message(bytes, OpCode::Data(Data::Text), true);
    peer.send_raw(Message::Frame(frame)).await;
    assert_eq!(peer.next().await, None);
    register(&bystander, "a", "x").await;
    assert!(frames_before_an_answer(&mut connect(&server).await).await.is_empty());
}

#[tokio::test]
async fn an_invocation_id_may_be_absent_null_or_any_text() {
    let server = TestServer::new();
    let mut peer = connect(&server).await;
    let call = |number: usize| {
        json!({
            "type": "invokefunction", "function_id": "skills::register",
            "data": { "id": format!("s{number}"), "skill": "x" },
        })
    };
    let with = |number: usize, id: Value| {
        let mut call = call(number);
        call["invocation_id"] = id;
        call
    };
    // A call without an id is carried out and not answered.
    peer.send(&call(0)).await;
    peer.send(&with(1, Value::Null)).await;
    for (number, id) in [(2, "not a uuid"), (3, "1"), (4, "\"quoted\" \u{1F980}")] {
        peer.send(&with(number, json!(id))).await;
        let answer = peer.next().await.unwrap();
        assert_eq!(answer["invocation_id"], id, "{answer}");
        assert_eq!(answer["result"]["id"], format!("s{number}"), "{number}");
    }
    // A call whose id cannot be returned is neither answered nor carried out.
    for id in [json!(7), json!("line\nbreak"), json!({})] {
        peer.send(&with(5, id.clone())).await;
        let before = frames_before_an_answer(&mut peer).await;
        assert_eq!(before.len(), 1, "{before:?}");
        assert_eq!(before[0]["error"]["code"], "malformed_frame", "{id:?}");
    }
    let worker = server.worker().await;
    assert_eq!(ids(&worker).await, ["s0", "s1", "s2", "s3", "s4"]);
}

#[tokio::test]
async fn workers_cannot_register_contract_functions() {
    let server = TestServer::new();
    let mut thief = server.worker().await;
    for id in ["skills::register", "skills::on-change", "state::get", "engine::workers::list"] {
        thief.send(&json!({ "type": "registerfunction", "id": id }));
    }
    for id in ["skills::on-change", "state", "engine::functions-available"] {
        thief.send(&json!({ "type": "registertriggertype", "id": id, "description": "mine" }));
        assert_eq!(thief.frame("error").await["error"]["code"], "trigger_type_conflict", "{id}");
    }
    thief.identify().await;
    for _ in 0..4 {
        let refused = thief.frame("registrationrejected").await;
        assert_eq!(refused["code"], "FUNCTION_NAMESPACE_CONFLICT", "{refused}");
    }
    let victim = server.worker().await;
    let mut received = victim.collect("me::heard").await;
    victim.subscribe("skills::on-change", "me::heard", json!({})).await;
    register(&victim, "a", "mine").await;
    assert_eq!(read(&victim, "iii://a").await, "mine");
    assert_eq!(skills_testkit::next(&mut received).await["id"], "a");
}

#[tokio::test]
async fn ten_thousand_functions_disappear_with_their_worker() {
    let server = TestServer::new();
    let (many, other) = (server.worker().await, server.worker().await);
    for number in 0..10_000 {
        many.send(&json!({ "type": "registerfunction", "id": format!("many::f{number}") }));
    }
    many.serve("many::last", |_| Some(Ok(json!("# last")))).await;
    let count = async |worker: &Worker| {
        let list = worker.ok("engine::functions::list", json!({ "prefix": "many::" })).await;
        list["functions"].as_array().unwrap().len()
    };
    assert_eq!(count(&other).await, 10_001);
    assert_eq!(read(&other, "iii://x/many::last").await, "# last");
    drop(many);
    let deadline = std::time::Instant::now() + skills_testkit::DEADLINE;
    while count(&other).await > 0 {
        assert!(std::time::Instant::now() < deadline);
    }
}

#[tokio::test]
async fn a_message_above_the_limit_is_refused_and_keeps_the_connection() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let huge = json!({ "id": "a", "skill": "x".repeat(70_000_000) });
    let failure = worker.fails("skills::register", huge).await;
    assert_eq!(failure.code, "payload_too_large");
    assert!(failure.message.contains("67108864"), "{}", failure.message);
    register(&worker, "a", "smaller").await;
}

#[tokio::test]
async fn a_client_that_never_reads_its_answers_affects_no_other() {
    let server = TestServer::new();
    let bystander = server.worker().await;
    register(&bystander, "large", &"x".repeat(262_144)).await;
    let mut deaf = connect(&server).await;
    let ask: Utf8Bytes = json!({
        "type": "invokefunction", "invocation_id": ID, "function_id": "skills::resources-read",
        "data": { "uri": "iii://large" },
    })
    .to_string()
    .into();
    for _ in 0..500 {
        deaf.send_raw(Message::Text(ask.clone())).await;
    }
    for number in 0..50 {
        register(&bystander, &format!("s{number}"), "x").await;
    }
    assert_eq!(ids(&bystander).await.len(), 51);
    // When it reads at last, every answer arrives.
    for _ in 0..500 {
        let answer = deaf.next_of_type("invocationresult").await;
        let text = answer["result"]["contents"][0]["text"].as_str();
        assert_eq!(text.map(str::len), Some(262_144), "{}", answer["error"]);
    }
}
