//! A state worker that answers late or not at all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use serde_json::{Value, json};
use skills_testkit::Worker;

use crate::support::{
    attached::{AttachedWorker, wait_until_serving},
    engine::{EngineOptions, TestEngine, record, state},
    ids,
    proxy::{NetworkCondition, Proxy},
    read,
    wait::eventually,
};

/// Starts a state worker with one skill that stops answering on request.
async fn stoppable_state(engine: &TestEngine) -> (Worker, Arc<AtomicBool>) {
    let worker = engine.worker().await;
    let silent = Arc::new(AtomicBool::new(false));
    let answers: [(&str, Value); 4] = [
        ("state::get", record("a", "# A")),
        ("state::list_entries", json!({ "entries": [["a", record("a", "# A")]], "done": true })),
        ("state::set", json!({})),
        ("state::delete", Value::Null),
    ];
    for (function, answer) in answers {
        let silent = Arc::clone(&silent);
        worker
            .serve(function, move |_| (!silent.load(Ordering::SeqCst)).then(|| Ok(answer.clone())))
            .await;
    }
    (worker, silent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_state_worker_times_out_and_listings_work() {
    let engine =
        TestEngine::with_options(EngineOptions { stateless: true, ..EngineOptions::default() })
            .await;
    let (_state, silent) = stoppable_state(&engine).await;
    let _attached = AttachedWorker::with_config(&engine, "state_timeout_ms: 10000").await;
    let worker = engine.worker().await;
    assert_eq!(ids(&worker).await, ["a"]);
    silent.store(true, Ordering::SeqCst);
    let calls = [
        ("skills::register", json!({ "id": "b", "skill": "x" })),
        ("skills::unregister", json!({ "id": "a" })),
        ("skills::resources-read", json!({ "uri": "iii://a" })),
    ];
    let calls = calls.map(|(function, data)| worker.start(function, &data));
    let mut calls = std::pin::pin!(join_all(calls));
    let listings = async {
        for _ in 0..20 {
            assert_eq!(ids(&worker).await, ["a"], "while the calls wait");
        }
    };
    tokio::select! {
        biased;
        ended = &mut calls => panic!("the listings waited for the calls: {ended:?}"),
        () = listings => {}
    }
    for outcome in calls.await {
        let failure = outcome.unwrap_err();
        assert_eq!(failure.code, "timeout", "{failure:?}");
    }
    assert_eq!(ids(&worker).await, ["a"]);
    silent.store(false, Ordering::SeqCst);
    assert_eq!(read(&worker, "iii://a").await, "# A");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_write_becomes_visible() {
    let engine = TestEngine::start().await;
    let proxy = Proxy::start(engine.address).await;
    let _attached = AttachedWorker::spawn(&proxy.url(), "state_timeout_ms: 1000");
    let worker = engine.worker().await;
    wait_until_serving(&worker).await;
    proxy.set(NetworkCondition::Slow(Duration::from_millis(1500)));
    let failure = worker.fails("skills::register", json!({ "id": "b", "skill": "x" })).await;
    assert_eq!(failure.code, "timeout", "{failure:?}");
    assert!(ids(&worker).await.len() <= 1, "the catalog still answers");
    proxy.set(NetworkCondition::Fine);
    eventually("the state has it", async || state(&worker, "skills").await.len() == 1).await;
    eventually("so does the catalog", async || ids(&worker).await == ["b"]).await;
    assert_eq!(read(&worker, "iii://b").await, "x");
}
