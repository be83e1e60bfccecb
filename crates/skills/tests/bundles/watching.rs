use std::{fs, path::Path};

use serde_json::{Value, json};
use skills_testkit::{Process, Server, Worker, next, program};

use super::{document, eventually, moments, put, put_bundles, text};
use crate::support::{BINARY, Home, ids, read, register};

/// A watch of a folder that has done its first look.
fn watch(server: &Server, dir: &Path, more: &[&str]) -> Process {
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
async fn the_registry_follows_the_folder_and_clients_hear_of_it() {
    let home = Home::new();
    let dir = home.dir().join("folder");
    put_bundles(&dir, &["one"]);
    let worker = home.worker().await;
    let mut heard = worker.collect("t::heard").await;
    worker.subscribe("skills::on-change", "t::heard", json!({})).await;
    let watch = watch(&home.server, &dir, &[]);
    assert_eq!(ids(&worker).await, ["one"], "what is there is added before it says so");
    assert_eq!(next(&mut heard).await["id"], "one");

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

    // Renamed: the name in the document is what it is called by, so first that, then the folder.
    put(&dir, "one/SKILL.md", document("uno", ""));
    until(&worker, &["two", "uno"]).await;
    let before = moments(&worker).await;
    fs::rename(dir.join("one"), dir.join("uno")).unwrap();
    put(&dir, "uno/SKILL.md", "---\ndescription: No name, so it is the folder's.\n---\n");
    eventually("the document", async || read(&worker, "iii://uno").await.contains("No name")).await;
    assert_ne!(moments(&worker).await["uno"], before["uno"]);
    fs::rename(dir.join("uno"), dir.join("ein")).unwrap();
    until(&worker, &["ein", "two"]).await;

    fs::remove_dir_all(dir.join("nested")).unwrap();
    until(&worker, &["ein"]).await;
    let mut removed: Vec<String> = Vec::new();
    while removed.len() < 3 {
        let event: Value = next(&mut heard).await;
        if event["op"] == "unregister" {
            removed.push(event["id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(removed, ["one", "uno", "two"]);

    watch.signal("TERM");
    let (code, said) = watch.wait();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(ids(&worker).await, ["ein"], "the end of a watch removes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_its_own_is_left_alone() {
    let home = Home::new();
    let dir = home.dir().join("folder");
    put(&dir, "same/SKILL.md", document("same", ""));
    put(&dir, "taken/SKILL.md", document("taken", ""));
    let worker = home.worker().await;
    register(&worker, "other", "# Other").await;
    let equal = register(&worker, "same", &document("same", "")).await;
    let watch = watch(&home.server, &dir, &["--json"]);
    assert_eq!(moments(&worker).await["same"], equal, "what is equal is not written");
    assert_eq!(ids(&worker).await, ["other", "same", "taken"]);
    // Somebody else puts something else there: it is theirs from now on.
    register(&worker, "taken", "# Mine now").await;
    fs::remove_dir_all(dir.join("taken")).unwrap();
    fs::remove_dir_all(dir.join("same")).unwrap();
    until(&worker, &["other", "taken"]).await;
    watch.stdout.wait_for(r#"{"id":"same","status":"removed"}"#);
    assert!(!watch.stdout.so_far().contains("\"id\":\"taken\",\"status\":\"removed\""));
    assert_eq!(read(&worker, "iii://taken").await, "# Mine now");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_used_leaves_the_last_version_where_it_is() {
    let home = Home::new();
    let dir = home.dir().join("folder");
    put(&dir, "one/SKILL.md", document("one", "First."));
    let watch = watch(&home.server, &dir, &[]);
    let worker = home.worker().await;
    put(&dir, "one/SKILL.md", "---\nname: one\n---\n");
    watch.stderr.wait_for("error: ");
    put(&dir, "copy/SKILL.md", document("one", "Second."));
    // The folder that has the id keeps it, also while it cannot be used.
    watch.stderr.wait_for("would both be one");
    assert!(read(&worker, "iii://one").await.contains("First."));
    put(&dir, "one/SKILL.md", document("one", "Third."));
    eventually("the repair", async || read(&worker, "iii://one").await.contains("Third.")).await;
    assert_eq!(ids(&worker).await, ["one"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_registry_is_survived() {
    let home = tempfile::tempdir().unwrap();
    let (data, dir) = (home.path().join("data"), home.path().join("folder"));
    put(&dir, "one/SKILL.md", document("one", ""));
    let server = Server::start(BINARY, &data);
    let bus = server.url.strip_prefix("ws://").unwrap().trim_end_matches('/').to_owned();
    let watch = watch(&server, &dir, &[]);
    let (code, _, said) = server.stop();
    assert_eq!(code, Some(0), "{said}");
    put(&dir, "two/SKILL.md", document("two", ""));
    watch.stderr.wait_for("error: ");
    let mut command = program(BINARY);
    command.args(["serve", "--bus", &bus, "--http", "127.0.0.1:0", "--data-dir", text(&data)]);
    let server = Server::spawn(&mut command);
    let worker = Worker::connect(&server.url).await;
    until(&worker, &["one", "two"]).await;
    fs::remove_dir_all(dir.join("one")).unwrap();
    until(&worker, &["two"]).await;
}

#[test]
fn a_folder_that_is_gone_ends_the_watch_and_removes_nothing() {
    let home = Home::new();
    let dir = home.dir().join("folder");
    put(&dir, "one/SKILL.md", document("one", ""));
    let watch = watch(&home.server, &dir, &[]);
    fs::rename(&dir, home.dir().join("elsewhere")).unwrap();
    // The folder itself moved, which is heard of at the next look at the latest.
    let (code, said) = watch.wait();
    assert_eq!(code, Some(1));
    assert!(said.contains("cannot read"), "{said}");
    let listed = super::answer(&["--url", &home.server.url, "list"]);
    assert!(listed.contains("one"), "{listed}");
}
