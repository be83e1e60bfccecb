//! Hashes of a skill's folder in a lockfile: that of `npx skills`, and a digest that leaves nothing open.
//!
//! `npx skills` hashes the path and the bytes of each file without a boundary between them, so that a text can be split
//! into a text and a script with the same hash. The order of its files is that of JavaScript's `localeCompare` in the root
//! collation (`_` before `-` before digits before letters, `a` before `A` before `b`), which it uses in the C, English and
//! German locales. The digest has lengths, and executable bits.

use std::cmp::Ordering;

use icu_collator::{Collator, CollatorBorrowed, CollatorPreferences, options::CollatorOptions};
use skills_core::{Digest, skill::ROOT_PATH};

/// Folders that the hash of `npx skills` leaves out.
const LEFT_OUT_BY_NPX: [&str; 2] = [".git", "node_modules"];

/// File of a skill as it is installed.
#[derive(Debug, Clone, Copy)]
pub struct HashedFile<'a> {
    /// Path inside the folder.
    pub path: &'a str,
    /// Content.
    pub bytes: &'a [u8],
    /// Executable bit. That of the root document does not count.
    pub executable: bool,
}

/// Hashes of a skill's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderHashes {
    /// Hash that `npx skills` computes.
    pub npx: String,
    /// Digest of this program.
    pub digest: String,
}

