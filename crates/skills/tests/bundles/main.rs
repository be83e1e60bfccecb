//! Bundles through the real binary: in from folders and archives, out to folders, bus and MCP.
//!
//! - `adding`: `skills add`, what it says and what it writes
//! - `archives`: the same from archives
//! - `exporting`: `skills export` and `skills show`
//! - `round_trip`: many generated bundles, byte for byte
//! - `surfaces`: nested files over the bus and MCP
//! - `syncing`: `skills sync`
//! - `watching`: `skills add --watch`

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod adding;
mod archives;
mod exporting;
mod round_trip;
#[path = "../support/mod.rs"]
mod support;
mod surfaces;
mod syncing;
mod watching;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use skills_testkit::{DEADLINE, Ran, Worker, program, run};
use support::BINARY;

/// How often something is looked at that is waited for.
const POLL: Duration = Duration::from_millis(5);

/// `skills` with these arguments, in a directory without a configuration file or data.
fn skills(arguments: &[&str]) -> Ran {
    let ran = run(program(BINARY).args(arguments).current_dir(std::env::temp_dir()));
    assert!(!format!("{ran:?}").contains("\\u{1b}"), "colours without a terminal: {ran:?}");
    ran
}

/// The answer of a command that must succeed.
fn answer(arguments: &[&str]) -> String {
    let ran = skills(arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
    ran.stdout
}

fn json_answer(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(&[arguments, &["--json"]].concat())).unwrap()
}

fn put(dir: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let full = dir.join(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    fs::write(full, bytes).unwrap();
}

/// A root document.
fn document(name: &str, body: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: Does {name}. Use when asked to.\n---\n# {name}\n\n{body}\n"
    )
}

/// A folder of bundles: each with a document and two more files.
fn put_bundles(dir: &Path, names: &[&str]) {
    for name in names {
        put(dir, &format!("{name}/SKILL.md"), document(name, "Body."));
        put(dir, &format!("{name}/references/deep/notes.md"), format!("# Notes of {name}\n"));
        put(dir, &format!("{name}/assets/raw.bin"), [0, 159, 146, 150]);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Every file below a folder.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut open = vec![dir.to_owned()];
    let mut files = BTreeMap::new();
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => {
                    let inside = path.strip_prefix(dir).unwrap().to_owned();
                    files.insert(inside, fs::read(&path).unwrap());
                }
            }
        }
    }
    files
}

/// When each skill was registered, by its id.
async fn moments(worker: &Worker) -> BTreeMap<String, String> {
    let list = worker.ok("skills::list", json!({})).await;
    let cell = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let rows = list["skills"].as_array().unwrap().iter();
    rows.map(|row| (cell(row, "id"), cell(row, "registered_at"))).collect()
}

/// Asks again and again until something holds.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < DEADLINE, "not in time: {what}");
        // What is waited for needs the cores too.
        tokio::time::sleep(POLL).await;
    }
}
