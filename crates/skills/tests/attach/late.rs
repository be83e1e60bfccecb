//! State that answers late, or not at all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use skills_testkit::Worker;

use crate::{
    attached::{Attached, eventually, serves},
    engine::{Engine, Kind, record, state},
    proxy::{Proxy, Weather},
    support::{ids, read, read_fails},
};

/// A state worker with one skill that stops answering when it is told to.
async fn moody_state(engine: &Engine) -> (Worker, Arc<AtomicBool>) {
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
async fn silence_is_a_timeout_and_listings_go_on() {
    let engine = Engine::of(Kind { stateless: true, ..Kind::default() }).await;
    let (_state, silent) = moody_state(&engine).await;
    let _attached = Attached::configured(&engine, "state_timeout_ms: 2000").await;
    let worker = engine.worker().await;
    assert_eq!(ids(&worker).await, ["a"]);
    silent.store(true, Ordering::SeqCst);
    let mut write =
        std::pin::pin!(worker.start("skills::register", &json!({ "id": "b", "skill": "x" })));
    let listings = async {
        for _ in 0..20 {
            assert_eq!(ids(&worker).await, ["a"], "while the write waits");
        }
    };
    tokio::select! {
        biased;
        ended = &mut write => panic!("the listings waited for the write: {ended:?}"),
        () = listings => {}
    }
    let failure = write.await.unwrap_err();
    assert_eq!(failure.code, "timeout", "{failure:?}");
    let failure = worker.fails("skills::unregister", json!({ "id": "a" })).await;
    assert_eq!(failure.code, "timeout", "{failure:?}");
    let failure = read_fails(&worker, "iii://a").await;
    assert_eq!(failure.code, "timeout", "{failure:?}");
    assert_eq!(ids(&worker).await, ["a"]);
    silent.store(false, Ordering::SeqCst);
    assert_eq!(read(&worker, "iii://a").await, "# A");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_came_too_late_is_seen_when_it_has_happened() {
    let engine = Engine::start().await;
    let proxy = Proxy::before(engine.address).await;
    let _attached = Attached::spawn(&proxy.url(), "state_timeout_ms: 1000");
    let worker = engine.worker().await;
    serves(&worker).await;
    proxy.set(Weather::Slow(Duration::from_millis(1500)));
    let failure = worker.fails("skills::register", json!({ "id": "b", "skill": "x" })).await;
    assert_eq!(failure.code, "timeout", "{failure:?}");
    assert!(ids(&worker).await.len() <= 1, "the catalog still answers");
    proxy.set(Weather::Fine);
    eventually("the state has it", async || state(&worker, "skills").await.len() == 1).await;
    eventually("so does the catalog", async || ids(&worker).await == ["b"]).await;
    assert_eq!(read(&worker, "iii://b").await, "x");
}