impl FolderHashes {
    /// Computes the hashes of the files of a skill.
    #[must_use]
    pub fn of(files: &[HashedFile<'_>]) -> Self {
        Self { npx: npx_hash(files), digest: digest(files) }
    }
}

/// Returns the hash that `npx skills` computes of the files of a skill, as 64 hexadecimal digits.
///
/// Paths below `.git` and `node_modules` are left out.
#[must_use]
pub fn npx_hash(files: &[HashedFile<'_>]) -> String {
    let mut files: Vec<HashedFile<'_>> =
        files.iter().copied().filter(|file| !is_left_out_by_npx(file.path)).collect();
    sort_by_locale(&mut files, |file| file.path);
    let size = files.iter().map(|file| file.path.len() + file.bytes.len()).sum();
    let mut text = Vec::with_capacity(size);
    for file in files {
        text.extend_from_slice(file.path.as_bytes());
        text.extend_from_slice(file.bytes);
    }
    Digest::of(&text).to_string()
}

/// Returns the digest of the files of a skill: `sha256:` and 64 hexadecimal digits.
///
/// The encoding has, for each file in the order of the bytes of the paths: the length of the path as eight bytes, the most
/// significant first; the path; one byte that is 1 for an executable file and 0 for any other; the length of the content
/// as eight bytes; the content. Other programs may compute it: the encoding never changes.
fn digest(files: &[HashedFile<'_>]) -> String {
    let mut files: Vec<HashedFile<'_>> = files.to_vec();
    files.sort_unstable_by_key(|file| file.path.as_bytes());
    let size = files.iter().map(|file| file.path.len() + file.bytes.len() + 17).sum();
    let mut text: Vec<u8> = Vec::with_capacity(size);
    for HashedFile { path, bytes, executable } in files {
        text.extend_from_slice(&(path.len() as u64).to_be_bytes());
        text.extend_from_slice(path.as_bytes());
        text.push(u8::from(executable && path != ROOT_PATH));
        text.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        text.extend_from_slice(bytes);
    }
    format!("sha256:{}", Digest::of(&text))
}

/// Returns whether `npx skills` copies a file of a repository. The hash in its lockfile counts the other files too.
#[must_use]
pub fn is_copied_by_npx(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    parts.next() != Some("metadata.json")
        && !parts.any(|folder| matches!(folder, "__pycache__" | "__pypackages__"))
}

/// Sorts files by their paths as JavaScript's `localeCompare` does in the root collation. Paths that only differ in a way
/// that the collation ignores are in the order of their bytes.
pub fn sort_by_locale<T>(files: &mut [T], path: impl Fn(&T) -> &str) {
    let collator = root_collator();
    files.sort_by(|one, other| {
        let (one, other) = (path(one), path(other));
        compare(collator.as_ref(), one, other).then_with(|| one.cmp(other))
    });
}

/// Returns whether a folder of the path is one that the hash of `npx skills` leaves out.
fn is_left_out_by_npx(path: &str) -> bool {
    let folders = path.rsplit_once('/').map(|(folders, _)| folders.split('/'));
    folders.into_iter().flatten().any(|folder| LEFT_OUT_BY_NPX.contains(&folder))
}

/// Returns the root collation. The data is compiled in, so it is always there.
fn root_collator() -> Option<CollatorBorrowed<'static>> {
    Collator::try_new(CollatorPreferences::default(), CollatorOptions::default()).ok()
}

fn compare(collator: Option<&CollatorBorrowed<'static>>, one: &str, other: &str) -> Ordering {
    collator.map_or_else(|| one.cmp(other), |collator| collator.compare(one, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths in the order of `localeCompare` in Node 20, in the locales C and en-US.
    const ORDERED: [&str; 18] = [
        "_a", "-a", "(a", "#a", "+a", "~a", "1", "10", "2", "a", "A", "a/b", "a1", "ab", "b", "B",
        "é.md", "SKILL.md",
    ];
    /// Hash that Node 20 computes of these files, with two bytes each.
    const NODE_HASH: &str = "49b2c9b747e3fdd686493f680ea026865559fced476bab2e797d85eff6683b07";

    #[test]
    fn paths_are_in_the_order_of_the_root_collation() {
        let collator = root_collator().unwrap();
        let mut paths: Vec<&str> = ORDERED.iter().rev().copied().collect();
        paths.sort_by(|one, other| collator.compare(one, other));
        assert_eq!(paths, ORDERED);
    }

    fn file<'a>(path: &'a str, bytes: &'a [u8]) -> HashedFile<'a> {
        HashedFile { path, bytes, executable: false }
    }

    #[test]
    fn the_hash_is_that_of_npx_skills() {
        let files: Vec<HashedFile<'_>> = ORDERED.iter().map(|path| file(path, b"x\n")).collect();
        assert_eq!(npx_hash(&files), NODE_HASH);
        let ignored = [file(".git/config", b"y"), file("a/node_modules/b.js", b"y")];
        let more = [files.as_slice(), &ignored].concat();
        assert_eq!(npx_hash(&more), NODE_HASH, "folders that are left out");
        let plain = [file("node_modules", b"a file"), file("SKILL.md", b"x")];
        assert_ne!(npx_hash(&plain), npx_hash(&plain[1..]), "a file of that name counts");
    }

    #[test]
    fn a_script_split_out_of_a_text_has_the_hash_of_npx_and_another_digest() {
        let whole = [file("SKILL.md", b"x"), file("a", b"Read b.sh#!/bin/sh")];
        let split = [file("SKILL.md", b"x"), file("a", b"Read "), file("b.sh", b"#!/bin/sh")];
        assert_eq!(npx_hash(&whole), npx_hash(&split));
        assert_ne!(digest(&whole), digest(&split));
        // A file that the hash of `npx skills` leaves out, and an executable bit.
        let hidden = [whole.as_slice(), &[file("node_modules/x.js", b"y")]].concat();
        let executable = [whole[0], HashedFile { executable: true, ..whole[1] }];
        for other in [hidden.as_slice(), &executable] {
            assert_eq!(npx_hash(other), npx_hash(&whole));
            assert_ne!(digest(other), digest(&whole));
        }
        let root = [HashedFile { executable: true, ..whole[0] }, whole[1]];
        assert_eq!(digest(&root), digest(&whole), "the bit of the root document");
    }

    /// The digest is in lockfiles of projects, so its encoding must not change. docs/lockfile.md has this example.
    #[test]
    fn the_digest_is_that_of_the_documented_encoding() {
        let files = [
            file("a.txt", b"A"),
            HashedFile { path: "run.sh", bytes: b"#!/bin/sh\n", executable: true },
            file("SKILL.md", b"# T\n"),
        ];
        let text = b"\0\0\0\0\0\0\0\x08SKILL.md\0\0\0\0\0\0\0\0\x04# T\n\
                     \0\0\0\0\0\0\0\x05a.txt\0\0\0\0\0\0\0\0\x01A\
                     \0\0\0\0\0\0\0\x06run.sh\x01\0\0\0\0\0\0\0\x0a#!/bin/sh\n";
        assert_eq!(digest(&files), format!("sha256:{}", Digest::of(text)));
        assert_eq!(
            digest(&files),
            "sha256:69e2808b5e5b941d7013a44928bfbb721c3e6eb50e980f46fce662afcf9d59b9"
        );
    }

    #[test]
    fn files_that_npx_leaves_out_are_known() {
        for path in ["metadata.json", "a/metadata.json", "__pycache__/a", "a/__pypackages__/b/c"] {
            assert!(!is_copied_by_npx(path), "{path}");
        }
        for path in ["SKILL.md", "a.metadata.json", "metadata.json/a", "__pycache__"] {
            assert!(is_copied_by_npx(path), "{path}");
        }
    }
}
