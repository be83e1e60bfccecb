//! Tests of the limits.

use skills_core::Coded as _;

use super::*;

#[tokio::test(start_paused = true)]
async fn exceeding_a_limit_has_an_error_code() {
    let limits = MdpLimits {
        clients: 2,
        unregistered: 1,
        catalog_entries: 2,
        catalog_bytes: 5000,
        calls_per_client: 1,
        queue_bytes: 250,
        ..MdpLimits::default()
    };
    let host = limited(limits);
    let session = registered(&host, "one");
    let first = call(&host, "one");
    next_call(&session).await;
    let busy = text(call(&host, "one")).await.expect_err("one at a time");
    assert_eq!(busy.code().as_str(), "not_ready");
    first.abort();

    let idle = open(&host);
    let more = host.open_session(ConnectionMode::HttpLoop, TransportAuth::default());
    assert_eq!(more.expect_err("one at a time").code().as_str(), "too_many_sessions");
    let refused = |text: String| host.receive(&idle, &text).expect_err("refused").code().as_str();
    let three = json!([skill("/a/skill.md"), skill("/b/skill.md"), skill("/c/skill.md")]);
    assert_eq!(refused(registration("x", three)), "too_many_paths");
    let long = json!([skill(&format!("/{}/skill.md", "a".repeat(300)))]);
    assert_eq!(refused(registration("x", long)), "catalogs_full");
    host.receive(&idle, &registration("two", json!([]))).unwrap();
    let third = open(&host);
    let full = host.receive(&third, &registration("three", json!([]))).expect_err("two at most");
    assert_eq!((full.code().as_str(), full.close_reason().code), ("too_many_clients", 1013));
    // A client can replace another one at the limit.
    host.receive(&third, &registration("two", json!([]))).unwrap();
    assert_eq!(ids(&host), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn the_description_of_a_client_counts_until_it_is_unregistered() {
    let host = limited(MdpLimits { catalog_bytes: 20_000, ..MdpLimits::default() });
    let described = |id: &str| {
        let client = json!({"id": id, "name": id, "description": "x".repeat(3000), "paths": []});
        json!({"type": "registerClient", "client": client}).to_string()
    };
    let (one, other) = (open(&host), open(&host));
    host.receive(&one, &described("one")).unwrap();
    let update = json!({"type": "updateClientCatalog", "clientId": "one", "paths": []});
    host.receive(&one, &update.to_string()).unwrap();
    let full = host.receive(&other, &described("other")).expect_err("both are too much");
    assert_eq!(full.code().as_str(), "catalogs_full");
    host.receive(&one, &json!({"type": "unregisterClient", "clientId": "one"}).to_string())
        .unwrap();
    host.receive(&other, &described("other")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn invalid_and_reserved_client_ids_are_rejected() {
    let host = host(Config::default());
    let session = open(&host);
    for (id, code) in [
        ("", "invalid_client_id"),
        ("a/b", "invalid_client_id"),
        ("a\nb", "invalid_client_id"),
        (" a", "invalid_client_id"),
        ("..", "invalid_client_id"),
        (&"a".repeat(129), "invalid_client_id"),
        ("registry", "reserved_client_id"),
        ("Registry", "reserved_client_id"),
        ("skills", "reserved_client_id"),
        ("v1", "reserved_client_id"),
        (".well-known", "reserved_client_id"),
        ("official", "reserved_client_id"),
        ("Market", "reserved_client_id"),
        ("private", "reserved_client_id"),
    ] {
        let refused = host.receive(&session, &registration(id, json!([])));
        assert_eq!(refused.expect_err(id).code().as_str(), code, "{id}");
    }
    for id in ["é clé", &"é".repeat(128), "a.b?c#d%20"] {
        host.receive(&session, &registration(id, json!([]))).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_send_queue_fail() {
    let host = limited(MdpLimits { queue_bytes: 400, ..MdpLimits::default() });
    let session = registered(&host, "deaf");
    let mut calls: Vec<_> = (0..4).map(|_| call(&host, "deaf")).collect();
    tokio::task::yield_now().await;
    let last = text(calls.pop().unwrap()).await.expect_err("no room");
    assert!(last.to_string().contains("wait to be read"), "{last}");
    for _ in 0..20 {
        host.receive(&session, r#"{"type":"ping","timestamp":1}"#).unwrap();
    }
    assert_eq!(
        session.next().await,
        SessionOutput::Close(CloseReason::new(1008, "messages are not read"))
    );
    assert!(host.session(session.id).is_none() && host.client_table().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_without_room_for_a_ping_ends() {
    let host = limited(MdpLimits { queue_bytes: 150, ..MdpLimits::default() });
    let session = registered(&host, "deaf");
    for _ in 0..4 {
        host.receive(&session, r#"{"type":"ping","timestamp":1}"#).unwrap();
    }
    // The client sends but does not read: the pongs to its pings are still queued.
    tokio::time::sleep(SECOND * 32).await;
    assert!(host.client_table().is_empty(), "{:?}", ids(&host));
    assert_eq!(text(call(&host, "deaf")).await, Err(ClientCallError::NotConnected("deaf".into())));
}

#[tokio::test(start_paused = true)]
async fn registration_needs_the_token() {
    let host = host(Config { token: Some("s3cret".into()), ..Config::default() });
    let session = open(&host);
    let message = |auth: Option<Value>| {
        let client = json!({"id": "c", "name": "c", "paths": []});
        let mut message = json!({"type": "registerClient", "client": client});
        if let Some(auth) = auth {
            message["auth"] = auth;
        }
        message.to_string()
    };
    for auth in [None, Some(json!({})), Some(json!({"token": "wrong"}))] {
        let refused = host.receive(&session, &message(auth.clone())).expect_err("no token");
        assert_eq!(
            (refused.code().as_str(), refused.close_reason().code),
            ("unauthorized", 1008),
            "{auth:?}"
        );
    }
    assert!(host.client_table().is_empty());
    host.receive(&session, &message(Some(json!({"token": "s3cret"})))).unwrap();
    let transport =
        TransportAuth { has_auth: true, is_authorized: true, ..TransportAuth::default() };
    host.receive_with_auth(&session, &transport, &message(None)).unwrap();
    let refused = host.receive(&session, &message(None)).expect_err("of this request alone");
    assert_eq!(refused.code().as_str(), "unauthorized");
}

/// A client that has one path and takes nothing.
fn deaf(host: &MdpHost) -> Arc<Session> {
    registered(host, "deaf")
}

fn large_call(caller: Caller) -> ClientCall {
    let body = Some(json!("x".repeat(1 << 20)));
    ClientCall { body, caller, ..ClientCall::new(Method::Get, "/a/skill.md") }
}

#[tokio::test(start_paused = true)]
async fn a_queued_message_is_removed_when_its_call_ends() {
    let config = Config::default();
    let budget = config.budget.clone();
    let host = host(config);
    let session = deaf(&host);
    let registered = budget.reserved();
    let ask = || {
        let host = host.clone();
        tokio::spawn(async move { host.call("deaf", &large_call(Caller::Anonymous)).await })
    };
    let (times_out, leaves) = (ask(), ask());
    tokio::task::yield_now().await;
    assert!(budget.reserved() > registered + (2 << 20));
    leaves.abort();
    let _ = leaves.await;
    assert!(budget.reserved() < registered + (2 << 20));
    assert_eq!(times_out.await.unwrap().unwrap_err(), ClientCallError::Timeout("deaf".into()));
    assert_eq!(budget.reserved(), registered);
    assert_eq!(session.pop(), None);
}

#[tokio::test(start_paused = true)]
async fn one_caller_cannot_use_the_memory_of_another() {
    let host = host(Config::default());
    let sessions: Vec<_> = (0..64).map(|number| registered(&host, &number.to_string())).collect();
    let user = |key: &[u8]| {
        let (owner, key) = ("ann".parse().unwrap(), skills_core::Digest::of(key));
        Caller::User(skills_core::User { owner, key })
    };
    let ask = |number: usize, caller: Caller| {
        let host = host.clone();
        let call = large_call(caller);
        tokio::spawn(async move { host.call(&number.to_string(), &call).await })
    };
    let one: Vec<_> = (0..64).map(|number| ask(number, user(b"1"))).collect();
    tokio::task::yield_now().await;
    let refused = one.iter().filter(|call| call.is_finished()).count();
    assert!((1..40).contains(&refused), "{refused}");
    let other = ask(0, user(b"2"));
    let message = loop {
        let message = next_call(&sessions[0]).await;
        if message["body"].is_string() {
            break message;
        }
    };
    assert_eq!(message["clientId"], "0");
    tokio::task::yield_now().await;
    assert!(!other.is_finished(), "it waits for its answer");
}

#[tokio::test(start_paused = true)]
async fn a_result_with_too_many_values_is_not_parsed() {
    let host = host(Config::default());
    let session = registered(&host, "c");
    let waiting = call(&host, "c");
    let message = next_call(&session).await;
    let data = format!("[{}0]", "[0],".repeat(200_000));
    let id = &message["requestId"];
    let result =
        format!(r#"{{"type":"callClientResult","requestId":{id},"ok":true,"data":{data}}}"#);
    host.receive(&session, &result).unwrap();
    let mut answer = waiting.await.unwrap().unwrap();
    let error = answer.value("c").unwrap_err();
    assert_eq!(error, ClientCallError::TooManyValues("c".into()));
}

#[tokio::test(start_paused = true)]
async fn before_authentication_a_message_has_at_most_64_kib() {
    let limits = MdpLimits::default();
    let guarded = host(Config { token: Some("s3cret".into()), ..Config::default() });
    let session = open(&guarded);
    assert_eq!(session.max_message_bytes(false, &limits), 64 << 10);
    assert_eq!(session.max_message_bytes(true, &limits), limits.message_bytes);
    let registration = json!({
        "type": "registerClient", "auth": {"token": "s3cret"},
        "client": {"id": "c", "name": "c", "paths": [skill("/a/skill.md")]},
    });
    guarded.receive(&session, &registration.to_string()).unwrap();
    assert_eq!(session.max_message_bytes(false, &limits), limits.message_bytes);
    // Only a called client can send a result.
    let waiting = call(&guarded, "c");
    next_call(&session).await;
    assert_eq!(session.max_message_bytes(false, &limits), limits.result_bytes);
    waiting.abort();
    let _ = waiting.await;
    assert_eq!(session.max_message_bytes(false, &limits), limits.result_bytes, "it may be late");
    advance(SECOND * 31).await;
    assert_eq!(session.max_message_bytes(false, &limits), limits.message_bytes);
}

#[tokio::test(start_paused = true)]
async fn the_token_is_checked_before_the_registration_is_parsed() {
    let host = host(Config { token: Some("s3cret".into()), ..Config::default() });
    let session = open(&host);
    let broken = r#"{"type":"registerClient","client":{"paths":7},"auth":{"token":"wrong"}}"#;
    assert_eq!(host.receive(&session, broken).unwrap_err().code().as_str(), "unauthorized");
}

/// Ends the key of everyone at once.
struct Ending(CancellationToken);

impl KeyDirectory for Ending {
    fn lookup(&self, _: &str) -> skills_core::KeyLookup {
        skills_core::KeyLookup::NotAKey
    }

    fn wait_until_ended(&self, _: &Caller) -> skills_core::KeyEnd {
        let ended = self.0.clone();
        Box::pin(async move { ended.cancelled().await })
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_with_its_key_and_belongs_to_one_user() {
    let host = host(Config::default());
    let end = CancellationToken::new();
    host.watch_keys(Arc::new(Ending(end.clone())));
    let user = |key: &[u8]| {
        let (owner, key) = ("ann".parse().unwrap(), skills_core::Digest::of(key));
        Caller::User(skills_core::User { owner, key })
    };
    let transport =
        TransportAuth { is_authorized: true, caller: user(b"1"), ..TransportAuth::default() };
    let session = host.open_session(ConnectionMode::HttpLoop, transport).unwrap();
    host.receive(&session, &registration("c", json!([skill("/a/skill.md")]))).unwrap();
    assert!(session.is_usable_by(&user(b"1")) && session.is_usable_by(&Caller::Anonymous));
    assert!(!session.is_usable_by(&user(b"2")));
    let stays = registered(&host, "stays");
    let waiting = call(&host, "c");
    tokio::task::yield_now().await;
    end.cancel();
    assert_eq!(text(waiting).await, Err(ClientCallError::Disconnected("c".into())));
    assert!(matches!(session.next().await, SessionOutput::Close(CloseReason { code: 1008, .. })));
    assert_eq!(ids(&host), ["stays"]);
    assert!(host.session(stays.id).is_some());
}

#[tokio::test(start_paused = true)]
async fn anonymous_clients_leave_a_share_for_clients_with_a_key() {
    let host = limited(MdpLimits { clients: 8, unregistered: 8, ..MdpLimits::default() });
    let register = |id: String, caller: Caller| {
        let transport = TransportAuth { is_authorized: true, caller, ..TransportAuth::default() };
        let session = host.open_session(ConnectionMode::HttpLoop, transport)?;
        host.receive(&session, &registration(&id, json!([]))).map(|()| session)
    };
    let anonymous: Vec<_> =
        (0..6).map(|n| register(format!("a{n}"), Caller::Anonymous).unwrap()).collect();
    let more = register("a6".into(), Caller::Anonymous).unwrap_err();
    assert_eq!(more.code().as_str(), "too_many_clients");
    let user = || {
        let (owner, key) = ("ann".parse().unwrap(), skills_core::Digest::of(b"1"));
        Caller::User(skills_core::User { owner, key })
    };
    let _first = register("u0".into(), user()).unwrap();
    host.end_session(&anonymous[0], CloseReason::new(1000, ""));
    register("a7".into(), Caller::Anonymous).unwrap();
    let _second = register("u1".into(), user()).unwrap();
    assert_eq!(register("u2".into(), user()).unwrap_err().code().as_str(), "too_many_clients");
    let open = |_| host.open_session(ConnectionMode::HttpLoop, TransportAuth::default()).is_ok();
    assert!((0..8).filter(|n| open(*n)).count() <= 6);
    assert!(
        host.open_session(
            ConnectionMode::HttpLoop,
            TransportAuth { caller: user(), ..TransportAuth::default() }
        )
        .is_ok()
    );
}

fn from_address(last: u8, is_authorized: bool) -> TransportAuth {
    let address = Some(std::net::Ipv4Addr::new(192, 0, 2, last).into());
    TransportAuth { is_authorized, address, ..TransportAuth::default() }
}

#[tokio::test(start_paused = true)]
async fn clients_without_a_key_do_not_share_one_count() {
    let host = limited(MdpLimits { unregistered: 8, ..MdpLimits::default() });
    let open = |last| host.open_session(ConnectionMode::HttpLoop, from_address(last, true));
    let greedy: Vec<_> = (0..8).map_while(|_| open(1).ok()).collect();
    assert_eq!(greedy.len(), 6);
    assert!(open(2).is_ok(), "another address");
}

#[tokio::test(start_paused = true)]
async fn sessions_without_the_token_make_room_for_others() {
    let limits = MdpLimits { unregistered: 32, ..MdpLimits::default() };
    let host = host(Config { limits, token: Some("s3cret".to_owned()), ..Config::default() });
    let open = |last, is_authorized| {
        host.open_session(ConnectionMode::HttpLoop, from_address(last, is_authorized)).unwrap()
    };
    let waiting = open(2, false);
    let flood: Vec<_> = (0..100).map(|_| open(1, false)).collect();
    let is_open = |session: &Arc<Session>| host.session(session.id).is_some();
    // One address evicts its own sessions.
    assert_eq!(flood.iter().filter(|session| is_open(session)).count(), 4);
    assert!(flood.iter().rev().take(4).all(is_open), "the newest are left");
    assert!(is_open(&waiting));
    assert!(matches!(flood[0].next().await, SessionOutput::Close(CloseReason { code: 1013, .. })));
    // Many addresses evict the oldest.
    let many: Vec<_> = (3..100).map(|last| open(last, false)).collect();
    assert_eq!(many.iter().filter(|session| is_open(session)).count(), 16);
    // Sessions with the token are counted apart, and make the others leave.
    let trusted: Vec<_> = (0..24).map(|_| open(200, true)).collect();
    assert!(trusted.iter().all(is_open));
    assert_eq!(many.iter().filter(|session| is_open(session)).count(), 8);
    let more = host.open_session(ConnectionMode::HttpLoop, from_address(200, true));
    assert_eq!(more.unwrap_err().code().as_str(), "too_many_sessions");
    assert!(is_open(&open(201, true)), "another address");
}

#[tokio::test(start_paused = true)]
async fn only_registrations_and_pings_are_accepted_before_the_token() {
    let host = host(Config { token: Some("s3cret".to_owned()), ..Config::default() });
    let session = open(&host);
    for message in
        [json!({"type": "ping", "timestamp": 1}), json!({"type": "pong", "timestamp": 1})]
    {
        host.receive(&session, &message.to_string()).unwrap();
    }
    let result = json!({"type": "callClientResult", "requestId": "r", "ok": true}).to_string();
    let others = [
        result.clone(),
        json!({"type": "updateClientCatalog", "clientId": "a", "paths": []}).to_string(),
        json!({"type": "unregisterClient", "clientId": "a"}).to_string(),
    ];
    for message in &others {
        let refused = host.receive(&session, message).expect_err(message);
        assert_eq!(refused.code().as_str(), "unauthorized", "{message}");
    }
    let mut registration: Value = serde_json::from_str(&registration("a", json!([]))).unwrap();
    registration["auth"] = json!({"token": "s3cret"});
    host.receive(&session, &registration.to_string()).unwrap();
    host.receive(&session, &json!({"type": "unregisterClient", "clientId": "a"}).to_string())
        .unwrap();
    // A late result of a client that has left is no offence.
    host.receive(&session, &result).unwrap();
}
