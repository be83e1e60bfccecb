//! `subscriptions/listen`: a stream of exactly the requested notifications.

use serde_json::{Value, json};

use crate::support::{
    TestServer,
    mcp_clients::{Pipe, SUBSCRIPTION_ID, Session, Stateless, stateless_request},
    register,
};

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

fn tag(message: &Value) -> &Value {
    &message["params"]["_meta"][SUBSCRIPTION_ID]
}

async fn prompt(server: &TestServer, name: &str) {
    let definition = json!({ "name": name, "description": "d", "function_id": "a::b" });
    server.worker().await.ok("prompts::register", definition).await;
}

#[tokio::test]
async fn listen_is_acknowledged_first_and_tags_every_notification() {
    let server = TestServer::new();
    let filter = json!({
        "resourcesListChanged": true, "promptsListChanged": true,
        "resourceSubscriptions": ["iii://a"],
    });
    let mut events = Stateless::listen(&server.process.http, 42, &filter).await;
    let first = events.message().await;
    assert_eq!((&first["method"], tag(&first)), (&json!(ACKNOWLEDGED), &json!(42)));
    assert_eq!(first["params"]["notifications"], filter);
    register(&server.worker().await, "a", "# A\n").await;
    prompt(&server, "p").await;
    let mut methods = Vec::new();
    while methods.last().is_none_or(|method| method != "notifications/prompts/list_changed") {
        let message = events.message().await;
        assert_eq!(tag(&message), &json!(42), "{message}");
        if message["method"] == "notifications/resources/updated" {
            assert_eq!(message["params"]["uri"], "iii://a");
        }
        methods.push(message["method"].as_str().unwrap().to_owned());
    }
    methods.sort();
    methods.dedup();
    assert_eq!(
        methods,
        [
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            "notifications/resources/updated",
        ]
    );
}

#[tokio::test]
async fn nothing_outside_the_filter_is_sent() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let prompts = json!({ "promptsListChanged": true });
    let mut events = Stateless::listen(&server.process.http, 1, &prompts).await;
    assert_eq!(events.message().await["params"]["notifications"], prompts);
    let updates = json!({ "resourceSubscriptions": ["iii://b"], "toolsListChanged": false });
    let mut others = Stateless::listen(&server.process.http, 2, &updates).await;
    assert_eq!(others.message().await["method"], ACKNOWLEDGED);
    for round in 0..3 {
        register(&worker, "a", &format!("# A {round}\n")).await;
        prompt(&server, &format!("p{round}")).await;
        register(&worker, "b", &format!("# B {round}\n")).await;
        assert_eq!(events.message().await["method"], "notifications/prompts/list_changed");
        let update = others.message().await;
        assert_eq!(update["method"], "notifications/resources/updated");
        assert_eq!(update["params"]["uri"], "iii://b");
    }
}

#[tokio::test]
async fn unsupported_filters_are_not_acknowledged() {
    let server = TestServer::new();
    let long = format!("iii://{}", "a".repeat(3_000));
    let filter = json!({ "resourceSubscriptions": [long, "iii://a"] });
    let mut events = Stateless::listen(&server.process.http, 1, &filter).await;
    let accepted = events.message().await["params"]["notifications"].take();
    assert_eq!(accepted["resourceSubscriptions"], json!(["iii://a"]));
    let many: Vec<_> = (0..1_500).map(|number| format!("iii://s{number}")).collect();
    let filter = json!({ "resourceSubscriptions": many });
    let mut events = Stateless::listen(&server.process.http, 1, &filter).await;
    let accepted = events.message().await["params"]["notifications"].take();
    assert_eq!(accepted["resourceSubscriptions"].as_array().unwrap().len(), 1_000);
}

#[tokio::test]
async fn shutdown_ends_streams_with_a_result() {
    let server = TestServer::new();
    let filter = json!({ "promptsListChanged": true });
    let mut events = Stateless::listen(&server.process.http, 42, &filter).await;
    events.message().await;
    prompt(&server, "p").await;
    assert_eq!(events.message().await["method"], "notifications/prompts/list_changed");
    let session = Session::open(&server.process.http, "2025-06-18").await;
    let mut stream = session.events().await;
    server.process.signal("TERM");
    let last = events.message().await;
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(42), &json!("complete")));
    assert_eq!(last["result"]["_meta"][SUBSCRIPTION_ID], 42, "{last}");
    assert_eq!(events.next().await, None);
    assert_eq!(stream.next().await, None);
    let ended = tokio::task::spawn_blocking(move || server.process.wait()).await.unwrap();
    assert_eq!(ended.0, Some(0), "{}", ended.2);
}

#[tokio::test]
async fn streams_over_one_pipe_are_distinguishable_and_can_be_cancelled() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut pipe = Pipe::stateless(&["--url", &server.process.url]);
    // Skips the initial notifications of a client over a bus.
    pipe.ask("resources/list", &json!({})).await;
    for (id, filter) in [
        (100, json!({ "resourceSubscriptions": ["iii://a"] })),
        (200, json!({ "resourceSubscriptions": ["iii://b"] })),
    ] {
        let params = json!({ "notifications": filter });
        pipe.send(&stateless_request(id, "subscriptions/listen", &params)).await;
        let first = pipe.message().await;
        assert_eq!((&first["method"], tag(&first)), (&json!(ACKNOWLEDGED), &json!(id)), "{id}");
    }
    register(&worker, "a", "# A\n").await;
    register(&worker, "b", "# B\n").await;
    let mut seen = (false, false);
    while seen != (true, true) {
        let message = pipe.message().await;
        match message["params"]["uri"].as_str().unwrap() {
            "iii://a" => seen.0 |= tag(&message) == &json!(100),
            "iii://b" => seen.1 |= tag(&message) == &json!(200),
            other => panic!("{other} was not asked for"),
        }
    }
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 100 },
    });
    pipe.send(&cancelled).await;
    // Messages are handled in order: this answer proves that the cancellation was handled.
    pipe.ask("resources/list", &json!({})).await;
    for round in 0..5 {
        register(&worker, "a", &format!("# A {round}\n")).await;
        register(&worker, "b", &format!("# B {round}\n")).await;
        loop {
            let message = pipe.message().await;
            assert_ne!(tag(&message), &json!(100), "{message}");
            let read = json!({ "uri": "iii://b" });
            let answer = pipe.ask("resources/read", &read).await;
            if answer["result"]["contents"][0]["text"] == format!("# B {round}\n") {
                break;
            }
        }
    }
}
