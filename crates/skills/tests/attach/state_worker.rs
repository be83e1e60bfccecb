//! A state worker that goes and comes while the engine stays, or does not answer.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use skills_testkit::{Worker, next};

use crate::{
    attached::{Attached, eventually, serves},
    engine::{Engine, Kind, record},
    support::ids,
};

type Skills = Arc<Mutex<BTreeMap<String, Value>>>;

/// A state worker without pages and without events.
async fn state_worker(engine: &Engine, skills: &Skills) -> Worker {
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
async fn when_the_state_worker_is_back_everything_is_compared() {
    let engine = Engine::of(Kind { stateless: true, ..Kind::default() }).await;
    let skills = Skills::default();
    skills.lock().unwrap().insert("a".into(), record("a", "x"));
    let state = state_worker(&engine, &skills).await;
    let _attached = Attached::to(&engine).await;
    let worker = engine.worker().await;
    assert_eq!(ids(&worker).await, ["a"]);
    let mut functions = worker.collect("me::functions").await;
    worker.subscribe("engine::functions-available", "me::functions", json!({})).await;
    drop(state);
    skills.lock().unwrap().insert("b".into(), record("b", "x"));
    // All who want to know are told in one go.
    let has_state = |told: &Value| told.to_string().contains("state::get");
    while has_state(&next(&mut functions).await) {}
    let _state = state_worker(&engine, &skills).await;
    eventually("what no event told of is there", async || ids(&worker).await == ["a", "b"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_worker_that_does_not_answer_is_named_once() {
    let engine = Engine::of(Kind { stateless: true, ..Kind::default() }).await;
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
    let attached = Attached::spawn(&engine.url(), "state_timeout_ms: 100");
    for _ in 0..4 {
        next(&mut asked).await;
    }
    attached.says("the state worker does not answer").await;
    let said = attached.log().so_far();
    assert_eq!(said.matches("the state worker does not answer").count(), 1, "{said}");
    drop(silent);
    let _state = state_worker(&engine, &Skills::default()).await;
    serves(&engine.worker().await).await;
}
