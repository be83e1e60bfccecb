//! `state::*` on the embedded bus, in the shapes of an iii engine, stored on disk.

use serde_json::{Value, json};
use skills_testkit::{Worker, next};
use tokio_tungstenite::tungstenite::Message;

use crate::support::TestServer;

fn at(scope: &str, key: &str) -> Value {
    json!({ "scope": scope, "key": key })
}

async fn set(worker: &Worker, scope: &str, key: &str, value: Value) -> Value {
    worker.ok("state::set", json!({ "scope": scope, "key": key, "value": value })).await
}

async fn get(worker: &Worker, scope: &str, key: &str) -> Value {
    worker.ok("state::get", at(scope, key)).await
}

async fn update(worker: &Worker, key: &str, ops: Value) -> Value {
    worker.ok("state::update", json!({ "scope": "s", "key": key, "ops": ops })).await
}

#[tokio::test]
async fn set_get_and_delete_return_old_and_new_values() {
    let server = TestServer::new();
    let worker = server.worker().await;
    assert_eq!(get(&worker, "s", "k").await, Value::Null);
    let first = set(&worker, "s", "k", json!({ "a": [1, "é", null] })).await;
    assert_eq!(first, json!({ "old_value": null, "new_value": { "a": [1, "é", null] } }));
    let second = set(&worker, "s", "k", json!(7)).await;
    assert_eq!(second, json!({ "old_value": { "a": [1, "é", null] }, "new_value": 7 }));
    assert_eq!(get(&worker, "s", "k").await, json!(7));
    assert_eq!(get(&worker, "other", "k").await, Value::Null);
    assert_eq!(worker.ok("state::delete", at("s", "k")).await, json!(7));
    assert_eq!(worker.ok("state::delete", at("s", "k")).await, Value::Null);
    assert_eq!(get(&worker, "s", "k").await, Value::Null);
    // Older SDKs call the value `data`.
    let alias = json!({ "scope": "s", "key": "k", "data": "old" });
    assert_eq!(worker.ok("state::set", alias).await["new_value"], "old");
}

#[tokio::test]
async fn any_json_is_returned_unchanged() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for value in [
        json!(null),
        json!(false),
        json!(""),
        json!("\0\u{1F980}\r\n"),
        json!(1.5e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!([[], {}, [{}]]),
        json!({ "": { "é": [null] } }),
    ] {
        set(&worker, "any scope/é", "any key\n", value.clone()).await;
        assert_eq!(get(&worker, "any scope/é", "any key\n").await, value, "{value:?}");
    }
}

#[tokio::test]
async fn a_list_has_values_in_insertion_order() {
    let server = TestServer::new();
    let worker = server.worker().await;
    assert_eq!(worker.ok("state::list", json!({ "scope": "s" })).await, json!([]));
    for (key, value) in [("z", 1), ("a", 2), ("m", 3), ("z", 4)] {
        set(&worker, "s", key, json!(value)).await;
    }
    set(&worker, "b", "k", json!(0)).await;
    assert_eq!(worker.ok("state::list", json!({ "scope": "s" })).await, json!([4, 2, 3]));
    let groups = json!({ "groups": ["b", "s"] });
    assert_eq!(worker.ok("state::list_groups", json!({})).await, groups);
    assert_eq!(worker.ok("state::list_groups", Value::Null).await, groups);
}

#[tokio::test]
async fn entries_are_listed_in_pages() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for number in 0..25 {
        set(&worker, "s", &format!("k{number}"), json!(number)).await;
    }
    let (mut seen, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let input = json!({ "scope": "s", "limit": 10, "cursor": cursor });
        let page = worker.ok("state::list_entries", input).await;
        assert_eq!(page["total"], 25);
        seen.extend(page["entries"].as_array().unwrap().clone());
        pages += 1;
        if page["done"] == true {
            assert_eq!(page["next_cursor"], Value::Null);
            break;
        }
        cursor = page["next_cursor"].clone();
        assert!(cursor.is_string(), "{page}");
    }
    let expected: Vec<Value> =
        (0..25).map(|number| json!([format!("k{number}"), number])).collect();
    assert_eq!((pages, seen), (3, expected));
    let failure = worker.fails("state::list_entries", json!({ "scope": "s", "cursor": "x" })).await;
    assert_eq!(failure.code, "invalid_input");
}

