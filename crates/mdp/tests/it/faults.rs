//! Misbehaving clients and many clients.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use skills_mdp::{ClientCall, ClientCallError, wire::Method};
use skills_testkit::{
    DEADLINE,
    mdp::{ok, registration, skill},
};
use tokio::time::timeout;

use crate::test_host::TestHost;

fn paths() -> Value {
    json!([skill("/a/skill.md")])
}

fn call(host: &TestHost, id: &str) -> tokio::task::JoinHandle<Result<String, ClientCallError>> {
    let (host, id) = (host.host.clone(), id.to_owned());
    tokio::spawn(async move {
        let answer = host.call(&id, &ClientCall::new(Method::Get, "/a/skill.md")).await?;
        Ok(answer.text().unwrap())
    })
}

#[tokio::test]
async fn duplicate_and_foreign_answers_are_ignored() {
    let host = TestHost::new().await;
    let mut honest = host.client("honest", paths()).await;
    let mut liar = host.client("liar", paths()).await;
    let waiting = call(&host, "honest");
    let asked = honest.next_call().await;
    liar.answer(&asked, ok("a lie")).await;
    // The answer to the next message proves that the previous one was read.
    liar.send(&json!({"type": "ping", "timestamp": 1})).await;
    liar.next().await;
    honest.answer(&asked, ok("the truth")).await;
    honest.answer(&asked, ok("again")).await;
    assert_eq!(waiting.await.unwrap().unwrap(), "the truth");
    let next = call(&host, "honest");
    let asked = honest.next_call().await;
    honest.answer(&asked, ok("next")).await;
    assert_eq!(next.await.unwrap().unwrap(), "next");
}

#[tokio::test]
async fn a_client_that_never_reads_does_not_block_the_others() {
    let host = TestHost::new().await;
    let _deaf = host
        .client(
            "deaf",
            json!([
                {"type": "endpoint", "path": "/a", "method": "POST"},
            ]),
        )
        .await;
    host.client("fine", paths()).await.serve_calls(|_| ok("fine"));
    let large = ClientCall {
        body: Some("x".repeat(1 << 20).into()),
        ..ClientCall::new(Method::Post, "/a")
    };
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let (host, call) = (host.host.clone(), large.clone());
            tokio::spawn(async move { host.call("deaf", &call).await })
        })
        .collect();
    let refused = async {
        while calls.iter().all(|call| !call.is_finished()) {
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, refused).await.expect("none was refused");
    assert_eq!(call(&host, "fine").await.unwrap().unwrap(), "fine");
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_connect_are_killed_and_reconnect_under_load() {
    const CLIENTS: usize = 1000;
    /// Clients at once; both ends of each connection are in this process, which may be limited to 1024 open files.
    const AT_ONCE: usize = 200;
    let host = TestHost::new().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let load: Vec<_> = (0..4)
        .map(|worker| {
            let (host, is_over) = (host.host.clone(), Arc::clone(&is_over));
            let answered = Arc::clone(&answered);
            tokio::spawn(async move {
                for at in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let id = format!("c{}", (at * 7 + worker) % CLIENTS);
                    match host.call(&id, &ClientCall::new(Method::Get, "/a/skill.md")).await {
                        Ok(answer) => {
                            assert_eq!(answer.text().as_deref(), Some(&*id), "of another");
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(
                            ClientCallError::NotConnected(_) | ClientCallError::Disconnected(_),
                        ) => {}
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
            let mut client = host.connect().await;
            client.send(&registration(&id, paths())).await;
            clients.push(client.serve_calls(move |_| ok(id.as_str())));
        }
        host.until(|ids| ids.len() == AT_ONCE).await;
        let before = answered.load(Ordering::Relaxed);
        let working = async {
            while answered.load(Ordering::Relaxed) < before + AT_ONCE {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, working).await.expect("nobody answers");
        // In the second round some clients are replaced before they are killed.
        if round == 1 {
            for id in ids().take(AT_ONCE / 10) {
                let _ = host.client(&id, paths()).await;
            }
        }
        clients.iter().for_each(tokio::task::JoinHandle::abort);
        host.until(<[_]>::is_empty).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for worker in load {
        worker.await.unwrap();
    }
    assert!(host.host.client_table().is_empty());
}
