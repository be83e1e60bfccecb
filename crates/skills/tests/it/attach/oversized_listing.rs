//! A state worker without paging whose listing exceeds the message limit.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use skills_testkit::Worker;

use crate::support::{
    attached::{AttachedWorker, wait_until_serving},
    engine::{EngineOptions, TestEngine, record},
    ids,
    proxy::Proxy,
    read, read_error, register,
};

/// Values by key, and the number of listings of skills.
#[derive(Default)]
struct Scope {
    values: Mutex<std::collections::BTreeMap<String, Value>>,
    listed: AtomicUsize,
}

/// Starts a state worker with `state::list` only; listing skills cuts the caller's connection.
async fn breaking_state(engine: &TestEngine, proxy: &Arc<Proxy>) -> (Worker, Arc<Scope>) {
    let worker = engine.worker().await;
    let scope = Arc::new(Scope::default());
    let key = |input: &Value| format!("{}/{}", input["scope"], input["key"]);
    let (values, network) = (Arc::clone(&scope), Arc::clone(proxy));
    worker
        .serve("state::list", move |input| {
            if input["scope"] != "skills" {
                return Some(Ok(json!([])));
            }
            values.listed.fetch_add(1, Ordering::SeqCst);
            network.cut();
            None
        })
        .await;
    let values = Arc::clone(&scope);
    worker
        .serve("state::get", move |input| {
            Some(Ok(values.values.lock().unwrap().get(&key(&input)).cloned().unwrap_or_default()))
        })
        .await;
    let values = Arc::clone(&scope);
    worker
        .serve("state::set", move |input| {
            values.values.lock().unwrap().insert(key(&input), input["value"].clone());
            Some(Ok(json!({})))
        })
        .await;
    let values = Arc::clone(&scope);
    worker
        .serve("state::delete", move |input| {
            Some(Ok(values.values.lock().unwrap().remove(&key(&input)).unwrap_or_default()))
        })
        .await;
    (worker, scope)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_oversized_listing_falls_back_to_reading_by_key() {
    let engine =
        TestEngine::with_options(EngineOptions { stateless: true, ..EngineOptions::default() })
            .await;
    let proxy = Proxy::start(engine.address).await;
    let (_state, scope) = breaking_state(&engine, &proxy).await;
    let worker = engine.worker().await;
    for id in ["a", "b", "c"] {
        let value = record(id, &format!("# {id}"));
        worker.ok("state::set", json!({ "scope": "skills", "key": id, "value": value })).await;
    }
    let attached = AttachedWorker::spawn(&proxy.url(), "state_timeout_ms: 5000");
    wait_until_serving(&worker).await;
    assert!(ids(&worker).await.is_empty(), "nothing has been touched");
    assert_eq!(read(&worker, "iii://a").await, "# a");
    assert_eq!(ids(&worker).await, ["a"]);
    let removed = worker.ok("skills::unregister", json!({ "id": "b" })).await;
    assert_eq!(removed["removed"], true, "it was there, though nobody had seen it");
    read_error(&worker, "iii://b").await;
    register(&worker, "d", "# d").await;
    assert_eq!(ids(&worker).await, ["a", "d"]);

    // The listing is not retried on every connection, which would break each of them.
    let listed = scope.listed.load(Ordering::SeqCst);
    assert!(listed <= 2, "{listed}");
    proxy.cut();
    crate::support::wait::eventually("it has noticed", async || {
        worker.call("skills::list", json!({})).await.is_err()
    })
    .await;
    wait_until_serving(&worker).await;
    assert_eq!(read(&worker, "iii://c").await, "# c");
    assert_eq!(scope.listed.load(Ordering::SeqCst), listed);
    let output = attached.log().contents();
    let times = output.lines().filter(|line| line.contains("too large to be listed")).count();
    assert_eq!(times, 1, "{output}");
}
