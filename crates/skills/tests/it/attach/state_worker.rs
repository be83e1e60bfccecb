//! A state worker that disconnects and reconnects, or does not answer.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use skills_testkit::{Worker, next};

use crate::support::{
    attached::{AttachedWorker, wait_until_serving},
    engine::{EngineOptions, TestEngine, record},
    ids,
    wait::eventually,
};

type Skills = Arc<Mutex<BTreeMap<String, Value>>>;

/// Starts a state worker without paging and without events.
async fn state_worker(engine: &TestEngine, skills: &Skills) -> Worker {
    let worker = engine.worker().await;
    let values = Arc::clone(skills);
    let list = move |input: Value| {
        let values = values.lock().unwrap();
        let all = values.values().filter(|_| input["scope"] == "skills").cloned();
        Some(Ok(all.collect()))
    };
    worker.serve("state::list", list).await;
    let values = Arc::clone(skills);
    let get = move |input: Value| {
        let key = input["key"].as_str().unwrap_or_default();
        Some(Ok(values.lock().unwrap().get(key).cloned().unwrap_or_default()))
    };
    worker.serve("state::get", get).await;
    worker
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_compared_when_the_state_worker_returns() {
    let engine =
        TestEngine::with_options(EngineOptions { stateless: true, ..EngineOptions::default() })
            .await;
    let skills = Skills::default();
    skills.lock().unwrap().insert("a".into(), record("a", "x"));
    let state = state_worker(&engine, &skills).await;
    let _attached = AttachedWorker::start(&engine).await;
    let worker = engine.worker().await;
    assert_eq!(ids(&worker).await, ["a"]);
    let mut functions = worker.collect("me::functions").await;
    worker.subscribe("engine::functions-available", "me::functions", json!({})).await;
    drop(state);
    skills.lock().unwrap().insert("b".into(), record("b", "x"));
    // All subscribers are notified at once.
    let has_state = |event: &Value| event.to_string().contains("state::get");
    while has_state(&next(&mut functions).await) {}
    let _state = state_worker(&engine, &skills).await;
    eventually("changes without an event are found", async || ids(&worker).await == ["a", "b"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresponsive_state_worker_is_logged_once() {
    let engine =
        TestEngine::with_options(EngineOptions { stateless: true, ..EngineOptions::default() })
            .await;
    let silent = engine.worker().await;
    let mut asked = {
        let (sender, asked) = tokio::sync::mpsc::unbounded_channel();
        let ask = move |input: Value| {
            let _ = sender.send(input);
            None
        };
        silent.serve("state::get", ask).await;
        asked
    };
    let attached = AttachedWorker::spawn(&engine.url(), "state_timeout_ms: 100");
    for _ in 0..4 {
        next(&mut asked).await;
    }
    attached.says("the state worker does not answer").await;
    let output = attached.log().contents();
    assert_eq!(output.matches("the state worker does not answer").count(), 1, "{output}");
    drop(silent);
    let _state = state_worker(&engine, &Skills::default()).await;
    wait_until_serving(&engine.worker().await).await;
}
