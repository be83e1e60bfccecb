//! Clients that misbehave, and many of them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use skills_mdp::{Call, CallError, wire::Method};
use skills_testkit::{
    DEADLINE,
    mdp::{ok, registration, skill},
};
use tokio::time::timeout;

use crate::world::World;

fn paths() -> Value {
    json!([skill("/a/skill.md")])
}

fn call(world: &World, id: &str) -> tokio::task::JoinHandle<Result<String, CallError>> {
    let (host, id) = (world.host.clone(), id.to_owned());
    tokio::spawn(async move {
        let answer = host.call(&id, &Call::new(Method::Get, "/a/skill.md")).await?;
        Ok(answer.text().unwrap())
    })
}

#[tokio::test]
async fn one_that_answers_twice_or_for_someone_else() {
    let world = World::new().await;
    let mut honest = world.client("honest", paths()).await;
    let mut liar = world.client("liar", paths()).await;
    let waiting = call(&world, "honest");
    let asked = honest.asked().await;
    liar.answer(&asked, ok("a lie")).await;
    // What it said has been read when what it says next is answered.
    liar.send(&json!({"type": "ping", "timestamp": 1})).await;
    liar.next().await;
    honest.answer(&asked, ok("the truth")).await;
    honest.answer(&asked, ok("again")).await;
    assert_eq!(waiting.await.unwrap().unwrap(), "the truth");
    let next = call(&world, "honest");
    let asked = honest.asked().await;
    honest.answer(&asked, ok("next")).await;
    assert_eq!(next.await.unwrap().unwrap(), "next");
}

#[tokio::test]
async fn one_that_never_reads_does_not_hold_up_the_others() {
    let world = World::new().await;
    let _deaf = world
        .client(
            "deaf",
            json!([
                {"type": "endpoint", "path": "/a", "method": "POST"},
            ]),
        )
        .await;
    world.client("fine", paths()).await.serving(|_| ok("fine"));
    let large = Call { body: Some("x".repeat(1 << 20).into()), ..Call::new(Method::Post, "/a") };
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let (host, call) = (world.host.clone(), large.clone());
            tokio::spawn(async move { host.call("deaf", &call).await })
        })
        .collect();
    let refused = async {
        while calls.iter().all(|call| !call.is_finished()) {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, refused).await.expect("none was refused");
    assert_eq!(call(&world, "fine").await.unwrap().unwrap(), "fine");
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_come_are_killed_and_come_back_under_load() {
    const CLIENTS: usize = 1000;
    /// Both ends of each are in this process, which may have no more than 1024 files open.
    const AT_ONCE: usize = 200;
    let world = World::new().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let load: Vec<_> = (0..4)
        .map(|worker| {
            let (host, is_over) = (world.host.clone(), Arc::clone(&is_over));
            let answered = Arc::clone(&answered);
            tokio::spawn(async move {
                for at in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let id = format!("c{}", (at * 7 + worker) % CLIENTS);
                    match host.call(&id, &Call::new(Method::Get, "/a/skill.md")).await {
                        Ok(answer) => {
                            assert_eq!(answer.text().as_deref(), Some(&*id), "of another");
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(CallError::NotConnected(_) | CallError::Disconnected(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for (wave, round) in (0..CLIENTS / AT_ONCE).flat_map(|wave| [(wave, 0), (wave, 1)]) {
        let ids = || (wave * AT_ONCE..(wave + 1) * AT_ONCE).map(|number| format!("c{number}"));
        let mut clients = Vec::new();
        for id in ids() {
            let mut client = world.connect().await;
            client.send(&registration(&id, paths())).await;
            clients.push(client.serving(move |_| ok(id.as_str())));
        }
        world.until(|ids| ids.len() == AT_ONCE).await;
        let before = answered.load(Ordering::Relaxed);
        let working = async {
            while answered.load(Ordering::Relaxed) < before + AT_ONCE {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, working).await.expect("nobody answers");
        // In the second round some are replaced before they are killed.
        if round == 1 {
            for id in ids().take(AT_ONCE / 10) {
                let _ = world.client(&id, paths()).await;
            }
        }
        clients.iter().for_each(tokio::task::JoinHandle::abort);
        world.until(<[_]>::is_empty).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for worker in load {
        worker.await.unwrap();
    }
    assert!(world.host.roster().is_empty());
}
