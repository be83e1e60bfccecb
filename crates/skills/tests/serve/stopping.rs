//! Stopping: what runs is answered, what is written is kept, and it is over within three seconds.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use serde_json::json;
use skills_testkit::{DEADLINE, Peer, Server, Worker};

use crate::support::{Home, register};

/// It promises three seconds; what it must not wait for takes ten. A machine may be busy.
const AT_MOST: Duration = Duration::from_secs(8);

/// Sends the signal and waits for the end: exit code, time taken, and what was said.
async fn stop(server: Server, signal: &str) -> (Option<i32>, Duration, String) {
    let started = Instant::now();
    server.signal(signal);
    let (code, _, said) = tokio::task::spawn_blocking(move || server.wait()).await.unwrap();
    (code, started.elapsed(), said)
}

fn address(url: &str) -> SocketAddr {
    url.split_once("://").unwrap().1.parse().unwrap()
}

/// A worker that has been asked to run a function and has not answered.
async fn busy(home: &Home) -> (Peer, serde_json::Value, impl Future<Output = Outcome> + use<>) {
    let mut peer = Peer::connect(&home.server.url).await;
    peer.send(&json!({ "type": "registerfunction", "id": "demo::slow" })).await;
    peer.send(&json!({ "type": "ping" })).await;
    peer.next_of("pong").await;
    let reader = home.worker().await;
    let call = reader.start("skills::resources-read", &json!({ "uri": "iii://d/demo::slow" }));
    let asked = peer.next_of("invokefunction").await;
    let call = async move {
        let outcome = call.await;
        drop(reader);
        outcome
    };
    (peer, asked, call)
}

/// Waits until new calls are refused.
async fn takes_no_more_calls(probe: &Worker) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match probe.call("skills::list", json!({})).await {
            Ok(_) => assert!(Instant::now() < deadline),
            Err(failure) => return assert_eq!(failure.code, "shutting_down"),
        }
    }
}

type Outcome = Result<serde_json::Value, skills_testkit::CallFailure>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_signals_stop_it_in_good_order() {
    for signal in ["TERM", "INT"] {
        let home = Home::new();
        let (one, _two) = (home.worker().await, home.worker().await);
        register(&one, "a", "x").await;
        let (code, took, said) = stop(home.server, signal).await;
        assert_eq!(code, Some(0), "{signal}: {said}");
        assert!(took < AT_MOST, "{signal}: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_runs_is_answered_before_the_end() {
    let home = Home::new();
    let (mut peer, asked, call) = busy(&home).await;
    let probe = home.worker().await;
    let stopping = tokio::spawn(stop(home.server, "TERM"));
    takes_no_more_calls(&probe).await;
    let answer = json!({
        "type": "invocationresult", "invocation_id": asked["invocation_id"],
        "function_id": "demo::slow", "result": "just in time",
    });
    peer.send(&answer).await;
    let outcome = call.await.unwrap();
    assert_eq!(outcome["contents"][0]["text"], "just in time");
    let (code, took, said) = stopping.await.unwrap();
    assert_eq!(code, Some(0), "{said}");
    assert!(took < AT_MOST, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_never_ends_does_not_keep_it() {
    let home = Home::new();
    let (_peer, _, call) = busy(&home).await;
    let (code, took, said) = stop(home.server, "TERM").await;
    assert_eq!(code, Some(0), "{said}");
    assert!(took < AT_MOST, "{took:?}");
    let failure = call.await.expect_err("nobody answered");
    assert!(!failure.code.is_empty(), "{failure:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_say_nothing_do_not_keep_it() {
    let home = Home::new();
    let silent = TcpStream::connect(address(&home.server.url)).unwrap();
    let mut half = TcpStream::connect(address(&home.server.http)).unwrap();
    write!(half, "GET /healthz HTTP/1.1\r\nHost: ").unwrap();
    let deaf = Peer::connect(&home.server.url).await;
    let (code, took, said) = stop(home.server, "TERM").await;
    assert_eq!(code, Some(0), "{said}");
    assert!(took < AT_MOST, "{took:?}");
    drop((silent, half, deaf));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_does_not_wait() {
    let home = Home::new();
    let (_peer, _, _call) = busy(&home).await;
    let probe = home.worker().await;
    home.server.signal("INT");
    takes_no_more_calls(&probe).await;
    // This code has only who ends at once.
    let (code, _, _) = stop(home.server, "INT").await;
    assert_eq!(code, Some(130));
}
