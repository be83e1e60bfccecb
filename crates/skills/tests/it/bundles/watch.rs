use std::{fs, path::Path};

use serde_json::{Value, json};
use skills_testkit::{Process, ServerProcess, Worker, next, program};

use super::{document, put, put_bundles, text, timestamps};

use crate::support::{
    BINARY, TestServer, free_address, ids, read, register, serve_at, wait::eventually,
};

/// Starts `skills add --watch` and waits for its first scan.
fn watch(server: &ServerProcess, dir: &Path, more: &[&str]) -> Process {
    let mut command = program(BINARY);
    command.args(["--url", server.url.as_str(), "add", "--watch", text(dir)]).args(more);
    let process = Process::start(command.current_dir(std::env::temp_dir()));
    match more {
        [] => process.stderr.wait_for("watching "),
        _ => process.stdout.wait_for("\"watching\""),
    };
    process
}

async fn until(worker: &Worker, expected: &[&str]) {
    eventually(&format!("{expected:?}"), async || ids(worker).await == expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_registry_follows_the_folder_and_notifies_clients() {
    let server = TestServer::new();
    let dir = server.dir().join("folder");
    put_bundles(&dir, &["one"]);
    let worker = server.worker().await;
    let mut received = worker.collect("t::heard").await;
    worker.subscribe("skills::on-change", "t::heard", json!({})).await;
    let watch = watch(&server.process, &dir, &[]);
    assert_eq!(ids(&worker).await, ["one"], "what is there is added before it says so");
    assert_eq!(next(&mut received).await["id"], "one");

    put_bundles(&dir, &["nested/two"]);
    until(&worker, &["one", "two"]).await;
    eventually("all files", async || {
        let files = worker.ok("skills::files", json!({ "id": "two" })).await;
        files["files"].as_array().unwrap().len() == 3
    })
    .await;
    put(&dir, "one/references/deep/notes.md", "# Other notes\n");
    let uri = "iii://one/references/deep/notes.md";
    eventually("the edit", async || read(&worker, uri).await == "# Other notes\n").await;

    // The id comes from the document, so that is renamed first, then the folder.
    put(&dir, "one/SKILL.md", document("uno", ""));
    until(&worker, &["two", "uno"]).await;
    let before = timestamps(&worker).await;
    fs::rename(dir.join("one"), dir.join("uno")).unwrap();
    put(&dir, "uno/SKILL.md", "---\ndescription: No name, so it is the folder's.\n---\n");
    eventually("the document", async || read(&worker, "iii://uno").await.contains("No name")).await;
    assert_ne!(timestamps(&worker).await["uno"], before["uno"]);
    fs::rename(dir.join("uno"), dir.join("ein")).unwrap();
    until(&worker, &["ein", "two"]).await;

    fs::remove_dir_all(dir.join("nested")).unwrap();
    until(&worker, &["ein"]).await;
    let mut removed: Vec<String> = Vec::new();
    while removed.len() < 3 {
        let event: Value = next(&mut received).await;
        if event["op"] == "unregister" {
            removed.push(event["id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(removed, ["one", "uno", "two"]);

    watch.signal("TERM");
    let (code, output) = watch.wait();
    assert_eq!(code, Some(0), "{output}");
    assert_eq!(ids(&worker).await, ["ein"], "the end of a watch removes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_never_touches_skills_it_did_not_add() {
    let server = TestServer::new();
    let dir = server.dir().join("folder");
    put(&dir, "same/SKILL.md", document("same", ""));
    put(&dir, "taken/SKILL.md", document("taken", ""));
    let worker = server.worker().await;
    register(&worker, "other", "# Other").await;
    let equal = register(&worker, "same", &document("same", "")).await;
    let watch = watch(&server.process, &dir, &["--json"]);
    assert_eq!(timestamps(&worker).await["same"], equal, "what is equal is not written");
    assert_eq!(ids(&worker).await, ["other", "same", "taken"]);
    // Another writer replaces the skill and owns it from now on.
    register(&worker, "taken", "# Mine now").await;
    fs::remove_dir_all(dir.join("taken")).unwrap();
    fs::remove_dir_all(dir.join("same")).unwrap();
    until(&worker, &["other", "taken"]).await;
    watch.stdout.wait_for(r#"{"id":"same","status":"removed"}"#);
    assert!(!watch.stdout.contents().contains("\"id\":\"taken\",\"status\":\"removed\""));
    assert_eq!(read(&worker, "iii://taken").await, "# Mine now");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_version_keeps_the_last_valid_one() {
    let server = TestServer::new();
    let dir = server.dir().join("folder");
    put(&dir, "one/SKILL.md", document("one", "First."));
    let watch = watch(&server.process, &dir, &[]);
    let worker = server.worker().await;
    put(&dir, "one/SKILL.md", "---\nname: one\n---\n");
    watch.stderr.wait_for("error: ");
    put(&dir, "copy/SKILL.md", document("one", "Second."));
    // The folder that has the id keeps it while its content is invalid.
    watch.stderr.wait_for("have the same id one");
    assert!(read(&worker, "iii://one").await.contains("First."));
    put(&dir, "one/SKILL.md", document("one", "Third."));
    eventually("the repair", async || read(&worker, "iii://one").await.contains("Third.")).await;
    assert_eq!(ids(&worker).await, ["one"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_survives_a_registry_restart() {
    let server = tempfile::tempdir().unwrap();
    let (data, dir) = (server.path().join("data"), server.path().join("folder"));
    put(&dir, "one/SKILL.md", document("one", ""));
    let bus = free_address().to_string();
    let server = serve_at(&bus, &data);
    let watch = watch(&server, &dir, &[]);
    let (code, _, output) = server.stop();
    assert_eq!(code, Some(0), "{output}");
    put(&dir, "two/SKILL.md", document("two", ""));
    watch.stderr.wait_for("error: ");
    let server = serve_at(&bus, &data);
    let worker = Worker::connect(&server.url).await;
    until(&worker, &["one", "two"]).await;
    fs::remove_dir_all(dir.join("one")).unwrap();
    until(&worker, &["two"]).await;
}

#[test]
fn removing_the_watched_folder_ends_the_watch_and_removes_nothing() {
    let server = TestServer::new();
    let dir = server.dir().join("folder");
    put(&dir, "one/SKILL.md", document("one", ""));
    let watch = watch(&server.process, &dir, &[]);
    fs::rename(&dir, server.dir().join("elsewhere")).unwrap();
    // The folder itself moved, which the next scan notices.
    let (code, output) = watch.wait();
    assert_eq!(code, Some(1));
    assert!(output.contains("cannot read"), "{output}");
    let listed = super::answer(&["--url", &server.process.url, "list"]);
    assert!(listed.contains("one"), "{listed}");
}
