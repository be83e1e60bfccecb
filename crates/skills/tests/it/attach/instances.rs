//! Two instances on one state.

use std::time::Duration;

use serde_json::json;

use crate::{
    attach::settings::status,
    support::{
        attached::{
            AttachedWorker, next_event, register_event, subscriber, unregister_event,
            wait_until_serving,
        },
        engine::TestEngine,
        free_address, ids, read, register,
        wait::{eventually, holds_for},
    },
};

/// Time for which the first instance must keep serving.
const A_WHILE: Duration = Duration::from_secs(1);

/// Two engines share their state, so that both instances can be called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_instance_sees_the_others_writes() {
    let one = TestEngine::start().await;
    let two = one.sharing_state().await;
    let (_first, _second) = (AttachedWorker::start(&one).await, AttachedWorker::start(&two).await);
    let (_here, mut heard_here) = subscriber(&one).await;
    let (_there, mut heard_there) = subscriber(&two).await;
    let workers = [one.worker().await, two.worker().await];
    for round in 0..10 {
        let id = format!("s{round}");
        let (writer, reader) = (&workers[round % 2], &workers[(round + 1) % 2]);
        register(writer, &id, &format!("of {round}")).await;
        eventually("the other lists it", async || ids(reader).await.contains(&id)).await;
        assert_eq!(read(reader, &format!("iii://{id}")).await, format!("of {round}"));
        assert_eq!(next_event(&mut heard_here).await, register_event(&id));
        assert_eq!(next_event(&mut heard_there).await, register_event(&id));
    }
    workers[1].ok("skills::unregister", json!({ "id": "s0" })).await;
    assert_eq!(next_event(&mut heard_here).await, unregister_event("s0"));
    assert_eq!(next_event(&mut heard_there).await, unregister_event("s0"));
    let lists =
        [&workers[0], &workers[1]].map(async |worker| worker.ok("skills::list", json!({})).await);
    let [here, there] = lists;
    assert_eq!(here.await, there.await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writes_of_one_skill_converge() {
    let one = TestEngine::start().await;
    let two = one.sharing_state().await;
    let (_first, _second) = (AttachedWorker::start(&one).await, AttachedWorker::start(&two).await);
    let workers = [one.worker().await, two.worker().await];
    for round in 0..20 {
        let writes: Vec<_> = workers
            .iter()
            .enumerate()
            .map(|(number, worker)| {
                let body = format!("round {round} of {number}");
                worker.start("skills::register", &json!({ "id": "a", "skill": body }))
            })
            .collect();
        for write in writes {
            write.await.unwrap();
        }
        eventually("both have the same", async || {
            let bodies = (read(&workers[0], "iii://a").await, read(&workers[1], "iii://a").await);
            let stored =
                workers[0].ok("state::get", json!({ "scope": "skills", "key": "a" })).await;
            bodies.0 == bodies.1 && stored["skill"] == bodies.0.as_str()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_instance_on_one_engine_takes_over() {
    let mut engine = TestEngine::start().await;
    let first = AttachedWorker::start(&engine).await;
    let worker = engine.worker().await;
    let (address, url) = (free_address(), engine.url());
    let _second = AttachedWorker::spawn_with(&format!("http: {address}"), |command| {
        command.args(["--url", &url]).env("III_WORKER_NAME", "skills-b");
    });
    eventually("the second is ready", async || status(address, "/readyz") == Some(200)).await;
    for number in 0..10 {
        register(&worker, &format!("s{number}"), "x").await;
    }
    let before = worker.ok("skills::list", json!({})).await;
    holds_for(A_WHILE, "the first serves", async || ids(&worker).await.len() == 10).await;
    first.stop().await;
    // The engine assigns the functions to the second instance when it reconnects. Without a state worker
    // there is nothing to compare with, so it lists what it knew already.
    engine.has_state(false);
    engine.restart().await;
    let worker = engine.worker().await;
    wait_until_serving(&worker).await;
    assert_eq!(worker.ok("skills::list", json!({})).await, before);
    engine.has_state(true);
    engine.restart().await;
    let worker = engine.worker().await;
    wait_until_serving(&worker).await;
    register(&worker, "more", "x").await;
    assert_eq!(ids(&worker).await.len(), 11);
}
