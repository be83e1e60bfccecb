//! Two of them on one state.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    attached::{
        Attached, eventually, hears, holds_for, registered, serves, subscriber, unregistered,
    },
    engine::Engine,
    settings::{free_address, status},
    support::{ids, read, register},
};

const SOON: Duration = Duration::from_secs(1);

/// Two engines that share their state, so that both instances can be asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_knows_of_the_other_s_writes_within_a_second() {
    let one = Engine::start().await;
    let two = one.sharing_state().await;
    let (_first, _second) = (Attached::to(&one).await, Attached::to(&two).await);
    let (_here, mut heard_here) = subscriber(&one).await;
    let (_there, mut heard_there) = subscriber(&two).await;
    let workers = [one.worker().await, two.worker().await];
    let mut times = Vec::new();
    for round in 0..10 {
        let id = format!("s{round}");
        let (writer, reader) = (&workers[round % 2], &workers[(round + 1) % 2]);
        register(writer, &id, &format!("of {round}")).await;
        let written = Instant::now();
        eventually("the other lists it", async || ids(reader).await.contains(&id)).await;
        times.push(written.elapsed());
        assert_eq!(read(reader, &format!("iii://{id}")).await, format!("of {round}"));
        assert_eq!(hears(&mut heard_here).await, registered(&id));
        assert_eq!(hears(&mut heard_there).await, registered(&id));
    }
    // A machine may be busy, but not all the time.
    assert!(times.iter().min().is_some_and(|best| *best < SOON), "{times:?}");
    workers[1].ok("skills::unregister", json!({ "id": "s0" })).await;
    assert_eq!(hears(&mut heard_here).await, unregistered("s0"));
    assert_eq!(hears(&mut heard_there).await, unregistered("s0"));
    let lists =
        [&workers[0], &workers[1]].map(async |worker| worker.ok("skills::list", json!({})).await);
    let [here, there] = lists;
    assert_eq!(here.await, there.await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_write_the_same_skill_and_agree_in_the_end() {
    let one = Engine::start().await;
    let two = one.sharing_state().await;
    let (_first, _second) = (Attached::to(&one).await, Attached::to(&two).await);
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
async fn on_one_bus_the_second_knows_what_the_first_wrote_and_takes_over() {
    let mut engine = Engine::start().await;
    let first = Attached::to(&engine).await;
    let worker = engine.worker().await;
    let (address, url) = (free_address(), engine.url());
    let _second = Attached::with(&format!("http: {address}"), |command| {
        command.args(["--url", &url]).env("III_WORKER_NAME", "skills-b");
    });
    eventually("the second is ready", async || status(address, "/readyz") == Some(200)).await;
    for number in 0..10 {
        register(&worker, &format!("s{number}"), "x").await;
    }
    let before = worker.ok("skills::list", json!({})).await;
    holds_for(SOON, "the first serves", async || ids(&worker).await.len() == 10).await;
    first.stop().await;
    // An engine gives the functions to the second when it connects again. Without a state worker
    // there is nothing to compare with, so what it lists is what it knew by itself.
    engine.has_state(false);
    engine.restart().await;
    let worker = engine.worker().await;
    serves(&worker).await;
    assert_eq!(worker.ok("skills::list", json!({})).await, before);
    engine.has_state(true);
    engine.restart().await;
    let worker = engine.worker().await;
    serves(&worker).await;
    register(&worker, "more", "x").await;
    assert_eq!(ids(&worker).await.len(), 11);
}
