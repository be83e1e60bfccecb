//! Bundles and archives on a real file system.
//!
//! - `round_trip`: bundles through folders and archives, byte for byte
//! - `discovery`: the bundles at a path and their ids
//! - `refusals`: folders that are refused
//! - `repositories`: limits of fetches
//! - `archives`: archives that are refused
//! - `export`: existing files at the destination
//! - `sync`: synced folders and user edits in them

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod archives;
mod discovery;
mod export;
mod refusals;
mod repositories;
mod round_trip;
mod sync;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use skills_agent_skills::Bundle;
use skills_bundles::{BundleError, find_bundles};
use tempfile::TempDir;

const DOCUMENT: &str = "---\nname: a\ndescription: Does a.\n---\n# A\n";

/// Creates a folder with files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, bytes) in files {
        put(dir.path(), path, bytes);
    }
    dir
}

fn put(dir: &Path, path: &str, bytes: &[u8]) {
    let full = dir.join(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    fs::write(full, bytes).unwrap();
}

/// Reads all bundles at a path with their ids.
fn bundles(path: &Path) -> Result<Vec<(String, Bundle<Bytes>)>, BundleError> {
    let found = find_bundles(path)?;
    assert!(found.faults.is_empty(), "{:?}", found.faults);
    let read = |candidate: &skills_bundles::BundleCandidate| {
        Ok((candidate.id("")?.id.to_string(), candidate.read()?.into_bundle()?))
    };
    found.candidates.iter().map(read).collect()
}

fn paths(bundle: &Bundle<Bytes>) -> Vec<&str> {
    bundle.meta().files.iter().map(|file| file.path.as_str()).collect()
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
