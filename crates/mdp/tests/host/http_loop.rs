//! The HTTP loop, row by row of its table.

use serde_json::{Value, json};
use skills_testkit::{
    Answer, Request,
    mdp::{registration, skill},
};
use tokio::task::JoinHandle;

use crate::world::World;

const BASE: &str = "/mdp/http-loop";

async fn connect(world: &World) -> String {
    let answer = world.post(&format!("{BASE}/connect"), "{}").await;
    assert_eq!(answer.status, 200);
    answer.json()["sessionId"].as_str().unwrap().to_owned()
}

async fn send(world: &World, session: &str, message: &Value) -> Answer {
    let request = Request::new("POST", &format!("{BASE}/send"))
        .header("content-type", "application/json")
        .header("x-mdp-session-id", session)
        .body(json!({ "message": message }).to_string());
    world.ask(request).await
}

fn poll(world: &World, session: &str, wait_ms: &str) -> JoinHandle<Answer> {
    let request = Request::get(&format!("{BASE}/poll?sessionId={session}&waitMs={wait_ms}"))
        .header("content-type", "application/json");
    let address = world.address.to_string();
    tokio::task::spawn_blocking(move || request.send(&address))
}

#[tokio::test]
async fn a_client_lives_on_requests() {
    let world = World::new().await;
    let session = connect(&world).await;
    let sent = send(&world, &session, &registration("c", json!([skill("/a/skill.md")]))).await;
    assert_eq!((sent.status, sent.json()), (202, json!({"ok": true})));
    assert_eq!(world.ids(), ["c"]);

    let polling = poll(&world, &session, "20000");
    let reading = tokio::spawn({
        let address = world.address.to_string();
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
    assert_eq!(send(&world, &session, &result).await.status, 202);
    assert_eq!(reading.await.unwrap().body, b"# Hi");

    // No body, but a type: as the clients in use do it.
    let bye = Request::new("POST", &format!("{BASE}/disconnect"))
        .header("content-type", "application/json")
        .header("x-mdp-session-id", &session);
    assert_eq!(world.ask(bye.clone()).await.status, 204);
    assert!(world.ids().is_empty());
    assert_eq!(world.ask(bye).await.status, 204, "also when it is gone");
    assert_eq!(poll(&world, &session, "1").await.unwrap().status, 404);
}

#[tokio::test]
async fn messages_come_one_by_one_and_in_order() {
    let world = World::new().await;
    let session = connect(&world).await;
    assert_eq!(poll(&world, &session, "1").await.unwrap().status, 204);
    for timestamp in 1..=3 {
        let ping = json!({"type": "ping", "timestamp": timestamp});
        assert_eq!(send(&world, &session, &ping).await.status, 202);
    }
    for timestamp in 1..=3 {
        // Odd waits are the usual wait.
        let answer = poll(&world, &session, ["NaN", "-1", "1e3"][timestamp - 1]).await.unwrap();
        assert_eq!(answer.json(), json!({"message": {"type": "pong", "timestamp": timestamp}}));
    }
}

#[tokio::test]
async fn a_second_poll_ends_the_first_and_gets_what_comes() {
    let world = World::new().await;
    let session = connect(&world).await;
    let mut polls = vec![poll(&world, &session, "25000")];
    for _ in 0..5 {
        polls.push(poll(&world, &session, "25000"));
    }
    // All but one end at once, in whatever order they came.
    let mut ended = 0;
    while ended < 5 {
        let (answer, _, rest) = futures_util::future::select_all(polls).await;
        assert_eq!(answer.unwrap().status, 204);
        polls = rest;
        ended += 1;
    }
    send(&world, &session, &json!({"type": "ping", "timestamp": 7})).await;
    let last = polls.pop().unwrap().await.unwrap();
    assert_eq!(last.json()["message"]["timestamp"], 7);
}

#[tokio::test]
async fn refusals() {
    let world = World::new().await;
    let path = |call: &str| format!("{BASE}/{call}");
    assert_eq!(world.post(&path("connect"), "").await.status, 200);
    let bad = world.post(&path("connect"), "{").await;
    assert!(bad.status == 400 && bad.json()["error"].is_string());
    for session in ["", "x", "00000000-0000-0000-0000-000000000000"] {
        let ping = json!({"type": "ping", "timestamp": 1});
        let answer = send(&world, session, &ping).await;
        assert_eq!((answer.status, answer.body.len()), (404, 0), "{session}");
        assert_eq!(poll(&world, session, "1").await.unwrap().status, 404);
    }
    for (method, call) in [("GET", "send"), ("POST", "poll"), ("PUT", "connect"), ("GET", "")] {
        let answer = world.ask(Request::new(method, &path(call))).await;
        assert_eq!((answer.status, answer.body.len()), (404, 0), "{method} {call}");
    }
    let options = world.ask(Request::new("OPTIONS", &path("send"))).await;
    assert_eq!(options.status, 204);
    assert_eq!(options.header("access-control-allow-methods").unwrap(), "GET, POST, OPTIONS");

    let session = connect(&world).await;
    let by_query = world.post(&format!("{BASE}/send?sessionId={session}"), "{").await;
    assert!(by_query.status == 400 && by_query.json()["error"].is_string());
    for message in
        [json!({"type": "odd"}), json!(7), registration("c", json!([skill("/A/skill.md")]))]
    {
        let answer = send(&world, &session, &message).await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.json()["error"], "Invalid MDP client message");
        assert_eq!(answer.json()["code"], "invalid_message");
    }
    // That was no reason to end the session, but this is.
    let update = json!({"type": "updateClientCatalog", "clientId": "x", "paths": []});
    let answer = send(&world, &session, &update).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"], "Client \"x\" is not registered on this session");
    assert_eq!(send(&world, &session, &update).await.status, 404);
}

#[tokio::test]
async fn a_replaced_session_is_told_so_by_its_poll() {
    let world = World::new().await;
    let session = connect(&world).await;
    send(&world, &session, &registration("c", json!([]))).await;
    let polling = poll(&world, &session, "25000");
    let _newer = world.client("c", json!([])).await;
    assert_eq!(polling.await.unwrap().status, 404);
}

#[tokio::test]
async fn a_websocket_session_is_not_reached_by_requests() {
    let world = World::new().await;
    let _client = world.client("c", json!([])).await;
    let roster = world.host.roster();
    let session = roster.client("c").unwrap().session().id.to_string();
    assert_eq!(poll(&world, &session, "1").await.unwrap().status, 404);
}
