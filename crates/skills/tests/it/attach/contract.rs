//! The contract as other workers of the engine see it, on each engine.

use serde_json::{Value, json};
use skills_testkit::{Worker, next};

use crate::support::{
    attached::{
        AttachedWorker, next_event, register_event, subscriber, unregister_event, without_caller_id,
    },
    engine::TestEngine,
    ids, is_timestamp, keys, read, read_error, register,
};

/// Makes a test of a function for each engine: `contract::FUNCTION::ENGINE`.
macro_rules! on_each_engine {
    (@test $test:ident [$($engine:ident),*]) => {
        mod $test {
            use crate::support::engine::{EngineOptions, TestEngine};
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $engine() {
                    super::$test(TestEngine::with_options(EngineOptions::$engine()).await).await;
                }
            )*
        }
    };
    ($engines:tt $($test:ident),* $(,)?) => { $(on_each_engine!(@test $test $engines);)* };
}

on_each_engine!(
    [default, v0_11, v0_23, v0_23_with_pages, v0_25, v0_26]
    skills_are_registered_listed_read_and_removed,
    an_absent_payload_is_accepted_as_empty,
    sections_and_prompts_call_other_workers,
    functions_show_their_schemas,
    a_subscriber_receives_every_change_once_in_order,
    an_ended_subscription_receives_nothing,
);
// Older engines have no observers.
on_each_engine!([default, v0_25, v0_26] an_observer_receives_every_change_once);

async fn skills_are_registered_listed_read_and_removed(engine: TestEngine) {
    let _attached = AttachedWorker::start(&engine).await;
    let worker = engine.worker().await;
    assert_eq!(worker.ok("skills::list", json!({})).await, json!({ "skills": [] }));
    let answer =
        worker.ok("skills::register", json!({ "id": "b", "skill": "# Bee\n\nHums." })).await;
    assert_eq!(keys(&answer), ["id", "registered_at"]);
    assert!(is_timestamp(&answer["registered_at"]), "{answer}");
    let first = register(&worker, "a", "only text").await;
    let list = worker.ok("skills::list", json!({})).await;
    assert_eq!(list["skills"][0], json!({ "id": "a", "bytes": 9, "registered_at": first }));
    assert_eq!(ids(&worker).await, ["a", "b"]);
    assert_eq!(read(&worker, "iii://b").await, "# Bee\n\nHums.");
    assert!(read(&worker, "iii://skills").await.contains("Hums."));
    let resources = worker.ok("skills::resources-list", json!({})).await;
    assert_eq!(resources["resources"].as_array().unwrap().len(), 3);
    let templates = worker.ok("skills::resources-templates", json!({})).await;
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 2);
    let again = register(&worker, "a", "other text").await;
    assert!(again > first, "{again} is not after {first}");
    assert_eq!(read(&worker, "iii://a").await, "other text");
    let gone = worker.ok("skills::unregister", json!({ "id": "a" })).await;
    assert_eq!(gone, json!({ "id": "a", "removed": true }));
    let gone = worker.ok("skills::unregister", json!({ "id": "a" })).await;
    assert_eq!(gone, json!({ "id": "a", "removed": false }));
    assert_eq!(read_error(&worker, "iii://a").await.code, "not_found");
    assert_eq!(ids(&worker).await, ["b"]);
}

async fn an_absent_payload_is_accepted_as_empty(engine: TestEngine) {
    let _attached = AttachedWorker::start(&engine).await;
    let worker = engine.worker().await;
    for payload in [Value::Null, json!({}), json!({ "more": 1 })] {
        assert_eq!(
            worker.ok("skills::list", payload.clone()).await,
            json!({ "skills": [] }),
            "{payload:?}"
        );
    }
    for (payload, code) in [
        (json!({ "id": "UPPER", "skill": "x" }), "invalid_id"),
        (json!({ "id": "a" }), "invalid_input"),
    ] {
        let failure = worker.fails("skills::register", payload).await;
        assert!(failure.code.starts_with("invalid"), "{failure:?} is not {code}");
    }
}

async fn sections_and_prompts_call_other_workers(engine: TestEngine) {
    let _attached = AttachedWorker::start(&engine).await;
    let (caller, handler) = (engine.worker().await, engine.worker().await);
    handler.serve("demo::section", |_| Some(Ok(json!("# Made now")))).await;
    handler
        .serve("demo::prompt", |data| {
            Some(Ok(json!(format!("to {}", data["to"].as_str().unwrap()))))
        })
        .await;
    register(&caller, "demo", "# Demo").await;
    assert_eq!(read(&caller, "iii://demo/demo::section").await, "# Made now");
    let failure = read_error(&caller, "iii://demo/demo::nobody").await;
    assert_eq!(failure.code, "handler_not_registered", "{failure:?}");
    let prompt = json!({
        "name": "send", "description": "Sends", "function_id": "demo::prompt",
        "arguments": [{ "name": "to", "description": "Whom", "required": true }],
    });
    caller.ok("prompts::register", prompt).await;
    let list = caller.ok("prompts::mcp-list", json!({})).await;
    assert_eq!(list["prompts"][0]["name"], "send");
    let got = caller
        .ok("prompts::mcp-get", json!({ "name": "send", "arguments": { "to": "all" } }))
        .await;
    assert_eq!(got["messages"][0]["content"]["text"], "to all", "{got}");
    let list = caller.ok("prompts::list", json!({})).await;
    assert_eq!(list["prompts"][0]["function_id"], "demo::prompt");
    caller.ok("prompts::unregister", json!({ "name": "send" })).await;
    assert_eq!(caller.ok("prompts::list", json!({})).await, json!({ "prompts": [] }));
}

