//! `skills backup`, `skills restore` and `skills store copy` on data directories, also of a running server.

use std::{fs, path::Path};

use rusqlite::{Connection, types::Value as SqlValue};
use serde_json::{Value, json};
use skills_testkit::{CommandOutput, ServerProcess, Worker, program, run, run_with_input};

use crate::support::{BINARY, TestServer, read, register};

/// Reason for which these tests need files. `interop/postgres/moving.py` has those of PostgreSQL.
const REASON: &str = "compares the files of data directories";
const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const UID: &str = "0b8f3a52-6d0f-4c0e-8f0e-3d2f5a1b9c77";

/// Runs a command on a data directory.
fn on(data: &Path, arguments: &[&str]) -> CommandOutput {
    run(program(BINARY).args(arguments).arg("--data-dir").arg(data).env_remove("SKILLS_STORE"))
}

fn json_of(ran: &CommandOutput) -> Value {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn refusal(ran: &CommandOutput) -> String {
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    let said: Value =
        serde_json::from_str(&ran.stderr).unwrap_or_else(|_| panic!("{}", ran.stderr));
    said["error"]["code"].as_str().unwrap().to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Rows of all tables of a data directory, in an order that does not depend on row numbers.
fn contents(data: &Path) -> Vec<(String, Vec<String>)> {
    let queries = [
        ("skills.db", "SELECT * FROM entry"),
        (
            "skills.db",
            "SELECT entry, number, digest, identity, created_at, actor, registered_at, revision, bytes, files, \
             author_version, message, yanked, removal, content FROM version",
        ),
        ("skills.db", "SELECT * FROM label"),
        ("skills.db", "SELECT * FROM change"),
        ("skills.db", "SELECT * FROM state"),
        ("skills.db", "SELECT digest, crc32, bytes FROM blob"),
        (
            "skills.db",
            "SELECT b.digest, v.entry, v.number FROM blob_use u JOIN blob b ON b.number = u.blob \
             JOIN version v ON v.seq = u.version",
        ),
        ("vault.sqlite", "SELECT * FROM key"),
        ("vault.sqlite", "SELECT * FROM profile"),
        ("vault.sqlite", "SELECT * FROM secret"),
        ("vault.sqlite", "SELECT * FROM secret_grant"),
        ("vault.sqlite", "SELECT * FROM search_miss"),
        ("vault.sqlite", "SELECT * FROM audit"),
    ];
    let rows = queries.into_iter().map(|(file, query)| {
        let connection = Connection::open(data.join(file)).unwrap();
        let mut statement = connection.prepare(query).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let values: Result<Vec<SqlValue>, _> = (0..columns).map(|at| row.get(at)).collect();
            Ok(format!("{:?}", values?))
        });
        let mut rows: Vec<String> = rows.unwrap().map(Result::unwrap).collect();
        rows.sort();
        (query.to_owned(), rows)
    });
    rows.collect()
}

/// Server with an entry of every kind.
async fn server_with_content() -> TestServer {
    let server = TestServer::new();
    let worker = server.worker().await;
    for body in ["# One\n\nFirst.", "# One\n\nSecond.", "# One\n\nThird."] {
        register(&worker, "one", body).await;
    }
    register(&worker, "two", "# Two\n\nRemoved later.").await;
    worker.ok("skills::unregister", json!({ "id": "two" })).await;
    let prompt = json!({ "name": "greet", "description": "Greets.", "function_id": "demo::greet" });
    worker.ok("prompts::register", prompt).await;
    let value = json!({ "a": [1, "é", null] });
    worker.ok("state::set", json!({ "scope": "s", "key": "k", "value": value })).await;
    let data = server.data_dir();
    for command in [
        &["label", "one@1", "stable"][..],
        &["collection", "create", "kit"],
        &["collection", "add", "kit", "one@stable"],
        &["key", "create", "--uid", UID, "--label", "laptop"],
    ] {
        let ran = on(&data, command);
        assert_eq!(ran.code, Some(0), "{command:?}: {}", ran.stderr);
    }
    let mut set = program(BINARY);
    set.args(["secret", "set", "--uid", UID, "API_KEY", "--data-dir"]).arg(&data);
    let ran = run_with_input(set.env("MASTER_ENCRYPTION_KEY", MASTER), b"the-value-of-the-secret");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    server
}

