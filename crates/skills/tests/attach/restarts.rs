//! The engine is restarted while others write, and keeps its state.

use skills_testkit::Random;

use crate::{
    attached::{Attached, serves, within},
    engine::Engine,
    faults::{Writers, agree_with},
};

const RESTARTS: usize = 5;
/// So many writes are acknowledged between two of them.
const WRITES: usize = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_of_the_engine_lose_nothing_that_was_acknowledged() {
    let random = Random::new();
    let seed = random.seed;
    eprintln!("{}={seed}", skills_testkit::SEED_VARIABLE);
    let mut engine = Engine::start().await;
    let mut attached = Attached::to(&engine).await;
    let writers = Writers::new(engine.worker().await, random);
    let tasks = writers.start();
    for _ in 0..RESTARTS {
        let before = writers.ours();
        let time = skills_testkit::DEADLINE;
        within(time, "writes get through", async || writers.ours() > before + WRITES).await;
        engine.restart().await;
        serves(&engine.worker().await).await;
        writers.go_on_with(engine.worker().await);
    }
    let model = writers.finish(tasks).await;
    assert!(attached.is_running(), "seed {seed}");
    agree_with(&model, &engine.worker().await, seed).await;
}
