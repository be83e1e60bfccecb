//! What every test here starts with: a server on free ports with a data directory of its own.

#![allow(dead_code, reason = "not every test needs all of it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use skills_testkit::{CallFailure, Server, Worker};
use tempfile::TempDir;

/// The program under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_skills");

/// A server and its data. The server ends before the data goes.
pub(crate) struct Home {
    pub(crate) server: Server,
    dir: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// With more arguments.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start_with(BINARY, &dir.path().join("data"), arguments);
        Self { server, dir }
    }

    /// A server that was started in some other way.
    pub(crate) fn of(server: Server, dir: TempDir) -> Self {
        Self { server, dir }
    }

    /// With a configuration file.
    pub(crate) fn configured(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        fs::write(&path, config).unwrap();
        let arguments = ["--config", path.to_str().unwrap()];
        let server = Server::start_with(BINARY, &dir.path().join("data"), &arguments);
        Self { server, dir }
    }

    pub(crate) async fn worker(&self) -> Worker {
        Worker::connect(&self.server.url).await
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A place for files of the test's own.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Kills the server and starts another on the same data.
    pub(crate) fn crash(self) -> Self {
        let Self { server, dir } = self;
        server.kill();
        let server = Server::start(BINARY, &dir.path().join("data"));
        Self { server, dir }
    }

    /// Stops the server in good order and starts another on the same data.
    pub(crate) fn restart(self) -> Self {
        self.server.signal("TERM");
        self.restart_when_stopped()
    }

    /// Starts another server on the same data when this one, which was told to stop, has done so.
    pub(crate) fn restart_when_stopped(self) -> Self {
        let Self { server, dir } = self;
        let (code, _, said) = server.wait();
        assert_eq!(code, Some(0), "{said}");
        let server = Server::start(BINARY, &dir.path().join("data"));
        Self { server, dir }
    }
}

/// Registers a skill and returns when that was.
pub(crate) async fn register(worker: &Worker, id: &str, body: &str) -> String {
    let answer = worker.ok("skills::register", json!({ "id": id, "skill": body })).await;
    answer["registered_at"].as_str().unwrap().to_owned()
}

/// The ids in a listing, in its order.
pub(crate) async fn ids(worker: &Worker) -> Vec<String> {
    let list = worker.ok("skills::list", json!({})).await;
    let id = |row: &Value| row["id"].as_str().unwrap().to_owned();
    list["skills"].as_array().unwrap().iter().map(id).collect()
}

/// The text that a URI names.
pub(crate) async fn read(worker: &Worker, uri: &str) -> String {
    let answer = worker.ok("skills::resources-read", json!({ "uri": uri })).await;
    answer["contents"][0]["text"].as_str().unwrap().to_owned()
}

/// What reading a URI fails with.
pub(crate) async fn read_fails(worker: &Worker, uri: &str) -> CallFailure {
    worker.fails("skills::resources-read", json!({ "uri": uri })).await
}

/// The keys of an object, sorted.
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Whether a text is a moment in RFC 3339, in UTC, to the microsecond.
pub(crate) fn is_moment(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    shape == "9999-99-99T99:99:99.999999Z" && text.starts_with("20")
}
