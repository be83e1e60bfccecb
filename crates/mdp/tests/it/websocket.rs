//! WebSocket connections: paths, limits, keepalive and close codes.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::{Value, json};
use skills_mdp::{Config, MdpLimits, MdpTimeouts};
use skills_testkit::mdp::{Client, ClientEvent, ok, registration, skill};
use tokio_tungstenite::tungstenite::{
    Bytes, Message,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

use crate::test_host::TestHost;

#[tokio::test]
async fn websockets_are_accepted_on_any_unused_path() {
    let host = TestHost::new().await;
    for (at, path) in
        ["", "/", "/mdp/ws", "/x?y=z", "/skills/a/b", "/mdp/cluster"].into_iter().enumerate()
    {
        let mut client = Client::connect(&format!("{}{path}", host.ws())).await;
        let id = format!("client-{at}");
        client.send(&registration(&id, json!([]))).await;
        host.until(|ids| ids.contains(&id)).await;
    }
    for path in ["/mdp/http-loop", "/mdp/http-loop/connect", "/mdp/auth"] {
        let refused = Client::connect_with(&format!("{}{path}", host.ws()), &[]).await;
        assert!(refused.is_err_and(|status| status == 404), "{path}");
    }
    assert_eq!(host.get("/mdp/ws").await.status, 426);
}

#[tokio::test]
async fn protocol_errors_close_the_connection_with_code_and_reason() {
    let limits = MdpLimits { message_bytes: 8000, result_bytes: 16_000, ..MdpLimits::default() };
    let host = TestHost::with(Config { limits, ..Config::default() }, None).await;
    let unexpected = "Unexpected server-directed message";
    let bad_path = registration("c", json!([skill("/A/skill.md")]));
    let bad_code = json!({"type": "callClientResult", "requestId": "r", "ok": false,
        "error": {"code": "odd", "message": "m"}});
    let update = json!({"type": "updateClientCatalog", "clientId": "x", "paths": []});
    let deep = format!("/{}skill.md", "a/".repeat(40));
    let long = format!("/{}/skill.md", "a".repeat(1100));
    for (message, code, reason) in [
        (Message::text("{nonsense"), 1008, "the message is not JSON: "),
        (Message::text("7"), 1008, unexpected),
        (Message::text(r#"{"type":"hello"}"#), 1008, unexpected),
        (Message::text(r#"{"type":"callClient"}"#), 1008, unexpected),
        (Message::text(bad_path.to_string()), 1008, unexpected),
        (Message::text(bad_code.to_string()), 1008, unexpected),
        (Message::binary(b"{}".to_vec()), 1003, "Binary frames are not supported"),
        (Message::text(update.to_string()), 1008, "Client \"x\" is not registered on this session"),
        (Message::text(registration("registry", json!([])).to_string()), 1008, "the client id \"r"),
        (
            Message::text(registration("a/b", json!([])).to_string()),
            1008,
            "a client id is 1 to 128",
        ),
        (
            Message::text(registration("c", json!([skill(&deep)])).to_string()),
            1008,
            "paths[0] has 41",
        ),
        (
            Message::text(registration("c", json!([skill(&long)])).to_string()),
            1008,
            "paths[0] has 11",
        ),
        (Message::text("x".repeat(16_001)), 1009, "the message has 16001 bytes, at most 16000"),
        (
            Message::text(json!({"type": "ping", "x": "x".repeat(8000)}).to_string()),
            1009,
            "the message has 80",
        ),
    ] {
        let mut client = host.connect().await;
        client.send_raw(message).await;
        let (output, why) = client.wait_for_close().await;
        assert_eq!(output, code, "{why}");
        assert!(why.starts_with(reason) && (reason != unexpected || why == unexpected), "{why}");
    }
    assert!(host.ids().is_empty());
}

#[tokio::test]
async fn only_a_called_client_may_send_messages_of_result_size() {
    let limits = MdpLimits { message_bytes: 8000, result_bytes: 1 << 20, ..MdpLimits::default() };
    let host = TestHost::with(Config { limits, ..Config::default() }, None).await;
    let large = || Message::text("x".repeat(200_000));
    let mut stranger = host.connect().await;
    stranger.send_raw(large()).await;
    let (code, reason) = stranger.wait_for_close().await;
    assert!(code == 1009 && reason.ends_with("until the client is called"), "{code} {reason}");
    // Fragments with pings between them are refused too.
    let part = |code| Message::Frame(Frame::message("x".repeat(5000), OpCode::Data(code), false));
    let mut stranger = host.connect().await;
    stranger.send_raw(part(Data::Text)).await;
    for _ in 0..20 {
        stranger.send_raw(Message::Ping(Bytes::new())).await;
        stranger.send_raw(part(Data::Continue)).await;
    }
    let (code, reason) = stranger.wait_for_close().await;
    assert!(code == 1009 && reason.ends_with("until the client is called"), "{code} {reason}");

    let client = host.client("c", json!([skill("/a/skill.md")])).await;
    client.serve_calls(|_| ok("y".repeat(200_000)));
    assert_eq!(host.get("/skills/c/a").await.body.len(), 200_000);

    let session = host.post("/mdp/http-loop/connect", "{}").await.json();
    let target =
        format!("/mdp/http-loop/send?sessionId={}", session["sessionId"].as_str().unwrap());
    let body = format!(r#"{{"message":{{"type":"ping","x":"{}"}}}}"#, "x".repeat(20_000));
    assert_eq!(host.post(&target, &body).await.status, 413);
    let body = json!({"message": registration("loop", json!([]))}).to_string();
    assert_eq!(host.post(&target, &body).await.status, 202);
    let body = json!({"message": {
        "type": "callClientResult", "requestId": "r", "ok": true, "data": "x".repeat(20_000),
    }});
    assert_eq!(host.post(&target, &body.to_string()).await.status, 413);
}

#[tokio::test]
async fn pings_are_answered_and_pongs_accepted() {
    let host = TestHost::new().await;
    let mut client = host.connect().await;
    client.send(&json!({"type": "pong", "timestamp": 1})).await;
    client.send(&json!({"type": "ping", "timestamp": 1_753_000_000_000_i64})).await;
    let pong = json!({"type": "pong", "timestamp": 1_753_000_000_000_i64});
    assert_eq!(client.next().await, ClientEvent::Message(pong));
}

#[tokio::test]
async fn silent_clients_are_pinged() {
    let times = MdpTimeouts { ping_every: Duration::ZERO, ..MdpTimeouts::default() };
    let host = TestHost::with(Config { times, ..Config::default() }, None).await;
    let mut client = host.client("c", json!([])).await;
    let ClientEvent::Message(ping) = client.next().await else { panic!("no ping") };
    assert!(ping["type"] == "ping" && ping["timestamp"].is_i64(), "{ping}");
}

#[tokio::test]
async fn silent_clients_are_disconnected() {
    let times = MdpTimeouts { silence: Duration::from_secs(1), ..MdpTimeouts::default() };
    let host = TestHost::with(Config { times, ..Config::default() }, None).await;
    let mut client = host.connect().await;
    assert_eq!(client.wait_for_close().await, (1001, "no message for too long".to_owned()));
}

#[tokio::test]
async fn unregistered_connections_are_limited_in_time_and_number() {
    let times = MdpTimeouts { register_within: Duration::ZERO, ..MdpTimeouts::default() };
    let host = TestHost::with(Config { times, ..Config::default() }, None).await;
    let mut client = host.connect().await;
    assert_eq!(client.wait_for_close().await, (1008, "no client registered in time".to_owned()));

    let limits = MdpLimits { unregistered: 1, ..MdpLimits::default() };
    let host = TestHost::with(Config { limits, ..Config::default() }, None).await;
    let first = host.connect().await;
    assert!(Client::connect_with(&host.ws(), &[]).await.is_err_and(|status| status == 503));
    first.kill();
}

#[tokio::test]
async fn connections_over_the_limit_are_asked_to_retry_later() {
    let limits = MdpLimits { clients: 1, ..MdpLimits::default() };
    let host = TestHost::with(Config { limits, ..Config::default() }, None).await;
    let _first = host.client("first", json!([])).await;
    let mut second = host.connect().await;
    second.send(&registration("second", json!([]))).await;
    let (code, reason) = second.wait_for_close().await;
    assert!(code == 1013 && reason.contains("try again later"), "{code} {reason}");

    let limits = MdpLimits { catalog_bytes: 1000, ..MdpLimits::default() };
    let host = TestHost::with(Config { limits, ..Config::default() }, None).await;
    let mut large = host.connect().await;
    large.send(&registration("large", json!([skill("/a/skill.md")]))).await;
    let (code, reason) = large.wait_for_close().await;
    assert!(code == 1013 && reason.contains("too large together"), "{code} {reason}");
}

#[tokio::test]
async fn a_newer_session_replaces_the_older_one() {
    let host = TestHost::new().await;
    let mut old = host.client("c", json!([skill("/a/skill.md")])).await;
    let before = *host.host.changes().borrow();
    let mut new = host.connect().await;
    new.send(&registration("c", json!([skill("/a/skill.md")]))).await;
    assert_eq!(old.wait_for_close().await, (4000, "Replaced by newer client session".to_owned()));
    assert!(*host.host.changes().borrow() > before);
    new.serve_calls(|_| ok("of the new one"));
    assert_eq!(host.get("/skills/c/a").await.body, b"of the new one");
    assert_eq!(host.ids(), ["c"]);
}

#[tokio::test]
async fn a_client_may_unregister_and_register_again_on_one_connection() {
    let host = TestHost::new().await;
    let mut client = host.client("c", json!([])).await;
    client.send(&json!({"type": "unregisterClient", "clientId": "other"})).await;
    client.send(&json!({"type": "unregisterClient", "clientId": "c"})).await;
    host.until(<[_]>::is_empty).await;
    client.send(&registration("d", json!([]))).await;
    host.until(|ids| ids == ["d"]).await;
    client.send(&registration("e", json!([]))).await;
    host.until(|ids| ids == ["e"]).await;
}

/// Performs a handshake and returns the raw socket.
fn raw(host: &TestHost) -> TcpStream {
    let mut stream = TcpStream::connect(host.address).unwrap();
    stream.set_read_timeout(Some(skills_testkit::DEADLINE)).unwrap();
    let key = "dGhlIHNhbXBsZSBub25jZQ==";
    let head = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n",
        host.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut output = Vec::new();
    while !output.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        output.extend(byte);
    }
    assert!(output.starts_with(b"HTTP/1.1 101"));
    stream
}

/// Builds a client text frame with a zero mask.
fn frame(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    let length = u16::try_from(text.len()).unwrap().to_be_bytes();
    [&[0x81, 0xfe][..], &length, &[0; 4], text.as_bytes()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partial_frame_affects_no_other_client() {
    let host = TestHost::new().await;
    let other = host.client("other", json!([skill("/a/skill.md")])).await;
    other.serve_calls(|_| ok("fine"));
    let mut half = raw(&host);
    let whole = frame(&registration("half", json!([])));
    half.write_all(&whole[..20]).unwrap();
    assert_eq!(host.get("/skills/other/a").await.body, b"fine");
    half.write_all(&whole[20..]).unwrap();
    host.until(|ids| ids == ["other", "half"]).await;
    half.write_all(&whole[..20]).unwrap();
    assert_eq!(host.get("/skills/other/a").await.body, b"fine");
    drop(half);
    host.until(|ids| ids == ["other"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_websocket_frames_close_with_their_own_codes() {
    let host = TestHost::new().await;
    for (bytes, code) in [
        // Not masked; not UTF-8; a reserved opcode.
        (&[0x81, 0x01, b'x'][..], 1002_u16),
        (&[0x81, 0x81, 0, 0, 0, 0, 0xff], 1007),
        (&[0x83, 0x80, 0, 0, 0, 0], 1002),
    ] {
        let mut stream = raw(&host);
        stream.write_all(bytes).unwrap();
        let mut output = [0; 4];
        stream.read_exact(&mut output).unwrap();
        assert_eq!(
            (output[0], u16::from_be_bytes([output[2], output[3]])),
            (0x88, code),
            "{bytes:?}"
        );
    }
}

#[tokio::test]
async fn the_shutdown_closes_every_connection() {
    let host = TestHost::new().await;
    let mut client = host.client("c", json!([])).await;
    host.shutdown.cancel();
    assert_eq!(client.wait_for_close().await, (1001, "the server is shutting down".to_owned()));
    host.host.wait_until_ended().await;
}
