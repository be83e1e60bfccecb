//! Shutdown: running calls are answered, writes are kept, and it takes at most three seconds.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use serde_json::json;
use skills_testkit::{DEADLINE, Peer, ServerProcess, Worker};

use crate::support::{TestServer, register};

/// Bound of the wait: shutdown takes at most three seconds, what it must not wait for takes ten.
const AT_MOST: Duration = Duration::from_secs(8);

/// Setting with which calls that it must not wait for take longer than any wait.
const ENDLESS_CALLS: &str = "state_timeout_ms: 600000\n";

/// Sends a signal and waits for the end. Returns exit code, duration and stderr.
async fn stop(server: ServerProcess, signal: &str) -> (Option<i32>, Duration, String) {
    let started = Instant::now();
    server.signal(signal);
    let (code, _, output) = tokio::task::spawn_blocking(move || server.wait()).await.unwrap();
    (code, started.elapsed(), output)
}

fn address(url: &str) -> SocketAddr {
    url.split_once("://").unwrap().1.parse().unwrap()
}

/// Starts a call and returns its worker, the call, and the pending result.
async fn start_call(
    server: &TestServer,
) -> (Peer, serde_json::Value, impl Future<Output = Outcome> + use<>) {
    let mut peer = Peer::connect(&server.process.url).await;
    peer.send(&json!({ "type": "registerfunction", "id": "demo::slow" })).await;
    peer.send(&json!({ "type": "ping" })).await;
    peer.next_of_type("pong").await;
    let reader = server.worker().await;
    let call = reader.start("skills::resources-read", &json!({ "uri": "iii://d/demo::slow" }));
    let asked = peer.next_of_type("invokefunction").await;
    let call = async move {
        let outcome = call.await;
        drop(reader);
        outcome
    };
    (peer, asked, call)
}

/// Waits until new calls are refused.
async fn wait_until_calls_are_refused(probe: &Worker) {
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
async fn sigint_and_sigterm_stop_the_server_cleanly() {
    for signal in ["TERM", "INT"] {
        let server = TestServer::new();
        let (one, _two) = (server.worker().await, server.worker().await);
        register(&one, "a", "x").await;
        let (code, _, output) = stop(server.process, signal).await;
        assert_eq!(code, Some(0), "{signal}: {output}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_answers_running_calls() {
    let server = TestServer::new();
    let (mut peer, asked, call) = start_call(&server).await;
    let probe = server.worker().await;
    let stopping = tokio::spawn(stop(server.process, "TERM"));
    wait_until_calls_are_refused(&probe).await;
    let answer = json!({
        "type": "invocationresult", "invocation_id": asked["invocation_id"],
        "function_id": "demo::slow", "result": "just in time",
    });
    peer.send(&answer).await;
    let outcome = call.await.unwrap();
    assert_eq!(outcome["contents"][0]["text"], "just in time");
    let (code, _, output) = stopping.await.unwrap();
    assert_eq!(code, Some(0), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_does_not_wait_for_endless_calls() {
    let server = TestServer::with_config(ENDLESS_CALLS);
    let (_peer, _, call) = start_call(&server).await;
    let (code, _, output) = stop(server.process, "TERM").await;
    assert_eq!(code, Some(0), "{output}");
    let failure = call.await.expect_err("nobody answered");
    assert!(!failure.code.is_empty(), "{failure:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_does_not_wait_for_silent_connections() {
    let server = TestServer::new();
    let silent = TcpStream::connect(address(&server.process.url)).unwrap();
    let mut half = TcpStream::connect(address(&server.process.http)).unwrap();
    write!(half, "GET /healthz HTTP/1.1\r\nHost: ").unwrap();
    let deaf = Peer::connect(&server.process.url).await;
    let (code, took, output) = stop(server.process, "TERM").await;
    assert_eq!(code, Some(0), "{output}");
    assert!(took < AT_MOST, "{took:?}");
    drop((silent, half, deaf));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_the_server_at_once() {
    let server = TestServer::new();
    let (_peer, _, _call) = start_call(&server).await;
    let probe = server.worker().await;
    server.process.signal("INT");
    wait_until_calls_are_refused(&probe).await;
    // Only an immediate end has this code.
    let (code, _, _) = stop(server.process, "INT").await;
    assert_eq!(code, Some(130));
}
