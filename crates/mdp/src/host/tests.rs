//! Tests of the host without a transport, with a paused clock.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Instant, advance},
};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{MdpLimits, wire::Method};

mod limits;

const SECOND: Duration = Duration::from_secs(1);

fn host(config: Config) -> MdpHost {
    MdpHost::start(config, None, CancellationToken::new())
}

fn limited(limits: MdpLimits) -> MdpHost {
    host(Config { limits, ..Config::default() })
}

fn open(host: &MdpHost) -> Arc<Session> {
    let is_authorized = !host.auth().requires_token();
    let transport = TransportAuth { is_authorized, ..TransportAuth::default() };
    host.open_session(ConnectionMode::WebSocket, transport).unwrap()
}

fn skill(path: &str) -> Value {
    json!({"type": "skill", "path": path})
}

fn registration(id: &str, paths: Value) -> String {
    json!({"type": "registerClient", "client": {"id": id, "name": id, "paths": paths}}).to_string()
}

fn registered(host: &MdpHost, id: &str) -> Arc<Session> {
    let session = open(host);
    host.receive(&session, &registration(id, json!([skill("/a/skill.md")]))).unwrap();
    session
}

fn call(host: &MdpHost, id: &str) -> JoinHandle<Result<ClientResponse, ClientCallError>> {
    let (host, id) = (host.clone(), id.to_owned());
    tokio::spawn(async move { host.call(&id, &ClientCall::new(Method::Get, "/a/skill.md")).await })
}

async fn next_call(session: &Session) -> Value {
    loop {
        match session.next().await {
            SessionOutput::Message(text) => {
                let message: Value = serde_json::from_str(&text).unwrap();
                if message["type"] == "callClient" {
                    return message;
                }
            }
            SessionOutput::Close(close) => panic!("{close:?}"),
        }
    }
}

fn answer(call: &Value, data: &str) -> String {
    let id = &call["requestId"];
    json!({"type": "callClientResult", "requestId": id, "ok": true, "data": data}).to_string()
}

fn ids(host: &MdpHost) -> Vec<String> {
    host.client_table().clients().map(|client| client.info.id.clone()).collect()
}

async fn text(
    call: JoinHandle<Result<ClientResponse, ClientCallError>>,
) -> Result<String, ClientCallError> {
    call.await.unwrap().map(|answer| answer.text().unwrap())
}

