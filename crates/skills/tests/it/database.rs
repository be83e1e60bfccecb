//! Servers on a database. Those that need one run if `SKILLS_TEST_STORE` names it.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::json;
use skills_testkit::{Process, Request, ServerProcess, execute_sql, program, run};

use crate::{
    attach::settings::status,
    support::{
        BINARY,
        attached::AttachedWorker,
        engine::TestEngine,
        free_address, ids,
        mcp_clients::{Pipe, Stateless},
        proxy::Proxy,
        read, register,
        wait::eventually,
    },
};

/// Database that nothing listens for.
const UNREACHABLE: &str = "postgres://ann:s3cret-word@127.0.0.1:1/none";

#[test]
fn a_server_waits_for_its_database_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = ServerProcess::command(BINARY, dir.path());
    let process = Process::start(command.env("SKILLS_STORE", UNREACHABLE).stdin(Stdio::null()));
    let said = process.stderr.wait_for("/readyz");
    let address = said.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let http = format!("http://{address}");
    let ready = Request::get("/readyz").send(&http);
    assert_eq!(ready.refusal().0, 503);
    assert_eq!(ready.json()["reason"], json!("the database cannot be reached"));
    assert_eq!(Request::get("/healthz").send(&http).json(), json!({ "status": "ok" }));
    process.signal("TERM");
    let (code, said) = process.wait();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("s3cret-word"), "{said}");
}

/// Starts a server whose database cannot be reached. Returns it with its address of HTTP.
fn waiting_server(bus: SocketAddr) -> (Process, String) {
    let mut command = program(BINARY);
    command.args(["serve", "--bus", &bus.to_string(), "--http", "127.0.0.1:0"]);
    let process = Process::start(command.env("SKILLS_STORE", UNREACHABLE));
    let said = process.stderr.wait_for("/readyz");
    let address = said.split("http://").nth(1).unwrap().split('/').next().unwrap();
    (process, format!("http://{address}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_an_engine_waits_for_its_database_and_says_so() {
    let engine = TestEngine::start().await;
    let (url, address) = (engine.url(), free_address());
    let worker = AttachedWorker::spawn_with(&format!("http: {address}\n"), |command| {
        command.args(["--url", &url]).env("SKILLS_STORE", UNREACHABLE);
    });
    eventually("it waits", async || status(address, "/readyz") == Some(503)).await;
    assert_eq!(status(address, "/healthz"), Some(200));
    worker.stop().await;
}

#[tokio::test]
async fn a_server_that_waits_for_its_database_refuses_workers_and_says_why() {
    let address = free_address();
    let (server, _) = waiting_server(address);
    let url = format!("ws://{address}");
    let ran = run(program(BINARY).args(["list", "--json", "--url", &url]));
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["error"]["code"], "store_unavailable", "{error}");
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("starting") && message.contains(&url), "{error}");
    server.signal("TERM");
    assert_eq!(server.wait().0, Some(0));
}

#[tokio::test]
async fn a_surface_without_its_database_starts_and_refuses_requests() {
    let mut pipe = Pipe::session(&["--store", UNREACHABLE], "2025-11-25").await;
    let mut listed = json!(null);
    eventually("requests are refused", async || {
        listed = pipe.ask("resources/list", &json!({})).await;
        !listed["error"].is_null()
    })
    .await;
    assert_eq!(listed["error"]["data"]["code"], "store_unavailable", "{listed}");
    assert!(!listed.to_string().contains("s3cret-word"), "{listed}");
    let called = json!({ "name": "read", "arguments": { "uri": "iii://skills" } });
    let called = pipe.ask("tools/call", &called).await;
    assert!(called.to_string().contains("store_unavailable"), "{called}");
    pipe.hang_up();
    assert_eq!(pipe.ended().await.0, Some(0));
}

