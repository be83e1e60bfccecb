//! Bundles through the real binary: imported from folders and archives, exported to folders, bus and MCP.
//!
//! - `add`, `archives`: `skills add`
//! - `conflicts`: skills of several sources under one id
//! - `copies`: copies of a skill in one import, links, long names, limits
//! - `executable`: executable bits on every way through the registry
//! - `export`: `skills export` and `skills show`
//! - `oddities`: a tree with every oddity of real repositories
//! - `repositories`: `skills add owner/repo`, URLs, and `skills update`
//! - `round_trip`: generated bundles, byte for byte
//! - `surfaces`: nested files over the bus and MCP
//! - `sync`: `skills sync`
//! - `watch`: `skills add --watch`

mod add;
mod archives;
mod conflicts;
mod copies;
mod executable;
mod export;
mod oddities;
mod repositories;
mod round_trip;
mod surfaces;
mod sync;
mod watch;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use skills_testkit::{CommandOutput, Worker, program, run};

use crate::support::BINARY;

/// Runs `skills` in a directory without a configuration file or data.
fn skills(arguments: &[&str]) -> CommandOutput {
    let ran = run(program(BINARY).args(arguments).current_dir(std::env::temp_dir()));
    assert!(!format!("{ran:?}").contains("\\u{1b}"), "colours without a terminal: {ran:?}");
    ran
}

/// Runs a command that must succeed and returns its output.
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

/// Builds a root document.
fn document(name: &str, body: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: Does {name}. Use when asked to.\n---\n# {name}\n\n{body}\n"
    )
}

/// Writes bundles with a document and two more files each.
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

/// Reads every file below a folder.
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

/// Returns the timestamp of each skill by its id.
async fn timestamps(worker: &Worker) -> BTreeMap<String, String> {
    let list = worker.ok("skills::list", json!({})).await;
    let cell = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let rows = list["skills"].as_array().unwrap().iter();
    rows.map(|row| (cell(row, "id"), cell(row, "registered_at"))).collect()
}