#[tokio::test]
async fn a_backup_of_a_running_server_has_everything() {
    if skills_testkit::needs_embedded_store(REASON) {
        return;
    }
    let server = server_with_content().await;
    let data = server.data_dir();
    let file = server.dir().join("backup.skills");
    let written = json_of(&on(&data, &["backup", text(&file), "--json"]));
    assert_eq!(written["file_bytes"], json!(fs::metadata(&file).unwrap().len()));
    let before = contents(&data);
    assert!(before.iter().filter(|(_, rows)| !rows.is_empty()).count() >= 10, "{before:?}");

    let restored = server.dir().join("new/restored");
    let ran = on(&restored, &["restore", text(&file), "--json"]);
    let report = json_of(&ran);
    for field in ["rows", "blobs", "bytes", "revision"] {
        assert_eq!(report[field], written[field], "{field}");
    }
    assert_eq!(contents(&restored), before);
    let left: Vec<_> = fs::read_dir(restored.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");

    // The restored registry is served, and goes on where the other one was.
    let process = ServerProcess::start_with(BINARY, &restored, &[]);
    let worker = Worker::connect(&process.url).await;
    assert_eq!(read(&worker, "iii://one").await, "# One\n\nFirst.", "the version labelled stable");
    assert_eq!(read(&worker, "iii://one@latest").await, "# One\n\nThird.");
    let collection = json_of(&on(&restored, &["collection", "show", "kit", "--json"]));
    assert_eq!(collection["skills"], json!(["one@stable"]));
    let state = worker.ok("state::get", json!({ "scope": "s", "key": "k" })).await;
    assert_eq!(state, json!({ "a": [1, "é", null] }));
    register(&worker, "three", "# Three\n\nNew.").await;
}

#[tokio::test]
async fn a_store_is_copied_with_its_vault() {
    if skills_testkit::needs_embedded_store(REASON) {
        return;
    }
    let server = server_with_content().await;
    let data = server.data_dir();
    let copy = server.dir().join("copy");
    let [from, to] = [&data, &copy].map(|dir| format!("sqlite:{}", dir.display()));
    let arguments = ["store", "copy", "--from", &from, "--to", &to, "--json"];
    json_of(&run(program(BINARY).args(arguments)));
    assert_eq!(contents(&copy), contents(&data));
    assert_eq!(refusal(&run(program(BINARY).args(arguments))), "store_not_empty");
}

#[tokio::test]
async fn a_restore_refuses_damage_and_targets_with_content() {
    if skills_testkit::needs_embedded_store(REASON) {
        return;
    }
    let server = server_with_content().await;
    let data = server.data_dir();
    let file = server.dir().join("backup.skills");
    json_of(&on(&data, &["backup", text(&file), "--json"]));
    let whole = fs::read(&file).unwrap();
    let target = server.dir().join("target");

    let bad = server.dir().join("bad.skills");
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    for damaged in [&whole[..whole.len() / 2], &whole[..whole.len() - 1], &changed, b"", b"other"] {
        fs::write(&bad, damaged).unwrap();
        assert_eq!(refusal(&on(&target, &["restore", text(&bad), "--json"])), "bad_archive");
        assert!(!target.exists(), "nothing is left");
    }
    let missing = server.dir().join("missing.skills");
    assert_eq!(refusal(&on(&target, &["restore", text(&missing), "--json"])), "io");

    // The directory of the server, and one with a file of someone else.
    let before = contents(&data);
    assert_eq!(refusal(&on(&data, &["restore", text(&file), "--json"])), "store_not_empty");
    assert_eq!(contents(&data), before);
    fs::create_dir(&target).unwrap();
    fs::write(target.join("notes.txt"), "mine").unwrap();
    assert_eq!(refusal(&on(&target, &["restore", text(&file), "--json"])), "store_not_empty");
    assert_eq!(fs::read_dir(&target).unwrap().count(), 1);

    // An empty directory, such as a mounted volume, is filled.
    fs::remove_file(target.join("notes.txt")).unwrap();
    json_of(&on(&target, &["restore", text(&file), "--json"]));
    assert_eq!(contents(&target), before);
    let mut names: Vec<_> =
        fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["skills.db", "vault.sqlite"]);
}

#[test]
fn a_backup_replaces_no_file_unasked_and_leaves_none_behind() {
    if skills_testkit::needs_embedded_store(REASON) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("a.skills"));
    // There is no store yet.
    assert_eq!(refusal(&on(&data, &["backup", text(&file), "--json"])), "store_io");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

    fs::create_dir(dir.path().join("hello")).unwrap();
    fs::write(
        dir.path().join("hello/SKILL.md"),
        "---\nname: hello\ndescription: Says hello.\n---\n\n# Hello\n",
    )
    .unwrap();
    assert_eq!(on(&data, &["add", text(&dir.path().join("hello"))]).code, Some(0));
    fs::write(&file, "precious").unwrap();
    assert_eq!(refusal(&on(&data, &["backup", text(&file), "--json"])), "exists");
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    let ran = on(&data, &["backup", text(&file), "--force"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("wrote "), "{}", ran.stdout);

    let folder = dir.path().join("missing/a.skills");
    assert_eq!(refusal(&on(&data, &["backup", text(&folder), "--json"])), "io");
    let url = run(program(BINARY).args(["backup", "x", "--url", "ws://127.0.0.1:1", "--json"]));
    assert_eq!(refusal(&url), "needs_data_dir");

    // A registry without a vault stays without one.
    let restored = dir.path().join("restored");
    assert_eq!(on(&restored, &["restore", text(&file)]).code, Some(0));
    assert!(restored.join("skills.db").exists() && !restored.join("vault.sqlite").exists());
}