#[test]
fn a_command_that_watches_waits_for_its_database() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap();
    for arguments in [["add", "--watch", folder], ["sync", "--watch", folder]] {
        let mut command = program(BINARY);
        command.args(arguments).args(["--store", UNREACHABLE]).current_dir(dir.path());
        let process = Process::start(&mut command);
        process.stderr.wait_for("waiting");
        // Tried again at least once.
        process.stderr.wait_for("trying again");
        process.signal("TERM");
        let (code, said) = process.wait();
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
        assert!(!said.contains("s3cret-word"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_surface_and_a_server_go_on_when_their_database_is_there() {
    let Some(store) = test_store("late") else { return };
    let address = store.split_once("://").unwrap().1.split('/').next().unwrap();
    let address = address.rsplit('@').next().unwrap().to_owned();
    let proxy = Proxy::start(address.parse().unwrap()).await;
    proxy.open(false);
    let store = store.replace(&address, &proxy.address.to_string());
    let mut pipe = Pipe::session(&["--store", &store], "2025-11-25").await;
    let bus = free_address();
    let mut command = program(BINARY);
    command.args(["serve", "--bus", &bus.to_string(), "--http", "127.0.0.1:0"]);
    let server = Process::start(command.env("SKILLS_STORE", &store));
    server.stderr.wait_for("/readyz");
    eventually("requests are refused", async || {
        !pipe.ask("resources/list", &json!({})).await["error"].is_null()
    })
    .await;
    proxy.open(true);
    server.stderr.wait_for("is serving");
    let worker = skills_testkit::Worker::connect(&format!("ws://{bus}")).await;
    register(&worker, "late", "# Late\n\nBetter than never.").await;
    eventually("the surface lists it", async || {
        let listed = pipe.ask("resources/list", &json!({})).await;
        listed.to_string().contains("iii://late")
    })
    .await;
    server.signal("TERM");
    assert_eq!(server.wait().0, Some(0));
}

/// Returns the message and the hint of a command that fails on a store, and nothing else.
fn refusal(arguments: &[&str], store: &str) -> String {
    let mut command = program(BINARY);
    command.args(arguments).env("SKILLS_STORE", store).env_remove("PGPASSWORD");
    let ran = run(&mut command);
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(
        matches!(lines[..], [error, hint] if error.starts_with("error: ") && hint.starts_with("hint: ")),
        "{lines:?}"
    );
    ran.stderr
}

#[tokio::test]
async fn a_refusal_of_the_database_is_told_once_with_what_to_correct() {
    let Some(store) = test_store("refused") else { return };
    let role = format!("e2e_{}", std::process::id());
    execute_sql(&format!("CREATE ROLE {role} LOGIN")).await;
    let user = store.replace("skills@", &format!("{role}@"));
    let said = refusal(&["list"], &user);
    execute_sql(&format!("DROP ROLE {role}")).await;
    assert!(said.contains("hint: grant CREATE on the database"), "{said}");
    let (base, _) = store.split_once('?').unwrap();
    let said = refusal(&["list"], &format!("{base}?sslmode=verify-ca&sslrootcert=/nope"));
    assert!(said.contains("sslrootcert"), "{said}");
    let said = refusal(&["list"], &format!("{store}&target_session_attrs=standby"));
    assert!(said.contains("correct its target_session_attrs"), "{said}");
    // Creates the tables.
    assert_eq!(run(program(BINARY).args(["list", "--store", &store])).code, Some(0));
    let dir = tempfile::tempdir().unwrap();
    let file = skill_file(dir.path(), "one");
    let read_only = format!("{store}%20-c%20default_transaction_read_only%3Don");
    let said = refusal(&["add", file.to_str().unwrap()], &read_only);
    assert!(said.contains("read-only"), "{said}");
}

#[test]
fn a_setting_without_effect_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.yaml");
    std::fs::write(&config, "store: {max_stale: 30s}\n").unwrap();
    let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
    let server = ServerProcess::spawn(command.arg("--config").arg(&config).env("SKILLS_STORE", ""));
    server.stderr.wait_for("store.max_stale has no effect without a database");
}

/// Skill to add, in a folder of its own.
fn skill_file(dir: &Path, id: &str) -> PathBuf {
    let path = dir.join(format!("{id}.md"));
    std::fs::write(&path, format!("# {id}\n\nText.\n")).unwrap();
    path
}

#[test]
fn a_directory_that_is_named_precedes_a_database_that_is_only_configured() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), skill_file(dir.path(), "local"));
    std::fs::write(dir.path().join("config.yaml"), format!("store: {{url: '{UNREACHABLE}'}}\n"))
        .unwrap();
    let skills = |arguments: &[&str], store: &str| {
        let mut command = program(BINARY);
        command.args(arguments).arg("--json").current_dir(dir.path());
        run(command.env("SKILLS_STORE", store))
    };
    let data = data.to_str().unwrap();
    let added = skills(&["add", file.to_str().unwrap(), "--data-dir", data], UNREACHABLE);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    for store in ["", UNREACHABLE] {
        let listed = skills(&["list", "--data-dir", data], store);
        assert!(listed.stdout.contains("\"local\""), "{store}: {}", listed.stderr);
        let created = skills(&["key", "create", "--uid", "ann", "--data-dir", data], store);
        assert_eq!(created.code, Some(0), "{store}: {}", created.stderr);
        let listed = skills(&["list"], store);
        assert!(listed.stderr.contains("store_unavailable"), "{store}: {}", listed.stderr);
    }
    // The database precedes a directory of the environment, and as a flag also one of a flag.
    let mut command = program(BINARY);
    command.args(["list", "--json"]).current_dir(dir.path()).env("SKILLS_DATA_DIR", data);
    let listed = run(command.env("SKILLS_STORE", UNREACHABLE));
    assert!(listed.stderr.contains("store_unavailable"), "{}", listed.stderr);
    let listed = skills(&["list", "--data-dir", data, "--store", UNREACHABLE], "");
    assert!(listed.stderr.contains("store_unavailable"), "{}", listed.stderr);
}

