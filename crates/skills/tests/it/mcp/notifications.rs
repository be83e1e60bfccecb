//! Changes made by a worker notify every listening client.

use serde_json::{Value, json};

use crate::support::{
    TestServer,
    mcp_clients::{Client, Listener, Session},
    register,
};

const RESOURCES: &str = "notifications/resources/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const UPDATED: &str = "notifications/resources/updated";

async fn lists(client: &mut Client, uri: &str) -> bool {
    let list = client.all("resources/list", "resources").await;
    list.iter().any(|row| row["uri"] == uri)
}

/// Rounds of adding and removing: what was removed must notify again.
const ROUNDS: usize = 2;

#[tokio::test]
async fn added_changed_and_removed_skills_notify() {
    let server = TestServer::new();
    let worker = server.worker().await;
    // Subscribes to the resource before it exists.
    for (_, mut listener) in Listener::every_kind(&server, &["iii://later"]).await {
        for _ in 0..ROUNDS {
            register(&worker, "later", "# One\n").await;
            let read = json!({ "uri": "iii://later" });
            listener
                .until(UPDATED, async |client| {
                    client.ask("resources/read", read.clone()).await["error"].is_null()
                })
                .await;
            listener.until(RESOURCES, async |client| lists(client, "iii://later").await).await;

            register(&worker, "later", "# Two\n").await;
            listener
                .until(UPDATED, async |client| client.read("iii://later").await == "# Two\n")
                .await;

            worker.ok("skills::unregister", json!({ "id": "later" })).await;
            listener.until(RESOURCES, async |client| !lists(client, "iii://later").await).await;
        }
    }
}

#[tokio::test]
async fn added_and_removed_prompts_notify() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for (_, mut listener) in Listener::every_kind(&server, &[]).await {
        let count = async |client: &mut Client| client.all("prompts/list", "prompts").await.len();
        for _ in 0..ROUNDS {
            let prompt = json!({ "name": "p", "description": "d", "function_id": "a::b" });
            worker.ok("prompts::register", prompt).await;
            listener.until(PROMPTS, async |client| count(client).await == 1).await;
            worker.ok("prompts::unregister", json!({ "name": "p" })).await;
            listener.until(PROMPTS, async |client| count(client).await == 0).await;
        }
    }
}

/// Returns the notifications of a session up to that of a final prompt.
async fn notifications_until_prompt(listener: &mut Listener, server: &TestServer) -> Vec<Value> {
    let prompt = json!({ "name": "last", "description": "d", "function_id": "a::b" });
    server.worker().await.ok("prompts::register", prompt).await;
    let mut received = Vec::new();
    loop {
        received.push(listener.next().await);
        if received.last().unwrap()["method"] == PROMPTS {
            return received;
        }
    }
}

fn updated(received: &[Value]) -> Vec<&str> {
    let updates = received.iter().filter(|message| message["method"] == UPDATED);
    let mut uris: Vec<_> =
        updates.map(|message| message["params"]["uri"].as_str().unwrap()).collect();
    uris.sort_unstable();
    uris.dedup();
    uris
}

#[tokio::test]
async fn only_subscribed_resources_are_notified_by_uri() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let uris = ["iii://a", "iii://skills", "skill://a/SKILL.md", "test://of/a/suite"];
    let mut listener = Listener::session(&server, &uris).await;
    register(&worker, "a", "# A\n").await;
    register(&worker, "b", "# B\n").await;
    let received = notifications_until_prompt(&mut listener, &server).await;
    assert_eq!(updated(&received), ["iii://a", "iii://skills", "skill://a/SKILL.md"]);
    register(&worker, "b", "# Other\n").await;
    assert_eq!(
        updated(&notifications_until_prompt(&mut listener, &server).await),
        ["iii://skills"]
    );
    for uri in uris {
        listener.client.ok("resources/unsubscribe", json!({ "uri": uri })).await;
    }
    register(&worker, "a", "# Again\n").await;
    let received = notifications_until_prompt(&mut listener, &server).await;
    assert!(updated(&received).is_empty(), "{received:?}");
    assert!(received.iter().any(|message| message["method"] == RESOURCES), "{received:?}");
}

#[tokio::test]
async fn sessions_do_not_share_subscriptions() {
    let server = TestServer::new();
    let mut one = Listener::session(&server, &["iii://a"]).await;
    let mut other = Listener::session(&server, &[]).await;
    register(&server.worker().await, "a", "# A\n").await;
    assert_eq!(updated(&notifications_until_prompt(&mut one, &server).await), ["iii://a"]);
    assert!(updated(&notifications_until_prompt(&mut other, &server).await).is_empty());
}

#[tokio::test]
async fn changes_between_initialize_and_the_stream_are_sent() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for number in 0..10 {
        let session = Session::open(&server.process.http, "2025-06-18").await;
        register(&worker, &format!("s{number}"), "# X\n").await;
        let mut events = session.events().await;
        assert_eq!(events.message().await["method"], RESOURCES, "{number}");
    }
}

#[tokio::test]
async fn the_number_of_subscriptions_is_limited() {
    let server = TestServer::new();
    let mut client = crate::support::mcp_clients::session(&server).await;
    let long = format!("iii://{}", "a".repeat(3_000));
    let refused = client.fails("resources/subscribe", json!({ "uri": long })).await;
    assert_eq!(refused.code, -32602);
    for number in 0..1_000 {
        client.ok("resources/subscribe", json!({ "uri": format!("iii://s{number}") })).await;
    }
    let refused = client.fails("resources/subscribe", json!({ "uri": "iii://more" })).await;
    assert_eq!(refused.code, -32602);
    client.ok("resources/unsubscribe", json!({ "uri": "iii://s0" })).await;
    client.ok("resources/subscribe", json!({ "uri": "iii://more" })).await;
}
