//! Fixtures of all integration tests: [`TestServer`] runs the real binary on free ports with its own data directory.
//!
//! - `admin`: requests with keys and administrators' secrets
//! - `attached`, `engine`, `state_worker_bus`, `proxy`: an attached worker, a test engine with its state worker, and a
//!   faulty network between them
//! - `mcp_clients`, `acp_client`: protocol clients written by hand
//! - `static_site`: files and repositories over HTTP
//! - `store`: store and vault of a data directory, opened by the test itself
//! - `terminal`: the program on a pseudo-terminal
//! - `upstream`: the server that tools call
//! - `wait`: polling with deadlines
//! - `child`: a test that needs a process of its own

pub(crate) mod acp_client;
pub(crate) mod admin;
pub(crate) mod attached;
pub(crate) mod child;
pub(crate) mod engine;
pub(crate) mod mcp_clients;
pub(crate) mod proxy;
pub(crate) mod state_worker_bus;
pub(crate) mod static_site;
pub(crate) mod store;
pub(crate) mod terminal;
pub(crate) mod upstream;
pub(crate) mod wait;

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU16, Ordering},
};

use serde_json::{Value, json};
use skills_testkit::{CallFailure, ServerProcess, Worker, program};
use tempfile::TempDir;

/// Path of the binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_skills");

/// A server process and its data directory. Dropping it ends the process before it removes the data.
pub(crate) struct TestServer {
    pub(crate) process: ServerProcess,
    dir: TempDir,
}

impl TestServer {
    pub(crate) fn new() -> Self {
        Self::with_args(&[])
    }

    /// Starts a server with additional arguments.
    pub(crate) fn with_args(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let process = ServerProcess::start_with(BINARY, &dir.path().join("data"), arguments);
        Self { process, dir }
    }

    /// Starts a server with a configuration file.
    pub(crate) fn with_config(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        fs::write(&path, config).unwrap();
        let arguments = ["--config", path.to_str().unwrap()];
        let process = ServerProcess::start_with(BINARY, &dir.path().join("data"), &arguments);
        Self { process, dir }
    }

    /// Wraps a process that the test started itself.
    pub(crate) fn from_parts(process: ServerProcess, dir: TempDir) -> Self {
        Self { process, dir }
    }

    pub(crate) async fn worker(&self) -> Worker {
        Worker::connect(&self.process.url).await
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Parent of the data directory, free for files of the test.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Kills the server and starts another on the same data.
    pub(crate) fn crash(self) -> Self {
        let Self { process, dir } = self;
        process.kill();
        Self { process: ServerProcess::start(BINARY, &dir.path().join("data")), dir }
    }

    /// Stops the server cleanly and starts another on the same data.
    pub(crate) fn restart(self) -> Self {
        self.restart_after(|| {})
    }

    /// Stops the server cleanly, changes its data, and starts another on it.
    pub(crate) fn restart_after(self, change: impl FnOnce()) -> Self {
        self.process.signal("TERM");
        self.restart_when_stopped(change)
    }

    /// Waits until a server that was told to stop has done so, changes its data, and starts another on it.
    pub(crate) fn restart_when_stopped(self, change: impl FnOnce()) -> Self {
        let Self { process, dir } = self;
        let (code, _, stderr) = process.wait();
        assert_eq!(code, Some(0), "{stderr}");
        change();
        Self { process: ServerProcess::start(BINARY, &dir.path().join("data")), dir }
    }
}

/// Returns a free address for a server that starts later. It lies below the range from which the system picks
/// ports, so that no other test gets it meanwhile.
pub(crate) fn free_address() -> SocketAddr {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 10_000).unwrap();
    let mut ports = (0..10_000).map(|_| {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        20_000 + (start + tried) % 10_000
    });
    let is_free = |port: u16| {
        let listener = TcpListener::bind(("127.0.0.1", port)).ok()?;
        Some(listener.local_addr().unwrap())
    };
    ports.find_map(is_free).unwrap()
}

/// Starts a server with its bus at a given address.
pub(crate) fn serve_at(bus: &str, data_dir: &Path) -> ServerProcess {
    let mut command = program(BINARY);
    command.args(["serve", "--bus", bus, "--http", "127.0.0.1:0", "--data-dir"]).arg(data_dir);
    ServerProcess::spawn(&mut command)
}

/// Registers a skill and returns its timestamp.
pub(crate) async fn register(worker: &Worker, id: &str, body: &str) -> String {
    let answer = worker.ok("skills::register", json!({ "id": id, "skill": body })).await;
    answer["registered_at"].as_str().unwrap().to_owned()
}

/// Returns the ids of `skills::list` in order.
pub(crate) async fn ids(worker: &Worker) -> Vec<String> {
    let list = worker.ok("skills::list", json!({})).await;
    let id = |row: &Value| row["id"].as_str().unwrap().to_owned();
    list["skills"].as_array().unwrap().iter().map(id).collect()
}

/// Reads the text of a URI.
pub(crate) async fn read(worker: &Worker, uri: &str) -> String {
    let answer = worker.ok("skills::resources-read", json!({ "uri": uri })).await;
    answer["contents"][0]["text"].as_str().unwrap().to_owned()
}

/// Reads a URI, which must fail, and returns the error.
pub(crate) async fn read_error(worker: &Worker, uri: &str) -> CallFailure {
    worker.fails("skills::resources-read", json!({ "uri": uri })).await
}

/// Returns the keys of an object, sorted.
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Checks for a timestamp in RFC 3339, in UTC, with microseconds.
pub(crate) fn is_timestamp(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    shape == "9999-99-99T99:99:99.999999Z" && text.starts_with("20")
}