async fn functions_show_their_schemas(engine: TestEngine) {
    let _attached = AttachedWorker::start(&engine).await;
    let worker = engine.worker().await;
    let listed = worker.ok("engine::functions::list", json!({})).await;
    let functions = listed["functions"].as_array().unwrap();
    let find = |id: &str| {
        let found = functions.iter().find(|function| function["function_id"] == id);
        found.unwrap_or_else(|| panic!("no {id} in {listed}"))
    };
    let register = find("skills::register");
    assert_eq!(register["request_format"]["title"], "RegisterSkillInput");
    assert_eq!(register["response_format"]["title"], "RegisterSkillOutput");
    for id in ["prompts::register", "skills::resources-read", "prompts::mcp-get", "skills::list"] {
        let function = find(id);
        assert!(function["request_format"].is_object(), "{function}");
        assert!(function["description"].is_string(), "{function}");
    }
    let types = worker.ok("engine::trigger-types::list", json!({})).await;
    let types = types["trigger_types"].as_array().unwrap();
    for id in ["skills::on-change", "prompts::on-change"] {
        assert!(types.iter().any(|row| row["id"] == id), "{types:?}");
    }
    let workers = worker.ok("engine::workers::list", json!({})).await;
    assert!(workers["workers"].as_array().unwrap().iter().any(|row| row["name"] == "skills"));
}

async fn a_subscriber_receives_every_change_once_in_order(engine: TestEngine) {
    let _attached = AttachedWorker::start(&engine).await;
    let writer = engine.worker().await;
    let (_subscriber, mut received) = subscriber(&engine).await;
    let mut expected = Vec::new();
    for round in 0..50 {
        let id = format!("s{}", round % 7);
        register(&writer, &id, &format!("round {round}")).await;
        expected.push(register_event(&id));
        if round % 5 == 0 {
            writer.ok("skills::unregister", json!({ "id": id })).await;
            expected.push(unregister_event(&id));
        }
    }
    for change in expected {
        assert_eq!(next_event(&mut received).await, change);
    }
    writer.ok("skills::unregister", json!({ "id": "nobody" })).await;
    register(&writer, "last", "x").await;
    assert_eq!(next_event(&mut received).await, register_event("last"), "and nothing in between");
}

async fn observe(worker: &mut Worker, id: &str, target: &str) -> Value {
    worker.send(&json!({
        "type": "observe", "id": id, "target": { "function_id": target },
        "source": { "function_id": "skills::on-change", "deliver": "input" },
    }));
    let answer = worker.frame("observeresult").await;
    // The engine first asks the owner of the function.
    if answer["state"] == "pending" { worker.frame("observerstatechanged").await } else { answer }
}

async fn an_observer_receives_every_change_once(engine: TestEngine) {
    let _attached = AttachedWorker::start(&engine).await;
    let mut worker = engine.worker().await;
    worker.identify().await;
    let mut received = worker.collect("me::observed").await;
    let answer = observe(&mut worker, "o1", "me::observed").await;
    assert_eq!(answer["state"], "active", "{answer}");
    crate::support::attached::wait_until_bound(&worker, 1).await;
    for number in 0..20 {
        register(&worker, &format!("s{number}"), "x").await;
    }
    for number in 0..20 {
        let change = without_caller_id(next(&mut received).await);
        assert_eq!(change, register_event(&format!("s{number}")));
    }
}

async fn an_ended_subscription_receives_nothing(engine: TestEngine) {
    let _attached = AttachedWorker::start(&engine).await;
    let (worker, mut received) = subscriber(&engine).await;
    let other = engine.worker().await;
    let mut ended = other.collect("other::heard").await;
    let id = other.subscribe("skills::on-change", "other::heard", json!({})).await;
    register(&other, "a", "x").await;
    assert_eq!(next_event(&mut received).await, register_event("a"));
    assert_eq!(next_event(&mut ended).await, register_event("a"));
    other.send(&json!({ "type": "unregistertrigger", "id": id }));
    register(&other, "b", "x").await;
    register(&worker, "c", "x").await;
    assert_eq!(next_event(&mut received).await, register_event("b"));
    assert_eq!(next_event(&mut received).await, register_event("c"));
    assert!(ended.try_recv().is_err());
}
