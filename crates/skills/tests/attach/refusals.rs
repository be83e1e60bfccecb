//! Addresses, tokens and names that do not do.

use std::time::Duration;

use skills_testkit::{program, run};

use crate::{
    attached::{Attached, holds_for, serves},
    engine::{Engine, Kind},
    support::{BINARY, register},
};

/// Longer than the SDK takes for two more attempts.
const A_WHILE: Duration = Duration::from_secs(5);

#[test]
fn a_wrong_address_is_one_line_and_the_end() {
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
fn a_wrong_header_is_one_line_and_the_end() {
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
async fn an_engine_that_is_not_there_is_said_once() {
    let mut engine = Engine::start().await;
    engine.stop().await;
    let mut attached = Attached::spawn(&engine.url(), "");
    attached.says("no connection to the engine").await;
    holds_for(A_WHILE, "one line", async || attached.log().so_far().lines().count() == 1).await;
    assert!(attached.is_running());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_token_is_said_once_and_tried_again() {
    let kind = Kind { token: Some("right".to_owned()), ..Kind::default() };
    let engine = Engine::of(kind).await;
    let url = engine.url();
    for token in [&["--token", "wrong"][..], &[]] {
        let mut attached = Attached::with("", |command| {
            command.args(["--url", &url]).args(token);
        });
        attached.says("refused the token").await;
        let said = || attached.log().so_far();
        holds_for(A_WHILE / 2, "one line", async || said().lines().count() == 1).await;
        assert!(!said().contains("wrong"), "{}", said());
        assert!(attached.is_running());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_token_may_come_in_three_ways() {
    let kind = Kind { token: Some("right".to_owned()), ..Kind::default() };
    let engine = Engine::of(kind).await;
    let url = engine.url();
    for number in 0..3 {
        let attached = Attached::with("", |command| {
            command.args(["--url", &url]);
            match number {
                0 => command.args(["--token", "right"]),
                1 => command.env("III_TOKEN", "right"),
                _ => command.args(["--header", "authorization=Bearer right"]),
            };
        });
        let worker = engine.worker().await;
        serves(&worker).await;
        register(&worker, "a", "x").await;
        attached.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_taken_is_the_end() {
    let engine = Engine::of(Kind { unique_names: true, ..Kind::default() }).await;
    let mut first = Attached::to(&engine).await;
    let second = Attached::spawn(&engine.url(), "");
    let (_, code, said) = second.ended().await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("WORKER_NAMESPACE_CONFLICT"), "{said}");
    assert!(said.contains("III_WORKER_NAME"), "{said}");
    // The first goes on, and another name is welcome.
    assert!(first.is_running());
    serves(&engine.worker().await).await;
    let url = engine.url();
    let mut third = Attached::with("http: 127.0.0.1:0", |command| {
        command.args(["--url", &url]).env("III_WORKER_NAME", "skills-b");
    });
    holds_for(A_WHILE / 3, "it runs", async || third.is_running()).await;
}