#[tokio::test]
async fn a_page_is_limited_in_bytes_but_has_at_least_one_entry() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for key in ["a", "b", "c"] {
        set(&worker, "s", key, json!("x".repeat(1000))).await;
    }
    for (max_bytes, sizes) in [(1, vec![1, 1, 1]), (2100, vec![2, 1]), (1_000_000, vec![3])] {
        let (mut pages, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let input = json!({ "scope": "s", "max_bytes": max_bytes, "cursor": cursor });
            let page = worker.ok("state::list_entries", input).await;
            pages.push(page["entries"].as_array().unwrap().len());
            cursor = page["next_cursor"].clone();
            if page["done"] == true {
                break;
            }
        }
        assert_eq!(pages, sizes, "{max_bytes}");
    }
}

#[tokio::test]
async fn an_update_applies_its_operations_atomically() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let ops = json!([
        { "type": "set", "path": "name", "value": "ann" },
        { "type": "increment", "path": "count", "by": 2 },
        { "type": "decrement", "path": "count", "by": 5 },
        { "type": "append", "path": "tags", "value": "x" },
        { "type": "merge", "value": { "more": true } },
        { "type": "set", "path": "gone", "value": 1 },
        { "type": "remove", "path": "gone" },
    ]);
    let expected = json!({ "name": "ann", "count": -3, "tags": ["x"], "more": true });
    let answer = update(&worker, "k", ops).await;
    assert_eq!(answer, json!({ "old_value": null, "new_value": expected }));
    let ops = json!([
        { "type": "increment", "path": "name", "by": 1 },
        { "type": "set", "path": "ok", "value": 1 },
    ]);
    let answer = update(&worker, "k", ops).await;
    assert_eq!(answer["old_value"], expected);
    assert_eq!(answer["new_value"]["ok"], 1, "the others are carried out");
    assert_eq!(answer["errors"][0]["op_index"], 0, "{answer}");
    assert!(answer["errors"][0]["code"].is_string() && answer["errors"][0]["message"].is_string());
    assert_eq!(get(&worker, "s", "k").await, answer["new_value"]);
    let failure = worker
        .fails("state::update", json!({ "scope": "s", "key": "k", "ops": [{ "type": "explode" }] }))
        .await;
    assert_eq!(failure.code, "invalid_input");
}

#[tokio::test]
async fn compare_and_swap_requires_the_expected_value() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let swap = |expected: Value, value: Value| {
        let input = json!({ "scope": "s", "key": "k", "expected": expected, "value": value });
        worker.call("state::compare_and_set", input)
    };
    let done = |value: Value| json!({ "swapped": true, "value": value });
    let not = |value: Value| json!({ "swapped": false, "value": value });
    assert_eq!(swap(json!(1), json!(2)).await.unwrap(), not(Value::Null));
    assert_eq!(swap(Value::Null, json!({ "a": 1, "b": 2 })).await.unwrap()["swapped"], true);
    let kept = json!({ "a": 1, "b": 2 });
    assert_eq!(swap(Value::Null, json!(3)).await.unwrap(), not(kept.clone()));
    // The order of keys is irrelevant.
    let same: Value = serde_json::from_str(r#"{"b":2,"a":1}"#).unwrap();
    assert_eq!(swap(same, json!(4)).await.unwrap(), done(json!(4)));
}

