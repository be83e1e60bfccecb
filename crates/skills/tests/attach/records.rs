//! What is stored, and what others have stored in the same place.

use serde_json::{Value, json};

use crate::{
    attached::{Attached, hears, registered, serves, serves_no_more, subscriber},
    engine::{Engine, delete, record, set, state},
    support::{ids, keys, read, register},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ours_has_the_shape_of_the_worker_it_replaces() {
    let engine = Engine::start().await;
    let _attached = Attached::to(&engine).await;
    let worker = engine.worker().await;
    let body = "# A\r\n\n\u{1F600} \"quoted\" \u{0}";
    let at = register(&worker, "a", body).await;
    let expected = json!({ "id": "a", "skill": body, "registered_at": at });
    assert_eq!(state(&worker, "skills").await, [("a".to_owned(), expected)]);
    let argument = json!({ "name": "to", "description": "Whom", "required": true });
    let prompt = json!({
        "name": "p", "description": "d", "function_id": "x::y", "arguments": [argument],
    });
    let answer = worker.ok("prompts::register", prompt.clone()).await;
    let mut expected = prompt;
    expected["registered_at"] = answer["registered_at"].clone();
    assert_eq!(state(&worker, "prompts").await, [("p".to_owned(), expected)]);
    let bare = json!({ "name": "q", "description": "d", "function_id": "x::y" });
    worker.ok("prompts::register", bare).await;
    let stored = &state(&worker, "prompts").await[1].1;
    assert_eq!(keys(stored), ["arguments", "description", "function_id", "name", "registered_at"]);
    assert_eq!(stored["arguments"], json!([]));
}

/// Records that someone else may have left; the flag tells whether they can be read.
fn odd_skills() -> Vec<(&'static str, Value, bool)> {
    let mut extra = record("extra", "# Extra");
    extra["tags"] = json!(["a", { "b": null }]);
    let mut undated = record("undated", "x");
    undated.as_object_mut().unwrap().remove("registered_at");
    let mut misdated = record("misdated", "x");
    misdated["registered_at"] = json!("yesterday");
    vec![
        ("plain", record("plain", "# Plain\n\nText."), true),
        ("extra", extra, true),
        ("undated", undated, true),
        ("misdated", misdated, true),
        ("text", json!("just a text"), false),
        ("number", json!(7), false),
        ("list", json!(["plain", "x", "y"]), false),
        ("nothing", json!({}), false),
        ("bodiless", json!({ "id": "bodiless", "registered_at": "2026-05-04T12:00:00Z" }), false),
        ("blank", record("blank", ""), false),
        ("large", record("large", &"x".repeat(262_145)), false),
        ("wrong", record("other", "says that it is another"), false),
        ("UPPER", record("UPPER", "x"), false),
        ("numeric", json!({ "id": 7, "skill": "x", "registered_at": "" }), false),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_there_before_is_read_and_what_cannot_be_is_left_alone() {
    let engine = Engine::start().await;
    let worker = engine.worker().await;
    for (key, value, _) in odd_skills() {
        set(&worker, "skills", key, &value).await;
    }
    let prompts = [
        ("p", json!({ "name": "p", "description": "d", "function_id": "x::y" }), true),
        ("bad", json!({ "name": "bad" }), false),
    ];
    for (key, value, _) in &prompts {
        set(&worker, "prompts", key, value).await;
    }
    let before = (state(&worker, "skills").await, state(&worker, "prompts").await);
    let attached = Attached::to(&engine).await;
    let mut readable: Vec<_> =
        odd_skills().into_iter().filter(|(.., ok)| *ok).map(|(key, ..)| key.to_owned()).collect();
    readable.sort();
    assert_eq!(ids(&worker).await, readable);
    assert_eq!(read(&worker, "iii://plain").await, "# Plain\n\nText.");
    let list = worker.ok("skills::list", json!({})).await;
    let row = |id: &str| {
        let rows = list["skills"].as_array().unwrap();
        rows.iter().find(|row| row["id"] == id).unwrap().clone()
    };
    assert_eq!(row("plain")["registered_at"], "2026-05-04T12:00:00.123456Z");
    let listed = worker.ok("prompts::list", json!({})).await;
    assert_eq!(listed["prompts"].as_array().unwrap().len(), 1, "{listed}");
    for (key, ..) in odd_skills().iter().filter(|(.., ok)| !ok) {
        attached.says(key).await;
    }
    let (home, _) = attached.stop().await;
    serves_no_more(&worker).await;
    // Reading has changed nothing, and another start finds it all again.
    assert_eq!((state(&worker, "skills").await, state(&worker, "prompts").await), before);
    let url = engine.url();
    let _attached = Attached::at(home, |command| {
        command.args(["--url", &url]);
    });
    serves(&worker).await;
    assert_eq!(ids(&worker).await, readable);
    // A new version of one that was stored by another keeps nothing of the old one.
    register(&worker, "extra", "# New").await;
    let stored = state(&worker, "skills").await;
    let (_, stored) = stored.iter().find(|(key, _)| key == "extra").unwrap();
    assert_eq!(keys(stored), ["id", "registered_at", "skill"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_not_ours_is_not_deleted_by_a_removal_either() {
    let engine = Engine::start().await;
    let worker = engine.worker().await;
    set(&worker, "skills", "odd", &json!("someone's note")).await;
    let _attached = Attached::to(&engine).await;
    let gone = worker.ok("skills::unregister", json!({ "id": "odd" })).await;
    assert_eq!(gone, json!({ "id": "odd", "removed": false }));
    assert_eq!(state(&worker, "skills").await, [("odd".to_owned(), json!("someone's note"))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_becomes_unreadable_is_no_skill_until_it_is_readable_again() {
    let engine = Engine::start().await;
    let _attached = Attached::to(&engine).await;
    let (worker, mut heard) = subscriber(&engine).await;
    register(&worker, "a", "x").await;
    assert_eq!(hears(&mut heard).await, registered("a"));
    set(&worker, "skills", "a", &json!([1, 2])).await;
    assert_eq!(hears(&mut heard).await, crate::attached::unregistered("a"));
    assert!(ids(&worker).await.is_empty());
    assert_eq!(state(&worker, "skills").await, [("a".to_owned(), json!([1, 2]))]);
    set(&worker, "skills", "a", &record("a", "again")).await;
    assert_eq!(hears(&mut heard).await, registered("a"));
    assert_eq!(read(&worker, "iii://a").await, "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scopes_can_be_chosen() {
    let engine = Engine::start().await;
    let worker = engine.worker().await;
    set(&worker, "my-skills", "a", &record("a", "x")).await;
    set(&worker, "skills", "b", &record("b", "x")).await;
    let config = "scopes:\n  skills: my-skills\n  prompts: my-prompts\n";
    let _attached = Attached::configured(&engine, config).await;
    assert_eq!(ids(&worker).await, ["a"]);
    register(&worker, "c", "x").await;
    assert_eq!(state(&worker, "my-skills").await.len(), 2);
    let (_subscriber, mut heard) = subscriber(&engine).await;
    set(&worker, "skills", "unheard", &record("unheard", "x")).await;
    delete(&worker, "my-skills", "c").await;
    assert_eq!(hears(&mut heard).await, crate::attached::unregistered("c"));
}
