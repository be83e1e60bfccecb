//! The HTTP loop, by the rows of its table.

use serde_json::{Value, json};
use skills_testkit::{
    Request, Response,
    mdp::{registration, skill},
};
use tokio::task::JoinHandle;

use crate::test_host::TestHost;

const BASE: &str = "/mdp/http-loop";

async fn connect(host: &TestHost) -> String {
    let answer = host.post(&format!("{BASE}/connect"), "{}").await;
    assert_eq!(answer.status, 200);
    answer.json()["sessionId"].as_str().unwrap().to_owned()
}

async fn send(host: &TestHost, session: &str, message: &Value) -> Response {
    let request = Request::new("POST", &format!("{BASE}/send"))
        .header("content-type", "application/json")
        .header("x-mdp-session-id", session)
        .body(json!({ "message": message }).to_string());
    host.ask(request).await
}

fn poll(host: &TestHost, session: &str, wait_ms: &str) -> JoinHandle<Response> {
    let request = Request::get(&format!("{BASE}/poll?sessionId={session}&waitMs={wait_ms}"))
        .header("content-type", "application/json");
    let address = host.address.to_string();
    tokio::task::spawn_blocking(move || request.send(&address))
}

#[tokio::test]
async fn a_client_works_over_the_http_loop() {
    let host = TestHost::new().await;
    let session = connect(&host).await;
    let sent = send(&host, &session, &registration("c", json!([skill("/a/skill.md")]))).await;
    assert_eq!((sent.status, sent.json()), (202, json!({"ok": true})));
    assert_eq!(host.ids(), ["c"]);

    let polling = poll(&host, &session, "20000");
    let reading = tokio::spawn({
        let address = host.address.to_string();
        async move {
            let get = move || Request::get("/skills/c/a?x=1").send(&address);
            tokio::task::spawn_blocking(get).await.unwrap()
        }
    });
    let call = polling.await.unwrap();
    assert_eq!(call.status, 200);
    let call = call.json()["message"].clone();
    assert_eq!((&call["type"], &call["query"]), (&json!("callClient"), &json!({"x": "1"})));
    let id = &call["requestId"];
    let result = json!({"type": "callClientResult", "requestId": id, "ok": true, "data": "# Hi"});
    assert_eq!(send(&host, &session, &result).await.status, 202);
    assert_eq!(reading.await.unwrap().body, b"# Hi");

    // Published clients send a content type without a body.
    let bye = Request::new("POST", &format!("{BASE}/disconnect"))
        .header("content-type", "application/json")
        .header("x-mdp-session-id", &session);
    assert_eq!(host.ask(bye.clone()).await.status, 204);
    assert!(host.ids().is_empty());
    assert_eq!(host.ask(bye).await.status, 204, "also when it is gone");
    assert_eq!(poll(&host, &session, "1").await.unwrap().status, 404);
}

#[tokio::test]
async fn messages_are_polled_one_by_one_in_order() {
    let host = TestHost::new().await;
    let session = connect(&host).await;
    assert_eq!(poll(&host, &session, "1").await.unwrap().status, 204);
    for timestamp in 1..=3 {
        let ping = json!({"type": "ping", "timestamp": timestamp});
        assert_eq!(send(&host, &session, &ping).await.status, 202);
    }
    for timestamp in 1..=3 {
        // Invalid wait times fall back to the default.
        let answer = poll(&host, &session, ["NaN", "-1", "1e3"][timestamp - 1]).await.unwrap();
        assert_eq!(answer.json(), json!({"message": {"type": "pong", "timestamp": timestamp}}));
    }
}

#[tokio::test]
async fn a_second_poll_ends_the_first_and_receives_the_messages() {
    let host = TestHost::new().await;
    let session = connect(&host).await;
    let mut polls = vec![poll(&host, &session, "25000")];
    for _ in 0..5 {
        polls.push(poll(&host, &session, "25000"));
    }
    // All but one end at once, in any order.
    let mut ended = 0;
    while ended < 5 {
        let (answer, _, rest) = futures_util::future::select_all(polls).await;
        assert_eq!(answer.unwrap().status, 204);
        polls = rest;
        ended += 1;
    }
    send(&host, &session, &json!({"type": "ping", "timestamp": 7})).await;
    let last = polls.pop().unwrap().await.unwrap();
    assert_eq!(last.json()["message"]["timestamp"], 7);
}

#[tokio::test]
async fn invalid_loop_requests_are_refused() {
    let host = TestHost::new().await;
    let path = |call: &str| format!("{BASE}/{call}");
    assert_eq!(host.post(&path("connect"), "").await.status, 200);
    let bad = host.post(&path("connect"), "{").await;
    assert!(bad.status == 400 && bad.json()["error"].is_string());
    for session in ["", "x", "00000000-0000-0000-0000-000000000000"] {
        let ping = json!({"type": "ping", "timestamp": 1});
        let answer = send(&host, session, &ping).await;
        assert_eq!((answer.status, answer.body.len()), (404, 0), "{session}");
        assert_eq!(poll(&host, session, "1").await.unwrap().status, 404, "{session}");
    }
    for (method, call) in [("GET", "send"), ("POST", "poll"), ("PUT", "connect"), ("GET", "")] {
        let answer = host.ask(Request::new(method, &path(call))).await;
        assert_eq!((answer.status, answer.body.len()), (404, 0), "{method} {call}");
    }
    let options = host.ask(Request::new("OPTIONS", &path("send"))).await;
    assert_eq!(options.status, 204);
    assert_eq!(options.header("access-control-allow-methods").unwrap(), "GET, POST, OPTIONS");

    let session = connect(&host).await;
    let by_query = host.post(&format!("{BASE}/send?sessionId={session}"), "{").await;
    assert!(by_query.status == 400 && by_query.json()["error"].is_string());
    for message in
        [json!({"type": "odd"}), json!(7), registration("c", json!([skill("/A/skill.md")]))]
    {
        let answer = send(&host, &session, &message).await;
        assert_eq!(answer.status, 400, "{message:?}");
        assert_eq!(answer.json()["error"], "Invalid MDP client message", "{message:?}");
        assert_eq!(answer.json()["code"], "invalid_message", "{message:?}");
    }
    // The refused message keeps the session; this one ends it.
    let update = json!({"type": "updateClientCatalog", "clientId": "x", "paths": []});
    let answer = send(&host, &session, &update).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"], "Client \"x\" is not registered on this session");
    assert_eq!(send(&host, &session, &update).await.status, 404);
}

#[tokio::test]
async fn the_poll_of_a_replaced_session_reports_the_replacement() {
    let host = TestHost::new().await;
    let session = connect(&host).await;
    send(&host, &session, &registration("c", json!([]))).await;
    let polling = poll(&host, &session, "25000");
    let _newer = host.client("c", json!([])).await;
    assert_eq!(polling.await.unwrap().status, 404);
}

#[tokio::test]
async fn a_websocket_session_cannot_be_polled() {
    let host = TestHost::new().await;
    let _client = host.client("c", json!([])).await;
    let client_table = host.host.client_table();
    let session = client_table.client("c").unwrap().session().id.to_string();
    assert_eq!(poll(&host, &session, "1").await.unwrap().status, 404);
}