#[tokio::test]
async fn missing_fields_are_named() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for (function_id, data, words) in [
        ("state::set", json!({ "scope": "s", "key": "k" }), "value"),
        ("state::set", json!({ "key": "k", "value": 1 }), "scope"),
        ("state::set", Value::Null, "state::set"),
        ("state::get", json!({ "scope": "s" }), "key"),
        ("state::get", json!({ "scope": 7, "key": "k" }), "string"),
        ("state::delete", json!({}), "scope"),
        ("state::list", json!({}), "scope"),
        ("state::update", json!({ "scope": "s", "key": "k" }), "ops"),
    ] {
        let failure = worker.fails(function_id, data.clone()).await;
        assert_eq!(failure.code, "invalid_input", "{function_id} {data}");
        assert!(failure.message.contains(words), "{}", failure.message);
    }
    assert_eq!(worker.ok("state::list_groups", json!({})).await, json!({ "groups": [] }));
}

#[tokio::test]
async fn concurrent_increments_add_up() {
    let server = TestServer::new();
    let mut workers = Vec::new();
    for number in 0..8 {
        let worker = server.worker().await;
        workers.push(tokio::spawn(async move {
            // Half of them wait for each answer, half do not.
            let ops = || json!([{ "type": "increment", "path": "n", "by": 1 }]);
            let start = || {
                let input = json!({ "scope": "s", "key": "k", "ops": ops() });
                worker.start("state::update", &input)
            };
            if number % 2 == 0 {
                for _ in 0..50 {
                    start().await.unwrap();
                }
            } else {
                for call in (0..50).map(|_| start()).collect::<Vec<_>>() {
                    call.await.unwrap();
                }
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(get(&server.worker().await, "s", "k").await, json!({ "n": 400 }));
}

#[tokio::test]
async fn writes_of_one_worker_keep_their_order() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let start = |number: usize| {
        worker.start("state::set", &json!({ "scope": "s", "key": "k", "value": number }))
    };
    for (number, call) in (0..200).map(start).collect::<Vec<_>>().into_iter().enumerate() {
        let old = number.checked_sub(1);
        assert_eq!(call.await.unwrap(), json!({ "old_value": old, "new_value": number }));
    }
}

#[tokio::test]
async fn an_update_is_ordered_among_other_writes() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for round in 0..100 {
        let add = json!({ "scope": "s", "key": "k", "ops": [{ "type": "increment", "by": 1 }] });
        let swap = json!({ "scope": "s", "key": "k", "expected": round + 1, "value": -1 });
        let set = json!({ "scope": "s", "key": "k", "value": round + 1 });
        let calls = [
            worker.start("state::set", &json!({ "scope": "s", "key": "k", "value": round })),
            worker.start("state::update", &add),
            worker.start("state::compare_and_set", &swap),
            worker.start("state::set", &set),
        ];
        let mut results = Vec::new();
        for call in calls {
            results.push(call.await.unwrap());
        }
        assert_eq!(results[1]["new_value"], round + 1);
        assert_eq!(results[2], json!({ "swapped": true, "value": -1 }));
        assert_eq!(results[3], json!({ "old_value": -1, "new_value": round + 1 }));
    }
}

#[tokio::test]
async fn an_unreadable_value_is_not_treated_as_absent() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let deep = format!("{}1{}", "[".repeat(300), "]".repeat(300));
    worker.send_raw(Message::text(format!(
        r#"{{"type":"invokefunction","function_id":"state::set","data":{{"scope":"s","key":"k","value":{deep}}}}}"#
    )));
    let swap = json!({ "scope": "s", "key": "k", "expected": null, "value": 1 });
    assert_eq!(worker.fails("state::compare_and_set", swap).await.code, "unreadable_value");
    let add = json!({ "scope": "s", "key": "k", "ops": [{ "type": "increment", "by": 1 }] });
    assert_eq!(worker.fails("state::update", add).await.code, "unreadable_value");
}

#[tokio::test]
async fn all_state_survives_a_crash() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for number in 0..20 {
        set(&worker, "s", &format!("k{number}"), json!(number)).await;
    }
    worker.ok("state::delete", at("s", "k3")).await;
    update(&worker, "k4", json!([{ "type": "increment", "by": 100 }])).await;
    let before = worker.ok("state::list_entries", json!({ "scope": "s" })).await;
    drop(worker);
    let server = server.crash();
    let worker = server.worker().await;
    assert_eq!(worker.ok("state::list_entries", json!({ "scope": "s" })).await, before);
    assert_eq!(get(&worker, "s", "k3").await, Value::Null);
    assert_eq!(get(&worker, "s", "k4").await, json!(104));
}

#[tokio::test]
async fn the_state_trigger_reports_every_change() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut received = worker.collect("me::heard").await;
    worker.subscribe("state", "me::heard", json!({})).await;
    set(&worker, "s", "k", json!({ "n": 1 })).await;
    update(&worker, "k", json!([{ "type": "increment", "path": "n", "by": 1 }])).await;
    worker.ok("state::delete", at("s", "k")).await;
    let event = |kind: &str, old: Value, new: Value| {
        json!({
            "type": "state", "event_type": format!("state:{kind}"), "scope": "s", "key": "k",
            "old_value": old, "new_value": new,
        })
    };
    for expected in [
        event("created", Value::Null, json!({ "n": 1 })),
        event("updated", json!({ "n": 1 }), json!({ "n": 2 })),
        event("deleted", json!({ "n": 2 }), Value::Null),
    ] {
        assert_eq!(next(&mut received).await, expected);
    }
}