#[tokio::test(start_paused = true)]
async fn only_the_called_session_can_complete_a_call_and_only_once() {
    let host = host(Config::default());
    let (one, other) = (registered(&host, "one"), registered(&host, "other"));
    let waiting = call(&host, "one");
    let message = next_call(&one).await;
    assert_eq!(message["params"], json!({}));
    host.receive(&other, &answer(&message, "of another")).unwrap();
    host.receive(&one, &answer(&message, "right")).unwrap();
    host.receive(&one, &answer(&message, "again")).unwrap();
    assert_eq!(text(waiting).await, Ok("right".to_owned()));
    host.receive(&one, &answer(&json!({"requestId": "never asked"}), "x")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_times_out_after_fifteen_seconds() {
    let host = host(Config::default());
    let session = registered(&host, "slow");
    let waiting = call(&host, "slow");
    let message = next_call(&session).await;
    advance(SECOND * 14).await;
    assert!(!waiting.is_finished());
    advance(SECOND * 2).await;
    assert_eq!(text(waiting).await, Err(ClientCallError::Timeout("slow".into())));
    assert_eq!(session.open_calls(), 0);
    host.receive(&session, &answer(&message, "late")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_aborted_call_is_removed_from_the_session() {
    let host = host(Config::default());
    let session = registered(&host, "c");
    let waiting = call(&host, "c");
    next_call(&session).await;
    assert_eq!(session.open_calls(), 1);
    waiting.abort();
    let _ = waiting.await;
    assert_eq!(session.open_calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_newer_session_of_a_client_replaces_the_older() {
    let host = host(Config::default());
    let old = registered(&host, "c");
    let waiting = call(&host, "c");
    next_call(&old).await;
    let new = registered(&host, "c");
    assert_eq!(text(waiting).await, Err(ClientCallError::Disconnected("c".into())));
    let close = CloseReason::new(4000, "Replaced by newer client session");
    assert_eq!(old.next().await, SessionOutput::Close(close));
    // Its end is not the end of the client.
    host.end_session(&old, CloseReason::new(1000, ""));
    assert!(host.session(old.id).is_none());
    assert_eq!(ids(&host), ["c"]);
    let waiting = call(&host, "c");
    let message = next_call(&new).await;
    host.receive(&new, &answer(&message, "new")).unwrap();
    assert_eq!(text(waiting).await, Ok("new".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn registering_another_id_on_a_session_removes_the_first_client() {
    let host = host(Config::default());
    let session = registered(&host, "a");
    let waiting = call(&host, "a");
    next_call(&session).await;
    host.receive(&session, &registration("b", json!([]))).unwrap();
    let error = text(waiting).await.expect_err("re-registered");
    assert_eq!(error.to_string(), r#"Client "a" was re-registered as "b""#);
    assert_eq!(ids(&host), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn clients_are_listed_in_the_order_of_registration() {
    let host = host(Config::default());
    let mut changes = host.changes();
    let sessions = ["b", "a", "c"].map(|id| registered(&host, id));
    assert_eq!(ids(&host), ["b", "a", "c"]);
    let update = json!({"type": "updateClientCatalog", "clientId": "b", "paths": []}).to_string();
    host.receive(&sessions[0], &update).unwrap();
    host.receive(&sessions[0], &registration("b", json!([]))).unwrap();
    assert_eq!(ids(&host), ["b", "a", "c"]);
    registered(&host, "b");
    assert_eq!(ids(&host), ["a", "c", "b"]);
    let leave = json!({"type": "unregisterClient", "clientId": "c"}).to_string();
    host.receive(&sessions[1], &leave).unwrap();
    assert_eq!(ids(&host).len(), 3, "only for itself");
    host.receive(&sessions[2], &leave).unwrap();
    assert_eq!(ids(&host), ["a", "b"]);
    assert_eq!(*changes.borrow_and_update(), host.client_table().revision());
    assert_eq!(host.client_table().revision(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_catalog_is_replaced_as_a_whole_and_only_by_its_client() {
    let host = host(Config::default());
    let session = registered(&host, "c");
    let update = |id: &str| {
        let paths = json!([skill("/b/skill.md")]);
        json!({"type": "updateClientCatalog", "clientId": id, "paths": paths}).to_string()
    };
    host.receive(&session, &update("c")).unwrap();
    let error = text(call(&host, "c")).await.expect_err("gone");
    let words = r#"Path "/a/skill.md" with method "GET" was not found on client "c""#;
    assert_eq!(error.to_string(), words);
    let refused = host.receive(&session, &update("x")).expect_err("another");
    assert_eq!(
        refused.close_reason(),
        CloseReason::new(1008, r#"Client "x" is not registered on this session"#)
    );
}

#[tokio::test(start_paused = true)]
async fn sessions_are_pinged_every_thirty_seconds_and_end_after_ninety_of_silence() {
    let host = host(Config::default());
    let (quiet, alive) = (registered(&host, "quiet"), registered(&host, "alive"));
    let start = Instant::now();
    for beat in 1..=2 {
        let SessionOutput::Message(ping) = alive.next().await else { panic!("no ping") };
        let passed = start.elapsed().as_secs();
        assert!((30 * beat..=30 * beat + 2).contains(&passed), "after {passed} s");
        let ping: Value = serde_json::from_str(&ping).unwrap();
        assert!(ping["type"] == "ping" && ping["timestamp"].is_i64(), "{ping}");
        let pong = json!({"type": "pong", "timestamp": ping["timestamp"]}).to_string();
        host.receive(&alive, &pong).unwrap();
    }
    let mut pings = 0;
    let close = loop {
        match quiet.next().await {
            SessionOutput::Message(_) => pings += 1,
            SessionOutput::Close(close) => break close,
        }
    };
    let passed = start.elapsed().as_secs();
    assert!((90..=91).contains(&passed) && (2..=3).contains(&pings), "{pings} in {passed} s");
    assert_eq!(close.code, 1001);
    assert_eq!(ids(&host), ["alive"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_without_a_client_ends_after_the_timeout() {
    let host = host(Config::default());
    let (idle, left) = (open(&host), registered(&host, "left"));
    let leave = json!({"type": "unregisterClient", "clientId": "left"}).to_string();
    host.receive(&left, &leave).unwrap();
    advance(SECOND * 9).await;
    assert_eq!(idle.pop(), None);
    advance(SECOND * 2).await;
    assert!(matches!(idle.next().await, SessionOutput::Close(CloseReason { code: 1008, .. })));
    assert!(host.session(idle.id).is_none());
    assert!(matches!(left.next().await, SessionOutput::Close(CloseReason { code: 1008, .. })));
}

#[tokio::test(start_paused = true)]
async fn unregistering_restarts_the_registration_timeout() {
    let host = host(Config::default());
    let session = registered(&host, "c");
    advance(SECOND * 15).await;
    let leave = json!({"type": "unregisterClient", "clientId": "c"}).to_string();
    host.receive(&session, &leave).unwrap();
    advance(SECOND * 9).await;
    assert_eq!(session.pop(), None);
    host.receive(&session, &registration("c", json!([]))).unwrap();
    advance(SECOND * 5).await;
    assert!(session.is_registered() && host.session(session.id).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pong_has_the_timestamp_of_its_ping() {
    let host = host(Config::default());
    let session = registered(&host, "c");
    host.receive(&session, r#"{"type":"ping","timestamp":1753000000000}"#).unwrap();
    let SessionOutput::Message(pong) = session.next().await else { panic!("no pong") };
    assert_eq!(&*pong, r#"{"type":"pong","timestamp":1753000000000}"#);
}

#[tokio::test(start_paused = true)]
async fn the_shutdown_ends_every_session() {
    let shutdown = CancellationToken::new();
    let host = MdpHost::start(Config::default(), None, shutdown.clone());
    let session = registered(&host, "c");
    let waiting = call(&host, "c");
    next_call(&session).await;
    shutdown.cancel();
    assert_eq!(text(waiting).await, Err(ClientCallError::Disconnected("c".into())));
    assert!(matches!(session.next().await, SessionOutput::Close(CloseReason { code: 1001, .. })));
    assert!(host.open_session(ConnectionMode::WebSocket, TransportAuth::default()).is_err());
    host.wait_until_ended().await;
}
