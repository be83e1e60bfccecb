//! Stored records, and records of other writers in the same scope.

use serde_json::{Value, json};

use crate::support::{
    attached::{
        AttachedWorker, next_event, register_event, subscriber, wait_until_not_serving,
        wait_until_serving,
    },
    engine::{TestEngine, delete, record, set, state},
    ids, keys, read, register,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_have_the_shape_of_the_replaced_worker() {
    let engine = TestEngine::start().await;
    let _attached = AttachedWorker::start(&engine).await;
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

/// Records of other writers; the flag tells whether they can be read.
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
async fn existing_records_are_read_and_unreadable_ones_left_unchanged() {
    let engine = TestEngine::start().await;
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
    let attached = AttachedWorker::start(&engine).await;
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
    wait_until_not_serving(&worker).await;
    // Reading changed nothing, and another start reads it all again.
    assert_eq!((state(&worker, "skills").await, state(&worker, "prompts").await), before);
    let url = engine.url();
    let _attached = AttachedWorker::spawn_in(home, |command| {
        command.args(["--url", &url]);
    });
    wait_until_serving(&worker).await;
    assert_eq!(ids(&worker).await, readable);
    // A new version keeps nothing of the record that another writer stored.
    register(&worker, "extra", "# New").await;
    let stored = state(&worker, "skills").await;
    let (_, stored) = stored.iter().find(|(key, _)| key == "extra").unwrap();
    assert_eq!(keys(stored), ["id", "registered_at", "skill"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_a_skill_never_deletes_a_foreign_record() {
    let engine = TestEngine::start().await;
    let worker = engine.worker().await;
    set(&worker, "skills", "odd", &json!("someone's note")).await;
    let _attached = AttachedWorker::start(&engine).await;
    let gone = worker.ok("skills::unregister", json!({ "id": "odd" })).await;
    assert_eq!(gone, json!({ "id": "odd", "removed": false }));
    assert_eq!(state(&worker, "skills").await, [("odd".to_owned(), json!("someone's note"))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_record_is_unlisted_until_it_is_readable() {
    let engine = TestEngine::start().await;
    let _attached = AttachedWorker::start(&engine).await;
    let (worker, mut received) = subscriber(&engine).await;
    register(&worker, "a", "x").await;
    assert_eq!(next_event(&mut received).await, register_event("a"));
    set(&worker, "skills", "a", &json!([1, 2])).await;
    assert_eq!(next_event(&mut received).await, crate::support::attached::unregister_event("a"));
    assert!(ids(&worker).await.is_empty());
    assert_eq!(state(&worker, "skills").await, [("a".to_owned(), json!([1, 2]))]);
    set(&worker, "skills", "a", &record("a", "again")).await;
    assert_eq!(next_event(&mut received).await, register_event("a"));
    assert_eq!(read(&worker, "iii://a").await, "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_scopes_are_configurable() {
    let engine = TestEngine::start().await;
    let worker = engine.worker().await;
    set(&worker, "my-skills", "a", &record("a", "x")).await;
    set(&worker, "skills", "b", &record("b", "x")).await;
    let config = "scopes:\n  skills: my-skills\n  prompts: my-prompts\n";
    let _attached = AttachedWorker::with_config(&engine, config).await;
    assert_eq!(ids(&worker).await, ["a"]);
    register(&worker, "c", "x").await;
    assert_eq!(state(&worker, "my-skills").await.len(), 2);
    let (_subscriber, mut received) = subscriber(&engine).await;
    set(&worker, "skills", "unheard", &record("unheard", "x")).await;
    delete(&worker, "my-skills", "c").await;
    assert_eq!(next_event(&mut received).await, crate::support::attached::unregister_event("c"));
}
