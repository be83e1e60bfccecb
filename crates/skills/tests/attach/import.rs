//! `skills import`: from the state into the embedded store and back.

use serde_json::{Value, json};
use skills_testkit::{program, run};
use std::path::Path;

use crate::{
    attached::Attached,
    engine::{Engine, record, set, state},
    support::{BINARY, ids},
};

async fn import(engine: &Engine, direction: &str, dir: &Path) -> Value {
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

/// Without the moments, which are those of the import.
fn contents(mut entries: Vec<(String, Value)>) -> Vec<(String, Value)> {
    for (_, value) in &mut entries {
        if let Some(fields) = value.as_object_mut() {
            fields.remove("registered_at");
        }
    }
    entries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_survives_the_way_there_and_back() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let from = Engine::start().await;
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
    let to = Engine::start().await;
    let moved = import(&to, "--to-state", &data).await;
    assert_eq!(moved, json!({ "written": 26, "unchanged": 0 }));
    let again = import(&to, "--to-state", &data).await;
    assert_eq!(again, json!({ "written": 0, "unchanged": 26 }));
    let other = to.worker().await;
    for scope in ["skills", "prompts"] {
        let (before, after) = (state(&worker, scope).await, state(&other, scope).await);
        assert_eq!(contents(before), contents(after));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_ours_stays_where_it_is() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let engine = Engine::start().await;
    let worker = engine.worker().await;
    set(&worker, "skills", "odd", &json!("a note")).await;
    set(&worker, "skills", "a", &record("a", "x")).await;
    let before = state(&worker, "skills").await;
    assert_eq!(import(&engine, "--from-state", &data).await["written"], 1);
    assert_eq!(import(&engine, "--to-state", &data).await["unchanged"], 1);
    assert_eq!(state(&worker, "skills").await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_has_no_room_for_several_files_and_says_so() {
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
    let engine = Engine::start().await;
    let _attached = Attached::to(&engine).await;
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
    let said: Value = serde_json::from_str(to_state.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(said["error"]["code"], "not_all_copied");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_engine_or_its_state_nothing_is_moved() {
    let home = tempfile::tempdir().unwrap();
    let kind = crate::engine::Kind { stateless: true, ..Default::default() };
    let engine = Engine::of(kind).await;
    let url = engine.url();
    let folder = home.path().to_owned();
    let ran = tokio::task::spawn_blocking(move || {
        let mut command = program(BINARY);
        run(command.current_dir(folder).args(["import", "--to-state", "--json", "--url", &url]))
    })
    .await
    .unwrap();
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let said: Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(said["error"]["code"], "no_state");
    assert!(!home.path().join("data").exists());
}
