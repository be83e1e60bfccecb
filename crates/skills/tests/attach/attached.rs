//! The process under test.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use serde_json::{Value, json};
use skills_testkit::{DEADLINE, Process, Transcript, Worker, next, program};
use tempfile::TempDir;
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{Instant, sleep},
};

use crate::{engine::Engine, support::BINARY};

/// A worker that is attached to an engine, in a folder of its own.
pub(crate) struct Attached {
    process: Process,
    home: TempDir,
}

impl Attached {
    /// Starts it and waits until it serves.
    pub(crate) async fn to(engine: &Engine) -> Self {
        let attached = Self::spawn(&engine.url(), "");
        serves(&engine.worker().await).await;
        attached
    }

    /// The same with a configuration file.
    pub(crate) async fn configured(engine: &Engine, config: &str) -> Self {
        let attached = Self::spawn(&engine.url(), config);
        serves(&engine.worker().await).await;
        attached
    }

    /// Only starts it.
    pub(crate) fn spawn(url: &str, config: &str) -> Self {
        Self::with(config, |command| {
            command.args(["--url", url]);
        })
    }

    /// Starts it with arguments and variables of the caller's choice.
    pub(crate) fn with(config: &str, change: impl FnOnce(&mut Command)) -> Self {
        let home = tempfile::tempdir().unwrap();
        if !config.is_empty() {
            fs::write(home.path().join("config.yaml"), config).unwrap();
        }
        Self::at(home, change)
    }

    /// Starts it in a folder that is there already.
    pub(crate) fn at(home: TempDir, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = program(BINARY);
        command.current_dir(home.path());
        change(&mut command);
        Self { process: Process::start(&mut command), home }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn log(&self) -> &Transcript {
        &self.process.stderr
    }

    /// Waits until it says something on stderr.
    pub(crate) async fn says(&self, words: &str) {
        eventually(words, async || self.log().so_far().contains(words)).await;
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.home.path().join("data")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Asks it to stop and waits until it has; its folder is left.
    pub(crate) async fn stop(self) -> (TempDir, String) {
        self.signal("TERM");
        let (home, code, said) = self.ended().await;
        assert_eq!(code, Some(0), "{said}");
        (home, said)
    }

    /// Waits for its end: its exit code and what it said.
    pub(crate) async fn ended(self) -> (TempDir, Option<i32>, String) {
        let Self { process, home } = self;
        let (code, said) = tokio::task::spawn_blocking(move || process.wait()).await.unwrap();
        (home, code, said)
    }
}

/// Waits until a registry answers on the engine.
pub(crate) async fn serves(worker: &Worker) {
    eventually("skills::list is served", async || {
        worker.call("skills::list", json!({})).await.is_ok()
    })
    .await;
}

/// Waits until nobody serves a registry on the engine.
pub(crate) async fn serves_no_more(worker: &Worker) {
    eventually("skills::list is gone", async || {
        worker.call("skills::list", json!({})).await.is_err()
    })
    .await;
}

/// Waits for a condition.
pub(crate) async fn eventually(what: &str, holds: impl AsyncFnMut() -> bool) {
    within(DEADLINE, what, holds).await;
}

/// The same with a deadline of its own.
pub(crate) async fn within(time: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < time, "not in time: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Checks a condition over and over for a while.
pub(crate) async fn holds_for(time: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while started.elapsed() < time {
        assert!(holds().await, "no longer: {what}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// What a subscriber hears next, without what an engine adds.
pub(crate) async fn hears(heard: &mut UnboundedReceiver<Value>) -> Value {
    cleaned(next(heard).await)
}

pub(crate) fn cleaned(mut payload: Value) -> Value {
    if let Some(fields) = payload.as_object_mut() {
        fields.remove("_caller_worker_id");
    }
    payload
}

pub(crate) fn registered(id: &str) -> Value {
    json!({ "op": "register", "id": id })
}

pub(crate) fn unregistered(id: &str) -> Value {
    json!({ "op": "unregister", "id": id })
}

/// A worker that hears of changes of skills, and where it hears of them.
pub(crate) async fn subscriber(engine: &Engine) -> (Worker, UnboundedReceiver<Value>) {
    let worker = engine.worker().await;
    let heard = worker.collect("me::heard").await;
    worker.subscribe("skills::on-change", "me::heard", json!({})).await;
    bound(&worker, 1).await;
    (worker, heard)
}

/// Waits until the process under test has taken the subscription: a change made after that is heard of.
/// The engine passes it on before it passes on the call that follows.
pub(crate) async fn bound(worker: &Worker, times: usize) {
    for _ in 0..times {
        worker.ok("skills::list", json!({})).await;
    }
}
