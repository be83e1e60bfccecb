//! Engine restarts during writes, with and without the engine's state.

use skills_testkit::Random;

use crate::{
    attach::faults::{Writers, wait_until_consistent},
    support::{
        attached::{AttachedWorker, wait_until_serving},
        engine::{TestEngine, state},
        ids,
        wait::{eventually, within},
    },
};

const RESTARTS: usize = 5;
/// Acknowledged writes between two restarts.
const WRITES: usize = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn engine_restarts_lose_no_acknowledged_write() {
    let random = Random::new();
    let seed = random.seed;
    eprintln!("{}={seed}", skills_testkit::SEED_VARIABLE);
    let mut engine = TestEngine::start().await;
    let mut attached = AttachedWorker::start(&engine).await;
    let writers = Writers::new(engine.worker().await, random);
    let tasks = writers.start();
    for _ in 0..RESTARTS {
        let before = writers.ours();
        let time = skills_testkit::DEADLINE;
        within(time, "writes get through", async || writers.ours() > before + WRITES).await;
        engine.restart().await;
        wait_until_serving(&engine.worker().await).await;
        writers.reconnect_with(engine.worker().await);
    }
    let model = writers.finish(tasks).await;
    assert!(attached.is_running(), "seed {seed}");
    wait_until_consistent(&model, &engine.worker().await, seed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_catalog_follows_an_engine_that_restarts_without_its_state() {
    let mut engine = TestEngine::start().await;
    let mut attached = AttachedWorker::start(&engine).await;
    for _ in 0..RESTARTS {
        let random = Random::new();
        eprintln!("{}={}", skills_testkit::SEED_VARIABLE, random.seed);
        let writers = Writers::new(engine.worker().await, random);
        let tasks = writers.start();
        let time = skills_testkit::DEADLINE;
        within(time, "writes get through", async || writers.ours() > WRITES).await;
        engine.restart_empty().await;
        // A write may come after the restart; the model does not know its outcome.
        writers.finish(tasks).await;
        let worker = engine.worker().await;
        wait_until_serving(&worker).await;
        eventually("the catalog is the state", async || {
            let left: Vec<_> =
                state(&worker, "skills").await.into_iter().map(|(id, _)| id).collect();
            ids(&worker).await == left
        })
        .await;
    }
    assert!(attached.is_running());
}
