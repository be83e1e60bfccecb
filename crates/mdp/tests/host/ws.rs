//! WebSockets: where they are, what is said on them, and how they end.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use serde_json::{Value, json};
use skills_mdp::{Config, Limits, Times};
use skills_testkit::mdp::{Client, Said, ok, registration, skill};
use tokio_tungstenite::tungstenite::{
    Bytes, Message,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

use crate::world::World;

#[tokio::test]
async fn on_any_path_that_nothing_else_has() {
    let world = World::new().await;
    for (at, path) in
        ["", "/", "/mdp/ws", "/x?y=z", "/skills/a/b", "/mdp/cluster"].into_iter().enumerate()
    {
        let mut client = Client::connect(&format!("{}{path}", world.ws())).await;
        let id = format!("client-{at}");
        client.send(&registration(&id, json!([]))).await;
        world.until(|ids| ids.contains(&id)).await;
    }
    for path in ["/mdp/http-loop", "/mdp/http-loop/connect", "/mdp/auth"] {
        let refused = Client::connect_with(&format!("{}{path}", world.ws()), &[]).await;
        assert!(refused.is_err_and(|status| status == 404), "{path}");
    }
    assert_eq!(world.get("/mdp/ws").await.status, 426);
}

#[tokio::test]
async fn what_is_wrong_is_closed_with_a_code_and_a_reason() {
    let limits = Limits { message_bytes: 8000, result_bytes: 16_000, ..Limits::default() };
    let world = World::with(Config { limits, ..Config::default() }, None).await;
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
        let mut client = world.connect().await;
        client.send_raw(message).await;
        let (said, why) = client.closed().await;
        assert_eq!(said, code, "{why}");
        assert!(why.starts_with(reason) && (reason != unexpected || why == unexpected), "{why}");
    }
    assert!(world.ids().is_empty());
}

