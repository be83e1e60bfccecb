//! The binary as a worker attached to an engine.

use std::{fs, path::PathBuf, process::Command};

use serde_json::{Value, json};
use skills_testkit::{Process, Transcript, Worker, next, program};
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::support::{BINARY, engine::TestEngine, wait::eventually};

/// Attached worker with its own working directory.
pub(crate) struct AttachedWorker {
    process: Process,
    dir: TempDir,
}

impl AttachedWorker {
    /// Starts a worker and waits until it serves.
    pub(crate) async fn start(engine: &TestEngine) -> Self {
        let attached = Self::spawn(&engine.url(), "");
        wait_until_serving(&engine.worker().await).await;
        attached
    }

    /// Starts a worker with a configuration file and waits until it serves.
    pub(crate) async fn with_config(engine: &TestEngine, config: &str) -> Self {
        let attached = Self::spawn(&engine.url(), config);
        wait_until_serving(&engine.worker().await).await;
        attached
    }

    /// Starts a worker without waiting.
    pub(crate) fn spawn(url: &str, config: &str) -> Self {
        Self::spawn_with(config, |command| {
            command.args(["--url", url]);
        })
    }

    /// Starts a worker with arguments and variables set by `change`.
    pub(crate) fn spawn_with(config: &str, change: impl FnOnce(&mut Command)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        if !config.is_empty() {
            fs::write(dir.path().join("config.yaml"), config).unwrap();
        }
        Self::spawn_in(dir, change)
    }

    /// Starts a worker in an existing folder.
    pub(crate) fn spawn_in(dir: TempDir, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = program(BINARY);
        command.current_dir(dir.path()).env("XDG_DATA_HOME", dir.path());
        change(&mut command);
        Self { process: Process::start(&mut command), dir }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn log(&self) -> &Transcript {
        &self.process.stderr
    }

    /// Waits for words on stderr.
    pub(crate) async fn says(&self, words: &str) {
        eventually(words, async || self.log().contents().contains(words)).await;
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("skills")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Stops the worker and returns its folder and stderr.
    pub(crate) async fn stop(self) -> (TempDir, String) {
        self.signal("TERM");
        let (dir, code, output) = self.ended().await;
        assert_eq!(code, Some(0), "{output}");
        (dir, output)
    }

    /// Waits for the end of the process. Returns folder, exit code and stderr.
    pub(crate) async fn ended(self) -> (TempDir, Option<i32>, String) {
        let Self { process, dir } = self;
        let (code, output) = tokio::task::spawn_blocking(move || process.wait()).await.unwrap();
        (dir, code, output)
    }
}

/// Waits until a registry answers on the engine and all its registrations have arrived there: the trigger type of
/// prompts is the last of a first connection, `skills::yank` of a later one.
pub(crate) async fn wait_until_serving(worker: &Worker) {
    eventually("the registry is served", async || {
        let types = worker.ok("engine::trigger-types::list", json!({})).await;
        let functions = worker.ok("engine::functions::list", json!({})).await;
        types.to_string().contains("\"prompts::on-change\"")
            && functions.to_string().contains("\"skills::yank\"")
            && worker.call("skills::list", json!({})).await.is_ok()
    })
    .await;
}

/// Waits until no registry answers on the engine.
pub(crate) async fn wait_until_not_serving(worker: &Worker) {
    eventually("skills::list is gone", async || {
        worker.call("skills::list", json!({})).await.is_err()
    })
    .await;
}

/// Returns the next event of a subscriber without the caller id that an engine adds.
pub(crate) async fn next_event(received: &mut UnboundedReceiver<Value>) -> Value {
    without_caller_id(next(received).await)
}

pub(crate) fn without_caller_id(mut payload: Value) -> Value {
    if let Some(fields) = payload.as_object_mut() {
        fields.remove("_caller_worker_id");
    }
    payload
}

pub(crate) fn register_event(id: &str) -> Value {
    json!({ "op": "register", "id": id })
}

pub(crate) fn unregister_event(id: &str) -> Value {
    json!({ "op": "unregister", "id": id })
}

/// Connects a worker subscribed to skill changes, and returns the channel of its events.
pub(crate) async fn subscriber(engine: &TestEngine) -> (Worker, UnboundedReceiver<Value>) {
    let worker = engine.worker().await;
    let received = worker.collect("me::heard").await;
    worker.subscribe("skills::on-change", "me::heard", json!({})).await;
    wait_until_bound(&worker, 1).await;
    (worker, received)
}

/// Waits until the process under test has the subscription. The engine forwards it before the calls made here.
pub(crate) async fn wait_until_bound(worker: &Worker, times: usize) {
    for _ in 0..times {
        worker.ok("skills::list", json!({})).await;
    }
}
