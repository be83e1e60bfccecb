//! Content of a hostile registry, folder or bundle stays inside its destination folder.
//!
//! - `registry`: a registry whose listings contain paths outside the folder
//! - `names`: names that run code or cannot be written everywhere, new and stored by an earlier version
//! - `race`: a file that is replaced by a link while it is added
//! - `sources`: locations that a registry names, which `update` would fetch from
//! - `terminal`: stored text with terminal control sequences, and closed pipes

mod names;
mod race;
mod registry;
mod sources;
mod terminal;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use skills_testkit::{CommandOutput, program, run};

use crate::support::BINARY;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs the program.
fn skills(arguments: &[&str]) -> CommandOutput {
    run(program(BINARY).args(arguments))
}

/// Reads every file below a folder without following links.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut open = vec![dir.to_owned()];
    let mut files = BTreeMap::new();
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else {
                let bytes = fs::read(entry.path()).unwrap_or_default();
                files.insert(entry.path().strip_prefix(dir).unwrap().to_owned(), bytes);
            }
        }
    }
    files
}