#[tokio::test]
async fn only_who_is_registered_may_send_what_is_as_large_as_a_result() {
    let limits = Limits { message_bytes: 8000, result_bytes: 1 << 20, ..Limits::default() };
    let world = World::with(Config { limits, ..Config::default() }, None).await;
    let large = || Message::text("x".repeat(200_000));
    let mut stranger = world.connect().await;
    stranger.send_raw(large()).await;
    let (code, reason) = stranger.closed().await;
    assert!(code == 1009 && reason.ends_with("until a client is registered"), "{code} {reason}");
    // Nor in parts, with pings between them.
    let part = |code| Message::Frame(Frame::message("x".repeat(5000), OpCode::Data(code), false));
    let mut stranger = world.connect().await;
    stranger.send_raw(part(Data::Text)).await;
    for _ in 0..20 {
        stranger.send_raw(Message::Ping(Bytes::new())).await;
        stranger.send_raw(part(Data::Continue)).await;
    }
    let (code, reason) = stranger.closed().await;
    assert!(code == 1009 && reason.ends_with("until a client is registered"), "{code} {reason}");

    let client = world.client("c", json!([skill("/a/skill.md")])).await;
    client.serving(|_| ok("y".repeat(200_000)));
    assert_eq!(world.get("/skills/c/a").await.body.len(), 200_000);

    let session = world.post("/mdp/http-loop/connect", "{}").await.json();
    let target =
        format!("/mdp/http-loop/send?sessionId={}", session["sessionId"].as_str().unwrap());
    let body = format!(r#"{{"message":{{"type":"ping","x":"{}"}}}}"#, "x".repeat(20_000));
    assert_eq!(world.post(&target, &body).await.status, 413);
    let body = json!({"message": registration("loop", json!([]))}).to_string();
    assert_eq!(world.post(&target, &body).await.status, 202);
    let body = json!({"message": {
        "type": "callClientResult", "requestId": "r", "ok": true, "data": "x".repeat(20_000),
    }});
    assert_eq!(world.post(&target, &body.to_string()).await.status, 202);
}

#[tokio::test]
async fn pings_are_answered_and_pongs_are_heard() {
    let world = World::new().await;
    let mut client = world.connect().await;
    client.send(&json!({"type": "pong", "timestamp": 1})).await;
    client.send(&json!({"type": "ping", "timestamp": 1_753_000_000_000_i64})).await;
    let pong = json!({"type": "pong", "timestamp": 1_753_000_000_000_i64});
    assert_eq!(client.next().await, Said::Message(pong));
}

#[tokio::test]
async fn pinged() {
    let times = Times { ping_every: Duration::ZERO, ..Times::default() };
    let world = World::with(Config { times, ..Config::default() }, None).await;
    let mut client = world.client("c", json!([])).await;
    let Said::Message(ping) = client.next().await else { panic!("no ping") };
    assert!(ping["type"] == "ping" && ping["timestamp"].is_i64(), "{ping}");
}

#[tokio::test]
async fn dropped_when_silent() {
    let times = Times { silence: Duration::from_secs(1), ..Times::default() };
    let world = World::with(Config { times, ..Config::default() }, None).await;
    let mut client = world.connect().await;
    assert_eq!(client.closed().await, (1001, "nothing was heard for too long".to_owned()));
}

#[tokio::test]
async fn who_does_not_register_is_sent_away_and_there_are_not_many_of_them() {
    let times = Times { register_within: Duration::ZERO, ..Times::default() };
    let world = World::with(Config { times, ..Config::default() }, None).await;
    let mut client = world.connect().await;
    assert_eq!(client.closed().await, (1008, "no client was registered in time".to_owned()));

    let limits = Limits { unregistered: 1, ..Limits::default() };
    let world = World::with(Config { limits, ..Config::default() }, None).await;
    let first = world.connect().await;
    assert!(Client::connect_with(&world.ws(), &[]).await.is_err_and(|status| status == 503));
    first.kill();
}

#[tokio::test]
async fn when_there_is_no_room_it_is_to_be_tried_again_later() {
    let limits = Limits { clients: 1, ..Limits::default() };
    let world = World::with(Config { limits, ..Config::default() }, None).await;
    let _first = world.client("first", json!([])).await;
    let mut second = world.connect().await;
    second.send(&registration("second", json!([]))).await;
    let (code, reason) = second.closed().await;
    assert!(code == 1013 && reason.contains("try again later"), "{code} {reason}");

    let limits = Limits { catalog_bytes: 1000, ..Limits::default() };
    let world = World::with(Config { limits, ..Config::default() }, None).await;
    let mut large = world.connect().await;
    large.send(&registration("large", json!([skill("/a/skill.md")]))).await;
    let (code, reason) = large.closed().await;
    assert!(code == 1013 && reason.contains("too large together"), "{code} {reason}");
}

#[tokio::test]
async fn a_newer_session_replaces_the_older() {
    let world = World::new().await;
    let mut old = world.client("c", json!([skill("/a/skill.md")])).await;
    let before = *world.host.changes().borrow();
    let mut new = world.connect().await;
    new.send(&registration("c", json!([skill("/a/skill.md")]))).await;
    assert_eq!(old.closed().await, (4000, "Replaced by newer client session".to_owned()));
    assert!(*world.host.changes().borrow() > before);
    new.serving(|_| ok("of the new one"));
    assert_eq!(world.get("/skills/c/a").await.body, b"of the new one");
    assert_eq!(world.ids(), ["c"]);
}

#[tokio::test]
async fn a_client_may_leave_and_come_back_on_one_connection() {
    let world = World::new().await;
    let mut client = world.client("c", json!([])).await;
    client.send(&json!({"type": "unregisterClient", "clientId": "other"})).await;
    client.send(&json!({"type": "unregisterClient", "clientId": "c"})).await;
    world.until(<[_]>::is_empty).await;
    client.send(&registration("d", json!([]))).await;
    world.until(|ids| ids == ["d"]).await;
    client.send(&registration("e", json!([]))).await;
    world.until(|ids| ids == ["e"]).await;
}

/// A handshake by hand, on a socket that is then free for anything.
fn raw(world: &World) -> TcpStream {
    let mut stream = TcpStream::connect(world.address).unwrap();
    stream.set_read_timeout(Some(skills_testkit::DEADLINE)).unwrap();
    let key = "dGhlIHNhbXBsZSBub25jZQ==";
    let head = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n",
        world.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
    assert!(said.starts_with(b"HTTP/1.1 101"));
    stream
}

/// A text frame that a client sends, under a mask that changes nothing.
fn frame(message: &Value) -> Vec<u8> {
    let text = message.to_string();
    let length = u16::try_from(text.len()).unwrap().to_be_bytes();
    [&[0x81, 0xfe][..], &length, &[0; 4], text.as_bytes()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_frame_harms_nobody_and_its_sender_is_noticed_when_it_goes() {
    let world = World::new().await;
    let other = world.client("other", json!([skill("/a/skill.md")])).await;
    other.serving(|_| ok("fine"));
    let mut half = raw(&world);
    let whole = frame(&registration("half", json!([])));
    half.write_all(&whole[..20]).unwrap();
    assert_eq!(world.get("/skills/other/a").await.body, b"fine");
    half.write_all(&whole[20..]).unwrap();
    world.until(|ids| ids == ["other", "half"]).await;
    half.write_all(&whole[..20]).unwrap();
    assert_eq!(world.get("/skills/other/a").await.body, b"fine");
    drop(half);
    world.until(|ids| ids == ["other"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_websocket_frame_is_closed_with_its_own_codes() {
    let world = World::new().await;
    for (bytes, code) in [
        // Not masked; not UTF-8; a reserved opcode.
        (&[0x81, 0x01, b'x'][..], 1002_u16),
        (&[0x81, 0x81, 0, 0, 0, 0, 0xff], 1007),
        (&[0x83, 0x80, 0, 0, 0, 0], 1002),
    ] {
        let mut stream = raw(&world);
        stream.write_all(bytes).unwrap();
        let mut said = [0; 4];
        stream.read_exact(&mut said).unwrap();
        assert_eq!((said[0], u16::from_be_bytes([said[2], said[3]])), (0x88, code), "{bytes:?}");
    }
}

#[tokio::test]
async fn the_shutdown_closes_every_connection() {
    let world = World::new().await;
    let mut client = world.client("c", json!([])).await;
    world.shutdown.cancel();
    assert_eq!(client.closed().await, (1001, "the server is shutting down".to_owned()));
    world.host.ended().await;
}
