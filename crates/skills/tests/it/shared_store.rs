//! One store for several processes: the process that has it open serves the others through its data directory.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use skills_testkit::{CommandOutput, Process, ServerProcess, program, run};
use tempfile::TempDir;

use crate::support::{
    BINARY, TestServer, ids, mcp_clients::Pipe, read, register, wait::eventually,
};

/// Revision of the MCP sessions.
const REVISION: &str = "2025-11-25";

/// A home directory without a store, in which commands run without a network.
struct Home {
    dir: TempDir,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Builds a command that finds no bus at the default address.
    fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let is_allowed =
            run(program("unshare").args(["--map-root-user", "--net", "true"])).code == Some(0);
        let mut command = if is_allowed {
            let mut command = program("unshare");
            command.args(["--map-root-user", "--net", BINARY]);
            command
        } else {
            program(BINARY)
        };
        command.args(arguments).current_dir(folder).env("HOME", self.dir.path());
        command.env_remove("XDG_DATA_HOME");
        command
    }

    fn run(&self, folder: &Path, arguments: &[&str]) -> CommandOutput {
        run(&mut self.command(folder, arguments))
    }

    fn user_dir(&self) -> PathBuf {
        let data =
            if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" };
        self.dir.path().join(data).join("skills")
    }

    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.dir.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }
}

/// Runs a command on a data directory, which must succeed.
fn on(data: &Path, arguments: &[&str]) -> String {
    let ran = run(program(BINARY).arg("--data-dir").arg(data).args(arguments));
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
    ran.stdout
}

/// Registers a document through a command on a data directory.
fn add(data: &Path, id: &str) {
    let file = data.parent().unwrap().join(format!("{id}.md"));
    fs::write(&file, format!("# {id}\n")).unwrap();
    on(data, &["add", file.to_str().unwrap()]);
}

async fn resource(pipe: &mut Pipe, id: &str) -> Value {
    let answer = pipe.ask("resources/read", &json!({ "uri": format!("iii://{id}") })).await;
    answer["result"]["contents"][0]["text"].clone()
}

fn data_dir(dir: &TempDir) -> PathBuf {
    dir.path().join("data")
}

async fn start_mcp(data: &Path) -> Pipe {
    Pipe::session(&["--data-dir", data.to_str().unwrap()], REVISION).await
}