#[tokio::test]
async fn a_state_trigger_is_limited_to_its_scope_and_key() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut scope = worker.collect("me::scope").await;
    let mut key = worker.collect("me::key").await;
    worker.subscribe("state", "me::scope", json!({ "scope": "s" })).await;
    let id = worker.subscribe("state", "me::key", json!({ "scope": "s", "key": "k" })).await;
    for (name, key, value) in [("other", "k", 1), ("s", "x", 2), ("s", "k", 3)] {
        set(&worker, name, key, json!(value)).await;
    }
    assert_eq!(next(&mut scope).await["new_value"], 2);
    assert_eq!(next(&mut scope).await["new_value"], 3);
    assert_eq!(next(&mut key).await["new_value"], 3);
    worker.send(&json!({ "type": "unregistertrigger", "id": id, "trigger_type": "state" }));
    worker.flush().await;
    set(&worker, "s", "k", json!(4)).await;
    set(&worker, "s", "k", json!(5)).await;
    assert_eq!(next(&mut scope).await["new_value"], 4);
    assert_eq!(next(&mut scope).await["new_value"], 5);
    assert!(key.try_recv().is_err());
}

#[tokio::test]
async fn a_condition_decides_what_is_delivered() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut received = worker.collect("me::heard").await;
    worker.serve("me::even", |event| Some(Ok(json!(event["new_value"].as_i64()? % 2 == 0)))).await;
    let config = json!({ "scope": "s", "condition_function_id": "me::even" });
    worker.subscribe("state", "me::heard", config).await;
    for number in 1..=6 {
        set(&worker, "s", "k", json!(number)).await;
    }
    for number in [2, 4, 6] {
        assert_eq!(next(&mut received).await["new_value"], number, "{number}");
    }
    assert!(received.try_recv().is_err());
}

#[tokio::test]
async fn a_state_trigger_with_a_config_of_another_type_is_refused() {
    let server = TestServer::new();
    let mut worker = server.worker().await;
    worker.subscribe_as("t", "state", "me::heard", json!({ "scope": 7 })).await;
    let refused = worker.frame("triggerregistrationresult").await;
    assert_eq!((&refused["id"], &refused["trigger_type"]), (&json!("t"), &json!("state")));
    assert_eq!(refused["error"]["code"], "trigger_registration_failed", "{refused}");
}
