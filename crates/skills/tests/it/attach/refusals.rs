//! Refused addresses, tokens and names.

use std::time::Duration;

use skills_testkit::{program, run};

use crate::support::{
    BINARY,
    attached::{AttachedWorker, wait_until_serving},
    engine::{EngineOptions, TestEngine},
    register,
    wait::holds_for,
};

/// Longer than two more attempts of the SDK.
const A_WHILE: Duration = Duration::from_secs(5);

#[test]
fn an_invalid_address_is_reported_in_one_line() {
    for url in ["http://127.0.0.1:1", "127.0.0.1:1", "ws://", "nonsense"] {
        let home = tempfile::tempdir().unwrap();
        let ran = run(program(BINARY).current_dir(home.path()).args(["--url", url]));
        assert_eq!(ran.code, Some(1), "{url}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{url}: {}", ran.stderr);
        assert!(ran.stderr.contains("is not the address of an engine"), "{}", ran.stderr);
        assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    }
}

#[test]
fn an_invalid_header_is_reported_in_one_line() {
    for header in ["nothing", "bad name=x"] {
        let home = tempfile::tempdir().unwrap();
        let mut command = program(BINARY);
        command.current_dir(home.path());
        let ran = run(command.args(["--url", "ws://127.0.0.1:1", "--header", header]));
        assert_eq!(ran.code, Some(1), "{header}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{header}: {}", ran.stderr);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_engine_is_logged_once() {
    let mut engine = TestEngine::start().await;
    engine.stop().await;
    let mut attached = AttachedWorker::spawn(&engine.url(), "");
    attached.says("no connection to the engine").await;
    holds_for(A_WHILE, "one line", async || attached.log().contents().lines().count() == 1).await;
    assert!(attached.is_running());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_token_is_logged_once_and_retried() {
    let kind = EngineOptions { token: Some("right".to_owned()), ..EngineOptions::default() };
    let engine = TestEngine::with_options(kind).await;
    let url = engine.url();
    for token in [&["--token", "wrong"][..], &[]] {
        let mut attached = AttachedWorker::spawn_with("", |command| {
            command.args(["--url", &url]).args(token);
        });
        attached.says("refused the token").await;
        let output = || attached.log().contents();
        holds_for(A_WHILE / 2, "one line", async || output().lines().count() == 1).await;
        assert!(!output().contains("wrong"), "{}", output());
        assert!(attached.is_running(), "{token:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_may_be_set_in_three_ways() {
    let kind = EngineOptions { token: Some("right".to_owned()), ..EngineOptions::default() };
    let engine = TestEngine::with_options(kind).await;
    let url = engine.url();
    for number in 0..3 {
        let attached = AttachedWorker::spawn_with("", |command| {
            command.args(["--url", &url]);
            match number {
                0 => command.args(["--token", "right"]),
                1 => command.env("III_TOKEN", "right"),
                _ => command.args(["--header", "authorization=Bearer right"]),
            };
        });
        let worker = engine.worker().await;
        wait_until_serving(&worker).await;
        register(&worker, "a", "x").await;
        attached.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_worker_name_ends_the_process() {
    let engine =
        TestEngine::with_options(EngineOptions { unique_names: true, ..EngineOptions::default() })
            .await;
    let mut first = AttachedWorker::start(&engine).await;
    let second = AttachedWorker::spawn(&engine.url(), "");
    let (_, code, output) = second.ended().await;
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("WORKER_NAMESPACE_CONFLICT"), "{output}");
    assert!(output.contains("III_WORKER_NAME"), "{output}");
    // The first worker keeps running, and another name is accepted.
    assert!(first.is_running());
    wait_until_serving(&engine.worker().await).await;
    let url = engine.url();
    let mut third = AttachedWorker::spawn_with("http: 127.0.0.1:0", |command| {
        command.args(["--url", &url]).env("III_WORKER_NAME", "skills-b");
    });
    holds_for(A_WHILE / 3, "it runs", async || third.is_running()).await;
}
