//! `subscriptions/listen`: a stream that says what it was asked for and nothing else.

use serde_json::{Value, json};

use crate::{
    clients::{Pipe, SUBSCRIPTION_ID, Session, Stateless, stateless_request},
    support::{Home, register},
};

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

fn tag(message: &Value) -> &Value {
    &message["params"]["_meta"][SUBSCRIPTION_ID]
}

async fn prompt(home: &Home, name: &str) {
    let definition = json!({ "name": name, "description": "d", "function_id": "a::b" });
    home.worker().await.ok("prompts::register", definition).await;
}

#[tokio::test]
async fn it_is_acknowledged_first_and_every_notification_is_tagged() {
    let home = Home::new();
    let filter = json!({
        "resourcesListChanged": true, "promptsListChanged": true,
        "resourceSubscriptions": ["iii://a"],
    });
    let mut events = Stateless::listen(&home.server.http, 42, &filter).await;
    let first = events.message().await;
    assert_eq!((&first["method"], tag(&first)), (&json!(ACKNOWLEDGED), &json!(42)));
    assert_eq!(first["params"]["notifications"], filter);
    register(&home.worker().await, "a", "# A\n").await;
    prompt(&home, "p").await;
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
async fn nothing_outside_the_filter_is_told() {
    let home = Home::new();
    let worker = home.worker().await;
    let prompts = json!({ "promptsListChanged": true });
    let mut events = Stateless::listen(&home.server.http, 1, &prompts).await;
    assert_eq!(events.message().await["params"]["notifications"], prompts);
    let updates = json!({ "resourceSubscriptions": ["iii://b"], "toolsListChanged": false });
    let mut others = Stateless::listen(&home.server.http, 2, &updates).await;
    assert_eq!(others.message().await["method"], ACKNOWLEDGED);
    for round in 0..3 {
        register(&worker, "a", &format!("# A {round}\n")).await;
        prompt(&home, &format!("p{round}")).await;
        register(&worker, "b", &format!("# B {round}\n")).await;
        assert_eq!(events.message().await["method"], "notifications/prompts/list_changed");
        let update = others.message().await;
        assert_eq!(update["method"], "notifications/resources/updated");
        assert_eq!(update["params"]["uri"], "iii://b");
    }
}

#[tokio::test]
async fn what_cannot_be_kept_is_not_acknowledged() {
    let home = Home::new();
    let long = format!("iii://{}", "a".repeat(3_000));
    let filter = json!({ "resourceSubscriptions": [long, "iii://a"] });
    let mut events = Stateless::listen(&home.server.http, 1, &filter).await;
    let accepted = events.message().await["params"]["notifications"].take();
    assert_eq!(accepted["resourceSubscriptions"], json!(["iii://a"]));
    let many: Vec<_> = (0..1_500).map(|number| format!("iii://s{number}")).collect();
    let filter = json!({ "resourceSubscriptions": many });
    let mut events = Stateless::listen(&home.server.http, 1, &filter).await;
    let accepted = events.message().await["params"]["notifications"].take();
    assert_eq!(accepted["resourceSubscriptions"].as_array().unwrap().len(), 1_000);
}

#[tokio::test]
async fn a_server_that_ends_ends_its_streams_with_a_result() {
    let home = Home::new();
    let filter = json!({ "promptsListChanged": true });
    let mut events = Stateless::listen(&home.server.http, 42, &filter).await;
    events.message().await;
    prompt(&home, "p").await;
    assert_eq!(events.message().await["method"], "notifications/prompts/list_changed");
    let session = Session::open(&home.server.http, "2025-06-18").await;
    let mut stream = session.events().await;
    home.server.signal("TERM");
    let last = events.message().await;
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(42), &json!("complete")));
    assert_eq!(last["result"]["_meta"][SUBSCRIPTION_ID], 42, "{last}");
    assert_eq!(events.next().await, None);
    assert_eq!(stream.next().await, None);
    let ended = tokio::task::spawn_blocking(move || home.server.wait()).await.unwrap();
    assert_eq!(ended.0, Some(0), "{}", ended.2);
}

#[tokio::test]
async fn streams_over_one_pipe_are_told_apart_and_can_be_cancelled() {
    let home = Home::new();
    let worker = home.worker().await;
    let mut pipe = Pipe::stateless(&["--url", &home.server.url]);
    // What a process at the other end of a bus hears at first is not what this is about.
    pipe.ask("resources/list", &json!({})).await;
    for (id, filter) in [
        (100, json!({ "resourceSubscriptions": ["iii://a"] })),
        (200, json!({ "resourceSubscriptions": ["iii://b"] })),
    ] {
        let params = json!({ "notifications": filter });
        pipe.send(&stateless_request(id, "subscriptions/listen", &params)).await;
        let first = pipe.message().await;
        assert_eq!((&first["method"], tag(&first)), (&json!(ACKNOWLEDGED), &json!(id)));
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
    // Messages are taken in order: once this is answered, the other was heard of.
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
