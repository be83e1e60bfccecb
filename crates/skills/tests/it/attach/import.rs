//! `skills import` between the state and the embedded store.

use serde_json::{Value, json};
use skills_testkit::{program, run};
use std::path::Path;

use crate::support::{
    BINARY,
    attached::AttachedWorker,
    engine::{TestEngine, record, set, state},
    ids,
};

async fn import(engine: &TestEngine, direction: &str, dir: &Path) -> Value {
    let (url, dir, direction) = (engine.url(), dir.to_owned(), direction.to_owned());
    let ran = tokio::task::spawn_blocking(move || {
        let mut command = program(BINARY);
        command.current_dir(dir.parent().unwrap());
        command.args(["import", &direction, "--json", "--url", &url, "--data-dir"]).arg(&dir);
        run(&mut command)
    })
    .await
    .unwrap();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Removes the timestamps, which are those of the import.
fn contents(mut entries: Vec<(String, Value)>) -> Vec<(String, Value)> {
    for (_, value) in &mut entries {
        if let Some(fields) = value.as_object_mut() {
            fields.remove("registered_at");
        }
    }
    entries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_survives_import_and_export_of_the_state() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let from = TestEngine::start().await;
    let worker = from.worker().await;
    for number in 0..25 {
        let id = format!("s{number:02}");
        set(&worker, "skills", &id, &record(&id, &format!("# {number}\n\n\u{1F600}"))).await;
    }
    let argument = json!({ "name": "to", "description": "Whom", "required": true });
    let prompt = json!({
        "name": "p", "description": "d", "function_id": "x::y", "arguments": [argument],
        "registered_at": "2026-05-04T12:00:00Z",
    });
    set(&worker, "prompts", "p", &prompt).await;
    let moved = import(&from, "--from-state", &data).await;
    assert_eq!(moved, json!({ "written": 26, "unchanged": 0 }));
    let again = import(&from, "--from-state", &data).await;
    assert_eq!(again, json!({ "written": 0, "unchanged": 26 }));
    let to = TestEngine::start().await;
    let moved = import(&to, "--to-state", &data).await;
    assert_eq!(moved, json!({ "written": 26, "unchanged": 0 }));
    let again = import(&to, "--to-state", &data).await;
    assert_eq!(again, json!({ "written": 0, "unchanged": 26 }));
    let other = to.worker().await;
    for scope in ["skills", "prompts"] {
        let (before, after) = (state(&worker, scope).await, state(&other, scope).await);
        assert_eq!(contents(before), contents(after), "{scope}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_records_are_left_in_the_state() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let engine = TestEngine::start().await;
    let worker = engine.worker().await;
    set(&worker, "skills", "odd", &json!("a note")).await;
    set(&worker, "skills", "a", &record("a", "x")).await;
    let before = state(&worker, "skills").await;
    assert_eq!(import(&engine, "--from-state", &data).await["written"], 1);
    assert_eq!(import(&engine, "--to-state", &data).await["unchanged"], 1);
    assert_eq!(state(&worker, "skills").await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bundles_with_several_files_cannot_move_to_the_state() {
    if skills_testkit::needs_embedded_store("imports the file of the data directory") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let (data, folder) = (home.path().join("data"), home.path().join("folder"));
    for (path, text) in [
        ("many/SKILL.md", "---\nname: many\ndescription: d\n---\n"),
        ("many/more.md", "# More\n"),
        ("one/SKILL.md", "---\nname: one\ndescription: d\n---\n"),
    ] {
        std::fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
        std::fs::write(folder.join(path), text).unwrap();
    }
    let engine = TestEngine::start().await;
    let _attached = AttachedWorker::start(&engine).await;
    let worker = engine.worker().await;
    let url = engine.url();
    let data_dir = data.to_str().unwrap().to_owned();
    let add = [&["--url", url.as_str()][..], &["--data-dir", &data_dir]].map(|target| {
        let mut command = program(BINARY);
        command.args(target).args(["add", "--json"]).arg(&folder);
        command
    });
    let mut to_state = program(BINARY);
    to_state.args(["import", "--to-state", "--json", "--url", &url, "--data-dir", &data_dir]);
    let ran = tokio::task::spawn_blocking(move || {
        let [mut attached, mut embedded] = add;
        [run(&mut attached), run(&mut embedded), run(&mut to_state)]
    });
    let [attached, embedded, to_state] = ran.await.unwrap();

    assert_eq!((attached.code, embedded.code), (Some(1), Some(0)), "{}", attached.stderr);
    let answer: Value = serde_json::from_str(&attached.stdout).unwrap();
    let [many, one] = [0, 1].map(|at| &answer["skills"][at]);
    assert_eq!((&many["error"]["code"], &one["status"]), (&json!("unsupported"), &json!("added")));
    assert!(many["error"]["message"].as_str().unwrap().contains("store: embedded"), "{many}");
    assert_eq!(ids(&worker).await, ["one"]);

    assert_eq!(to_state.code, Some(1));
    let answer: Value = serde_json::from_str(&to_state.stdout).unwrap();
    assert_eq!((&answer["unchanged"], &answer["refused"][0]["id"]), (&json!(1), &json!("many")));
    assert_eq!(answer["refused"][0]["error"]["code"], "unsupported");
    let output: Value = serde_json::from_str(to_state.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(output["error"]["code"], "not_all_copied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn import_without_an_engine_or_state_worker_moves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let kind = crate::support::engine::EngineOptions { stateless: true, ..Default::default() };
    let engine = TestEngine::with_options(kind).await;
    let url = engine.url();
    let folder = home.path().to_owned();
    let ran = tokio::task::spawn_blocking(move || {
        let mut command = program(BINARY);
        run(command.current_dir(folder).args(["import", "--to-state", "--json", "--url", &url]))
    })
    .await
    .unwrap();
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let output: Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(output["error"]["code"], "no_state");
    assert!(!home.path().join("data").exists());
}
