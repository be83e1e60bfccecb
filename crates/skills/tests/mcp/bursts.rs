//! Many changes at once: few notifications, and none that is missing.

use serde_json::json;

use crate::{clients::Listener, many, support::Home};

const BURST: usize = 500;

#[tokio::test]
async fn a_burst_is_told_in_few_words_and_the_last_state_is_seen() {
    let home = Home::new();
    let worker = home.worker().await;
    let listeners = Listener::every_kind(&home, &["iii://s0", "iii://s499"]).await;
    let skill = |number: usize| json!({ "id": format!("s{number}"), "skill": "# X\n" });
    many(&worker, "skills::register", (0..BURST).map(skill)).await;
    let last = json!({ "name": "last", "description": "d", "function_id": "a::b" });
    worker.ok("prompts::register", last).await;
    for (kind, mut listener) in listeners {
        let (mut told, mut seen, mut updates) = (0, 0, 0);
        // News come in order: those of the prompt after all of the skills.
        loop {
            let message = listener.next().await;
            match message["method"].as_str().unwrap() {
                "notifications/resources/list_changed" => {
                    told += 1;
                    let listed = listener.client.call("list_skills", json!({})).await;
                    seen = listed["structuredContent"]["total"].as_u64().unwrap();
                }
                "notifications/resources/updated" => updates += 1,
                "notifications/prompts/list_changed" => {
                    let prompts = listener.client.all("prompts/list", "prompts").await;
                    if !prompts.is_empty() {
                        break;
                    }
                }
                other => panic!("{kind}: {other}"),
            }
        }
        assert!((1..=100).contains(&told), "{kind}: {told} notifications");
        assert_eq!(seen, BURST as u64, "{kind}: after the last notification");
        assert!((2..=100).contains(&updates), "{kind}: {updates} updates");
    }
}

#[tokio::test]
async fn one_skill_that_changes_all_the_time_is_told_of_now_and_then() {
    let home = Home::new();
    let worker = home.worker().await;
    // It does not read while all this happens.
    let mut listener = Listener::stream(&home, &["iii://busy"]).await;
    let skill = |round: usize| json!({ "id": "busy", "skill": format!("# {round}\n") });
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
    assert!((1..=100).contains(&updates), "{updates}");
    assert_eq!(listener.client.read("iii://busy").await, format!("# {}\n", BURST - 1));
}