#[test]
fn without_settings_the_user_s_data_folder_is_used_from_every_folder() {
    if skills_testkit::needs_embedded_store("finds the store by its file in ./data") {
        return;
    }
    let home = Home::new();
    let (one, two) = (home.folder("one"), home.folder("two"));
    let ran = home.run(&one, &["list"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("has no store"), "{}", ran.stderr);
    assert!(!home.user_dir().exists(), "nothing was made");
    fs::write(one.join("a.md"), "# A\n").unwrap();
    let ran = home.run(&one, &["add", "a.md"]);
    assert_eq!(ran.stdout, "registered iii://a (4 B)\n", "{}", ran.stderr);
    assert!(home.user_dir().join("skills.db").exists() && !one.join("data").exists());
    let ran = home.run(&two, &["-v", "read", "iii://a"]);
    assert_eq!(ran.stdout, "# A\n", "{}", ran.stderr);
    let dir = home.user_dir().display().to_string();
    assert!(ran.stderr.starts_with("registry: ") && ran.stderr.contains(&dir), "{}", ran.stderr);
    // A store in ./data precedes it, and a folder of that name without a store does not.
    fs::create_dir(two.join("data")).unwrap();
    assert_eq!(home.run(&two, &["read", "iii://a"]).stdout, "# A\n");
    assert_eq!(
        home.run(&two, &["--data-dir", "data", "add", "../one/a.md", "--id", "b"]).code,
        Some(0)
    );
    assert_eq!(home.run(&two, &["read", "iii://a"]).code, Some(1));
    assert_eq!(home.run(&two, &["read", "iii://b"]).stdout, "# A\n");
}

#[test]
fn commands_reach_a_server_through_its_data_directory_without_its_token() {
    if skills_testkit::needs_embedded_store("shares the file through a socket") {
        return;
    }
    let server = TestServer::with_args(&["--token", "the-token-of-the-bus"]);
    let data = server.data_dir();
    let mode = fs::metadata(data.join("skills.sock")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    add(&data, "one");
    assert_eq!(on(&data, &["read", "iii://one"]), "# one\n");
    let key = on(&data, &["key", "create", "--uid", "ann"]);
    let ran = run(program(BINARY)
        .args(["-v", "list", "--json", "--data-dir"])
        .arg(&data)
        .env("SKILLS_KEY", key.trim()));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("through the process that has it open"), "{}", ran.stderr);
    let (code, _, output) = server.process.stop();
    assert_eq!(code, Some(0), "{output}");
    assert!(!data.join("skills.sock").exists());
}

#[test]
fn a_killed_server_leaves_a_socket_that_is_replaced() {
    if skills_testkit::needs_embedded_store("shares the file through a socket") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = data_dir(&dir);
    ServerProcess::start(BINARY, &data).kill();
    let server = ServerProcess::start(BINARY, &data);
    add(&data, "two");
    server.kill();
    assert!(data.join("skills.sock").exists());
    assert_eq!(on(&data, &["read", "iii://two"]), "# two\n", "opened by the command itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_runs_mcp_locks_no_command_out() {
    if skills_testkit::needs_embedded_store("shares the file through a socket") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = data_dir(&dir);
    let mut host = start_mcp(&data).await;
    host.ask("resources/list", &json!({})).await;
    add(&data, "one");
    let message = host.message().await;
    assert_eq!(message["method"], "notifications/resources/list_changed", "{message}");
    assert_eq!(resource(&mut host, "one").await, "# one\n");
    assert!(on(&data, &["list"]).contains("one"));
    host.hang_up();
    assert_eq!(host.ended().await.0, Some(0));
    assert!(!data.join("skills.sock").exists());
    assert_eq!(on(&data, &["read", "iii://one"]), "# one\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hosts_share_a_store_and_the_second_takes_over() {
    if skills_testkit::needs_embedded_store("hands the file over") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = data_dir(&dir);
    let mut first = start_mcp(&data).await;
    first.ask("resources/list", &json!({})).await;
    let mut second = start_mcp(&data).await;
    add(&data, "one");
    assert_eq!(resource(&mut first, "one").await, "# one\n");
    assert_eq!(resource(&mut second, "one").await, "# one\n");
    // As a host does that crashes.
    let pid = first.pid().to_string();
    assert!(Command::new("kill").args(["-s", "KILL", &pid]).status().unwrap().success());
    first.ended().await;
    assert_eq!(resource(&mut second, "one").await, "# one\n", "the next request");
    add(&data, "two");
    eventually("the new skill", async || resource(&mut second, "two").await == "# two\n").await;
    let mut third = start_mcp(&data).await;
    assert_eq!(resource(&mut third, "two").await, "# two\n");
    // As a host does that is closed.
    second.hang_up();
    assert_eq!(second.ended().await.0, Some(0));
    add(&data, "three");
    eventually("the third", async || resource(&mut third, "three").await == "# three\n").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_takes_the_store_over_from_a_host() {
    if skills_testkit::needs_embedded_store("hands the file over") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = data_dir(&dir);
    let mut host = start_mcp(&data).await;
    host.ask("resources/list", &json!({})).await;
    add(&data, "one");
    let process = ServerProcess::start(BINARY, &data);
    let server = TestServer::from_parts(process, dir);
    let worker = server.worker().await;
    assert_eq!(ids(&worker).await, ["one"]);
    register(&worker, "two", "# From a worker\n").await;
    eventually("the worker's skill", async || {
        resource(&mut host, "two").await == "# From a worker\n"
    })
    .await;
    assert_eq!(read(&worker, "iii://one").await, "# one\n");
    // A second server gets no store from the first.
    let ran = run(&mut ServerProcess::command(BINARY, &data));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("in use by another process"), "{}", ran.stderr);
    let (code, _, output) = server.process.stop();
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(resource(&mut host, "two").await, "# From a worker\n", "the host has it again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_shares_the_store_that_it_has_open() {
    let dir = tempfile::tempdir().unwrap();
    let (data, folder) = (data_dir(&dir), dir.path().join("folder"));
    fs::create_dir(&folder).unwrap();
    let mut command = program(BINARY);
    command.args(["add", "--watch"]).arg(&folder).arg("--data-dir").arg(&data);
    let watch = Process::start(&mut command);
    watch.stderr.wait_for("watching ");
    add(&data, "one");
    assert!(on(&data, &["list"]).contains("one"));
    let server = TestServer::from_parts(ServerProcess::start(BINARY, &data), dir);
    let worker = server.worker().await;
    fs::create_dir(folder.join("two")).unwrap();
    let document = "---\nname: two\ndescription: Two.\n---\n# Two\n";
    fs::write(folder.join("two/SKILL.md"), document).unwrap();
    eventually("the watched skill", async || ids(&worker).await == ["one", "two"]).await;
    watch.signal("TERM");
    assert_eq!(watch.wait().0, Some(0));
}

#[test]
fn a_key_for_a_directory_without_a_server_says_so() {
    if skills_testkit::needs_embedded_store("looks for a server on the data directory") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = data_dir(&dir);
    let create =
        || run(program(BINARY).args(["key", "create", "--uid", "ann", "--data-dir"]).arg(&data));
    let ran = create();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("no server runs on"), "{}", ran.stderr);
    let _server = ServerProcess::start(BINARY, &data);
    let ran = create();
    assert!(!ran.stderr.contains("no server runs on"), "{}", ran.stderr);
}
