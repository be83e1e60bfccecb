//! A change that a worker makes reaches every client that listens.

use std::time::Instant;

use serde_json::{Value, json};

use crate::{
    SOON,
    clients::{Client, Listener, Session},
    support::{Home, register},
};

const RESOURCES: &str = "notifications/resources/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const UPDATED: &str = "notifications/resources/updated";

async fn lists(client: &mut Client, uri: &str) -> bool {
    let list = client.all("resources/list", "resources").await;
    list.iter().any(|row| row["uri"] == uri)
}

/// A busy machine may be slow once, but not every time.
const ROUNDS: usize = 5;

#[tokio::test]
async fn a_skill_that_comes_changes_and_goes() {
    let home = Home::new();
    let worker = home.worker().await;
    // It is subscribed to before it exists.
    for (kind, mut listener) in Listener::every_kind(&home, &["iii://later"]).await {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let started = Instant::now();
            register(&worker, "later", "# One\n").await;
            let read = json!({ "uri": "iii://later" });
            listener
                .until(UPDATED, async |client| {
                    client.ask("resources/read", read.clone()).await["error"].is_null()
                })
                .await;
            times.push(started.elapsed());
            listener.until(RESOURCES, async |client| lists(client, "iii://later").await).await;

            register(&worker, "later", "# Two\n").await;
            listener
                .until(UPDATED, async |client| client.read("iii://later").await == "# Two\n")
                .await;

            worker.ok("skills::unregister", json!({ "id": "later" })).await;
            listener.until(RESOURCES, async |client| !lists(client, "iii://later").await).await;
        }
        let best = times.iter().min().unwrap();
        assert!(*best < SOON, "{kind}: {times:?}");
    }
}

#[tokio::test]
async fn a_prompt_that_comes_and_goes() {
    let home = Home::new();
    let worker = home.worker().await;
    for (kind, mut listener) in Listener::every_kind(&home, &[]).await {
        let count = async |client: &mut Client| client.all("prompts/list", "prompts").await.len();
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let started = Instant::now();
            let prompt = json!({ "name": "p", "description": "d", "function_id": "a::b" });
            worker.ok("prompts::register", prompt).await;
            listener.until(PROMPTS, async |client| count(client).await == 1).await;
            times.push(started.elapsed());
            worker.ok("prompts::unregister", json!({ "name": "p" })).await;
            listener.until(PROMPTS, async |client| count(client).await == 0).await;
        }
        let best = times.iter().min().unwrap();
        assert!(*best < SOON, "{kind}: {times:?}");
    }
}

/// What a session hears up to and with the news of a prompt that was registered last.
async fn heard(listener: &mut Listener, home: &Home) -> Vec<Value> {
    let prompt = json!({ "name": "last", "description": "d", "function_id": "a::b" });
    home.worker().await.ok("prompts::register", prompt).await;
    let mut heard = Vec::new();
    loop {
        heard.push(listener.next().await);
        if heard.last().unwrap()["method"] == PROMPTS {
            return heard;
        }
    }
}

fn updated(heard: &[Value]) -> Vec<&str> {
    let updates = heard.iter().filter(|message| message["method"] == UPDATED);
    let mut uris: Vec<_> =
        updates.map(|message| message["params"]["uri"].as_str().unwrap()).collect();
    uris.sort_unstable();
    uris.dedup();
    uris
}

#[tokio::test]
async fn only_what_was_subscribed_to_is_told_of_by_name() {
    let home = Home::new();
    let worker = home.worker().await;
    let uris = ["iii://a", "iii://skills", "skill://a/SKILL.md", "test://of/a/suite"];
    let mut listener = Listener::session(&home, &uris).await;
    register(&worker, "a", "# A\n").await;
    register(&worker, "b", "# B\n").await;
    let told = heard(&mut listener, &home).await;
    assert_eq!(updated(&told), ["iii://a", "iii://skills", "skill://a/SKILL.md"]);
    register(&worker, "b", "# Other\n").await;
    assert_eq!(updated(&heard(&mut listener, &home).await), ["iii://skills"]);
    for uri in uris {
        listener.client.ok("resources/unsubscribe", json!({ "uri": uri })).await;
    }
    register(&worker, "a", "# Again\n").await;
    let told = heard(&mut listener, &home).await;
    assert!(updated(&told).is_empty(), "{told:?}");
    assert!(told.iter().any(|message| message["method"] == RESOURCES), "{told:?}");
}

#[tokio::test]
async fn sessions_do_not_share_subscriptions() {
    let home = Home::new();
    let mut one = Listener::session(&home, &["iii://a"]).await;
    let mut other = Listener::session(&home, &[]).await;
    register(&home.worker().await, "a", "# A\n").await;
    assert_eq!(updated(&heard(&mut one, &home).await), ["iii://a"]);
    assert!(updated(&heard(&mut other, &home).await).is_empty());
}

#[tokio::test]
async fn what_happens_between_the_greeting_and_the_stream_is_told() {
    let home = Home::new();
    let worker = home.worker().await;
    for number in 0..10 {
        let session = Session::open(&home.server.http, "2025-06-18").await;
        register(&worker, &format!("s{number}"), "# X\n").await;
        let mut events = session.events().await;
        assert_eq!(events.message().await["method"], RESOURCES, "{number}");
    }
}

#[tokio::test]
async fn subscriptions_are_bounded() {
    let home = Home::new();
    let mut client = crate::clients::session(&home).await;
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