#[test]
fn an_update_of_a_named_database_is_not_one_of_the_lockfile() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("skills-lock.json"), r#"{"version": 1, "skills": {}}"#).unwrap();
    let update = |flags: &[&str], store: &str| {
        let mut command = program(BINARY);
        command.args(["update", "--json"]).args(flags).current_dir(dir.path());
        run(command.env("SKILLS_STORE", store))
    };
    let updated = update(&[], UNREACHABLE);
    assert_eq!(updated.code, Some(0), "{}", updated.stderr);
    let updated = update(&["--store", UNREACHABLE], "");
    assert!(updated.stderr.contains("store_unavailable"), "{}", updated.stderr);
}

#[test]
fn a_server_on_a_database_leaves_the_registry_of_its_data_directory_alone() {
    let Some(store) = test_store("beside") else { return };
    let home = tempfile::tempdir().unwrap();
    let command = |arguments: &[&str], store: &str| {
        let mut command = program(BINARY);
        command.args(arguments).current_dir(home.path()).env("SKILLS_STORE", store);
        command.env("HOME", home.path()).env_remove("XDG_DATA_HOME");
        command
    };
    let serve = |store: &str| {
        let ports = ["serve", "--bus", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        ServerProcess::spawn(&mut command(&ports, store))
    };
    let ids = |store: &str| {
        let listed = run(&mut command(&["list", "--json"], store));
        assert_eq!(listed.code, Some(0), "{}", listed.stderr);
        let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
        let ids = listed["skills"].as_array().unwrap().iter();
        ids.map(|skill| skill["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let add = |id: &str, store: &str| {
        let path = skill_file(home.path(), id);
        let added = run(&mut command(&["add", path.to_str().unwrap()], store));
        assert_eq!(added.code, Some(0), "{}", added.stderr);
    };
    let embedded = serve("");
    add("one", "");
    let (shared, other) = (serve(&store), serve(&store));
    add("two", "");
    add("three", &store);
    assert_eq!(ids(""), ["one", "two"]);
    assert_eq!(ids(&store), ["three"]);
    let said = run(&mut command(&["list", "-v"], "")).stderr;
    assert!(said.contains("through the process that has it open"), "{said}");
    let said = run(&mut command(&["list", "-v"], &store)).stderr;
    assert!(said.contains("the database postgres://"), "{said}");
    // Lines are imported into the database, too.
    let lines = home.path().join("lines");
    let exported = run(&mut command(&["export", "--kv"], &store));
    assert!(exported.stdout.contains("three") && !exported.stdout.contains("two"));
    std::fs::write(&lines, exported.stdout.replace("three", "four")).unwrap();
    let imported = run(&mut command(&["import", lines.to_str().unwrap()], &store));
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    assert_eq!(ids(""), ["one", "two"]);
    assert_eq!(ids(&store), ["four", "three"]);
    for server in [shared, other] {
        assert_eq!(server.stop().0, Some(0));
        assert_eq!(
            (ids(""), ids(&store)),
            (vec!["one".into(), "two".into()], vec!["four".into(), "three".into()])
        );
    }
    assert_eq!(embedded.stop().0, Some(0));
    // The database needs no directory.
    let away = tempfile::tempdir().unwrap();
    let ports = ["serve", "--bus", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let mut alone = command(&ports, &store);
    let alone = ServerProcess::spawn(alone.env("HOME", away.path()));
    assert_eq!(std::fs::read_dir(away.path()).unwrap().count(), 0);
    drop(alone);
}

#[test]
fn a_command_fails_if_its_database_cannot_be_reached() {
    let ran = run(program(BINARY).args(["list", "--json", "--store", UNREACHABLE]));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("store_unavailable"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("s3cret-word"), "{}", ran.stderr);
}

#[test]
fn an_unusable_url_is_refused_without_its_password() {
    for url in ["mysql://ann:s3cret-word@h/x", "postgres://ann:s3cret-word@h/x?sslmode=sure"] {
        let ran = run(program(BINARY).args(["list", "--store", url]));
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("--store"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("s3cret-word"), "{}", ran.stderr);
    }
}

#[test]
fn a_copy_needs_stores_that_exist() {
    let dir = tempfile::tempdir().unwrap();
    let from = format!("sqlite:{}", dir.path().join("none").display());
    let ran = run(program(BINARY).args(["store", "copy", "--from", &from, "--to", UNREACHABLE]));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let ran = run(program(BINARY).args(["store", "copy", "--from", "here", "--to", UNREACHABLE]));
    assert!(ran.stderr.contains("--from"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("s3cret-word"), "{}", ran.stderr);
}

#[test]
fn doctor_checks_the_database_of_the_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.yaml");
    let text = format!("store:\n  mode: auto\n  url: {UNREACHABLE}\n  max_stale: 30s\n");
    std::fs::write(&config, text).unwrap();
    let mut command = program(BINARY);
    command.args(["doctor", "--json", "--config"]).arg(&config).current_dir(dir.path());
    let ran = run(command.env_remove("SKILLS_STORE"));
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.code, Some(1), "{said}");
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let checks = found["checks"].as_array().unwrap();
    let store = checks.iter().find(|check| check["check"] == "store").unwrap();
    assert_eq!(store["outcome"], "problem", "{store}");
    assert!(store["message"].as_str().unwrap().contains("database"), "{store}");
    assert!(!said.contains("s3cret-word"), "{said}");
    command.arg("--data-dir").arg(dir.path());
    let found: serde_json::Value = serde_json::from_str(&run(&mut command).stdout).unwrap();
    let checks = found["checks"].as_array().unwrap();
    let store = checks.iter().find(|check| check["check"] == "store").unwrap();
    assert_ne!(store["outcome"], "problem", "the directory that was chosen: {store}");
}

/// Schema of its own in the database of the tests.
fn test_store(name: &str) -> Option<String> {
    let base = std::env::var("SKILLS_TEST_STORE").ok()?;
    let separator = if base.contains('?') { '&' } else { '?' };
    let schema = format!("e2e_{}_{name}", std::process::id());
    Some(format!("{base}{separator}options=-c%20search_path%3D{schema}"))
}

#[tokio::test]
async fn a_change_on_one_server_is_read_and_announced_on_the_other() {
    let Some(store) = test_store("announced") else { return };
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [one, two] = dirs.each_ref().map(|dir| {
        ServerProcess::spawn(ServerProcess::command(BINARY, dir.path()).env("SKILLS_STORE", &store))
    });
    let workers = [
        skills_testkit::Worker::connect(&one.url).await,
        skills_testkit::Worker::connect(&two.url).await,
    ];
    register(&workers[0], "shared", "# Shared\n\nFrom the first.").await;
    eventually("the second server lists it", async || {
        ids(&workers[1]).await.contains(&"shared".to_owned())
    })
    .await;
    assert_eq!(read(&workers[1], "iii://shared").await, "# Shared\n\nFrom the first.");
    let ready = Request::get("/readyz").send(&two.http);
    assert_eq!(ready.json()["status"], json!("ready"));
    // A command uses the database itself.
    let ran = run(program(BINARY).args(["list", "--json"]).env("SKILLS_STORE", &store));
    assert!(ran.stdout.contains("\"shared\""), "{}{}", ran.stdout, ran.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_on_one_engine_serve_the_functions_of_its_workers() {
    let Some(store) = test_store("engine") else { return };
    let engine = TestEngine::start().await;
    let url = engine.url();
    let addresses = [free_address(), free_address()];
    let servers = ["a", "b"].map(|name| {
        let address = addresses[usize::from(name == "b")];
        AttachedWorker::spawn_with(&format!("http: {address}\n"), |command| {
            command.args(["--url", &url, "--store", &store]);
            command.env("III_WORKER_NAME", format!("skills-{name}"));
        })
    });
    for address in addresses {
        eventually("it is ready", async || status(address, "/readyz") == Some(200)).await;
    }
    let worker = engine.worker().await;
    worker.serve("demo::now", |_| Some(Ok(json!("It is noon.")))).await;
    register(&worker, "guide", "# Guide\n\nSee [now](iii://guide/demo::now).").await;
    for address in addresses {
        let mut client = Stateless::new(&format!("http://{address}"));
        let mut answer = json!(null);
        eventually("it has the skill", async || {
            let uri = json!({ "uri": "iii://guide/demo::now" });
            answer = client.ask("resources/read", &uri).await;
            answer["error"].is_null()
        })
        .await;
        assert_eq!(answer["result"]["contents"][0]["text"], json!("It is noon."), "{answer}");
    }
    for server in servers {
        server.stop().await;
    }
}
