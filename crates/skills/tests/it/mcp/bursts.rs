//! Bursts of changes are coalesced without losing the last state.

use std::time::Instant;

use serde_json::json;

use crate::{
    mcp::many,
    support::{TestServer, mcp_clients::Listener},
};

const BURST: usize = 500;

/// Returns the most notifications of a kind since a time: a notification waits 5 ms for more changes.
fn max_notifications(start: Instant) -> u128 {
    10 + start.elapsed().as_millis() / 5
}

#[tokio::test]
async fn a_burst_of_changes_is_coalesced_and_the_last_state_is_seen() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let listeners = Listener::every_kind(&server, &["iii://s0", "iii://s499"]).await;
    let skill = |number: usize| json!({ "id": format!("s{number}"), "skill": "# X\n" });
    let start = Instant::now();
    many(&worker, "skills::register", (0..BURST).map(skill)).await;
    let last = json!({ "name": "last", "description": "d", "function_id": "a::b" });
    worker.ok("prompts::register", last).await;
    for (kind, mut listener) in listeners {
        let (mut notified, mut seen, mut updates, mut has_prompt) = (0, 0, 0, false);
        // Skills and prompts have separate subscriptions on a bus, so either may be notified last, and updates of the two
        // skills may follow the list.
        while !has_prompt || seen < BURST || updates < 2 {
            let message = listener.next().await;
            match message["method"].as_str().unwrap() {
                "notifications/resources/list_changed" => {
                    notified += 1;
                    seen = listener.client.all("resources/list", "resources").await.len() - 1;
                }
                "notifications/resources/updated" => updates += 1,
                "notifications/prompts/list_changed" => {
                    let prompts = listener.client.all("prompts/list", "prompts").await;
                    has_prompt = !prompts.is_empty();
                }
                other => panic!("{kind}: {other}"),
            }
        }
        let max = max_notifications(start);
        assert!((1..=max).contains(&notified), "{kind}: {notified} notifications, at most {max}");
        assert_eq!(seen, BURST, "{kind}");
        assert!(updates <= max, "{kind}: {updates} updates, at most {max}");
    }
}

#[tokio::test]
async fn updates_of_a_constantly_changing_skill_are_coalesced() {
    let server = TestServer::new();
    let worker = server.worker().await;
    // The listener does not read meanwhile.
    let mut listener = Listener::stream(&server, &["iii://busy"]).await;
    let skill = |round: usize| json!({ "id": "busy", "skill": format!("# {round}\n") });
    let start = Instant::now();
    many(&worker, "skills::register", (0..BURST).map(skill)).await;
    let last = json!({ "name": "last", "description": "d", "function_id": "a::b" });
    worker.ok("prompts::register", last).await;
    let mut updates = 0;
    loop {
        match listener.next().await["method"].as_str().unwrap() {
            "notifications/resources/updated" => updates += 1,
            "notifications/prompts/list_changed" => break,
            _ => {}
        }
    }
    let max = max_notifications(start);
    assert!((1..=max).contains(&updates), "{updates} updates, at most {max}");
    assert_eq!(listener.client.read("iii://busy").await, format!("# {}\n", BURST - 1));
}
