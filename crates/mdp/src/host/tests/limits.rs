//! What is refused, and who is sent away.

use super::*;

#[tokio::test(start_paused = true)]
async fn limits_are_refused_with_a_code() {
    let limits = Limits {
        clients: 2,
        unregistered: 1,
        catalog_entries: 2,
        catalog_bytes: 5000,
        calls_per_client: 1,
        queue_bytes: 250,
        ..Limits::default()
    };
    let host = limited(limits);
    let session = registered(&host, "one");
    let first = call(&host, "one");
    asked(&session).await;
    let busy = text(call(&host, "one")).await.expect_err("one at a time");
    assert_eq!(busy.code(), crate::wire::Code::NotReady);
    first.abort();

    let idle = open(&host);
    let more = host.open(Mode::HttpLoop, Transport::default());
    assert_eq!(more.expect_err("one at a time").code(), "too_many_sessions");
    let refused = |text: String| host.receive(&idle, &text).expect_err("refused").code();
    let three = json!([skill("/a/skill.md"), skill("/b/skill.md"), skill("/c/skill.md")]);
    assert_eq!(refused(registration("x", three)), "too_many_paths");
    let long = json!([skill(&format!("/{}/skill.md", "a".repeat(300)))]);
    assert_eq!(refused(registration("x", long)), "catalogs_full");
    host.receive(&idle, &registration("two", json!([]))).unwrap();
    let third = open(&host);
    let full = host.receive(&third, &registration("three", json!([]))).expect_err("two at most");
    assert_eq!((full.code(), full.close().code), ("too_many_clients", 1013));
    // In place of another there is room.
    host.receive(&third, &registration("two", json!([]))).unwrap();
    assert_eq!(ids(&host), ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_client_said_of_itself_weighs_as_long_as_it_is_there() {
    let host = limited(Limits { catalog_bytes: 20_000, ..Limits::default() });
    let described = |id: &str| {
        let client = json!({"id": id, "name": id, "description": "x".repeat(3000), "paths": []});
        json!({"type": "registerClient", "client": client}).to_string()
    };
    let (one, other) = (open(&host), open(&host));
    host.receive(&one, &described("one")).unwrap();
    let update = json!({"type": "updateClientCatalog", "clientId": "one", "paths": []});
    host.receive(&one, &update.to_string()).unwrap();
    let full = host.receive(&other, &described("other")).expect_err("both are too much");
    assert_eq!(full.code(), "catalogs_full");
    host.receive(&one, &json!({"type": "unregisterClient", "clientId": "one"}).to_string())
        .unwrap();
    host.receive(&other, &described("other")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn ids_that_no_client_may_have() {
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
        assert_eq!(refused.expect_err(id).code(), code, "{id}");
    }
    for id in ["é clé", &"é".repeat(128), "a.b?c#d%20"] {
        host.receive(&session, &registration(id, json!([]))).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_take_its_messages_is_not_asked_more_than_fit() {
    let host = limited(Limits { queue_bytes: 400, ..Limits::default() });
    let session = registered(&host, "deaf");
    let mut calls: Vec<_> = (0..4).map(|_| call(&host, "deaf")).collect();
    tokio::task::yield_now().await;
    let last = text(calls.pop().unwrap()).await.expect_err("no room");
    assert!(last.to_string().contains("wait to be read"), "{last}");
    for _ in 0..20 {
        host.receive(&session, r#"{"type":"ping","timestamp":1}"#).unwrap();
    }
    assert_eq!(session.next().await, Next::Close(Close::new(1008, "messages are not read")));
    assert!(host.session(session.id).is_none() && host.roster().is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_has_no_room_for_a_ping_is_gone() {
    let host = limited(Limits { queue_bytes: 150, ..Limits::default() });
    let session = registered(&host, "deaf");
    let unanswered = text(call(&host, "deaf")).await;
    assert_eq!(unanswered, Err(CallError::Timeout("deaf".into())));
    // It is heard, and takes nothing: the call is still waiting for it.
    session.hear();
    tokio::time::sleep(SECOND * 17).await;
    assert!(host.roster().is_empty(), "{:?}", ids(&host));
    assert_eq!(text(call(&host, "deaf")).await, Err(CallError::NotConnected("deaf".into())));
}

#[tokio::test(start_paused = true)]
async fn without_the_token_nobody_registers() {
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
        let refused = host.receive(&session, &message(auth)).expect_err("no token");
        assert_eq!((refused.code(), refused.close().code), ("unauthorized", 1008));
    }
    assert!(host.roster().is_empty());
    host.receive(&session, &message(Some(json!({"token": "s3cret"})))).unwrap();
    let transport = Transport { has_auth: true, is_authorized: true };
    host.receive_by(&session, transport, &message(None)).unwrap();
    let refused = host.receive(&session, &message(None)).expect_err("of this request alone");
    assert_eq!(refused.code(), "unauthorized");
}
