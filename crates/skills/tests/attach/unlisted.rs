//! A state worker without pages whose listing is more than the connection can take.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use skills_testkit::Worker;

use crate::{
    attached::{Attached, serves},
    engine::{Engine, Kind, record},
    proxy::Proxy,
    support::{ids, read, read_fails, register},
};

/// Values by key, and how often the whole of the skills was asked for.
#[derive(Default)]
struct Scope {
    values: Mutex<std::collections::BTreeMap<String, Value>>,
    listed: AtomicUsize,
}

/// A state worker that has `state::list` only, which breaks the connection of who calls it for skills.
async fn breaking_state(engine: &Engine, proxy: &Arc<Proxy>) -> (Worker, Arc<Scope>) {
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
async fn a_listing_that_breaks_the_connection_is_given_up_and_entries_are_found_by_key() {
    let engine = Engine::of(Kind { stateless: true, ..Kind::default() }).await;
    let proxy = Proxy::before(engine.address).await;
    let (_state, scope) = breaking_state(&engine, &proxy).await;
    let worker = engine.worker().await;
    for id in ["a", "b", "c"] {
        let value = record(id, &format!("# {id}"));
        worker.ok("state::set", json!({ "scope": "skills", "key": id, "value": value })).await;
    }
    let attached = Attached::spawn(&proxy.url(), "state_timeout_ms: 1000");
    serves(&worker).await;
    assert!(ids(&worker).await.is_empty(), "nothing has been touched");
    assert_eq!(read(&worker, "iii://a").await, "# a");
    assert_eq!(ids(&worker).await, ["a"]);
    let removed = worker.ok("skills::unregister", json!({ "id": "b" })).await;
    assert_eq!(removed["removed"], true, "it was there, though nobody had seen it");
    read_fails(&worker, "iii://b").await;
    register(&worker, "d", "# d").await;
    assert_eq!(ids(&worker).await, ["a", "d"]);

    // It is not tried again with every connection, which would break each of them.
    let listed = scope.listed.load(Ordering::SeqCst);
    assert!(listed <= 2, "{listed}");
    proxy.cut();
    crate::attached::eventually("it has noticed", async || {
        worker.call("skills::list", json!({})).await.is_err()
    })
    .await;
    serves(&worker).await;
    assert_eq!(read(&worker, "iii://c").await, "# c");
    assert_eq!(scope.listed.load(Ordering::SeqCst), listed);
    let said = attached.log().so_far();
    let times = said.lines().filter(|line| line.contains("too large to be listed")).count();
    assert_eq!(times, 1, "{said}");
}
