//! Bundles and archives on a real file system.
//!
//! - `round_trip`: every byte comes back, through folders and archives
//! - `finding`: which bundles a path stands for, and which ids they get
//! - `refusals`: what is not taken from a folder
//! - `archives`: what is not taken from an archive
//! - `exporting`: what is in the way
//! - `syncing`: folders that are kept in step, and what is left alone there

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod archives;
mod exporting;
mod finding;
mod refusals;
mod round_trip;
mod syncing;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use skills_bundles::{BundleError, find};
use skills_core::Bundle;
use tempfile::TempDir;

const DOCUMENT: &str = "---\nname: a\ndescription: Does a.\n---\n# A\n";

/// A folder with files in it; a folder is made where a name ends in a slash.
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

/// All bundles at a path, with their ids.
fn bundles(path: &Path) -> Result<Vec<(String, Bundle<Bytes>)>, BundleError> {
    let found = find(path)?;
    assert!(found.faults.is_empty(), "{:?}", found.faults);
    let read = |candidate: &skills_bundles::Candidate| {
        Ok((candidate.id()?.to_string(), candidate.read()?.into_bundle()?))
    };
    found.candidates.iter().map(read).collect()
}

fn paths(bundle: &Bundle<Bytes>) -> Vec<&str> {
    bundle.meta().files.iter().map(|file| file.path.as_str()).collect()
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
