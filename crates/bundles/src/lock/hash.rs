//! Hash of a skill's folder in a lockfile: SHA-256 over the path and the bytes of each file.
//!
//! The order of the files is that of JavaScript's `localeCompare` in the root collation (`_` before `-` before digits
//! before letters, `a` before `A` before `b`), which is what `npx skills` uses in the C, English and German locales.

use std::cmp::Ordering;

use icu_collator::{Collator, CollatorBorrowed, CollatorPreferences, options::CollatorOptions};
use skills_core::Digest;

/// File of a skill: its path inside the folder, and its bytes.
pub type HashedFile<'a> = (&'a str, &'a [u8]);

/// Returns the hash of the files of a skill, as 64 hexadecimal digits.
///
/// Paths below `.git` and `node_modules` are left out.
#[must_use]
pub fn folder_hash(files: &[HashedFile<'_>]) -> String {
    let mut files: Vec<HashedFile<'_>> =
        files.iter().copied().filter(|(path, _)| !is_ignored(path)).collect();
    sort_by_locale(&mut files, |(path, _)| path);
    let mut text = Vec::with_capacity(files.iter().map(|(path, it)| path.len() + it.len()).sum());
    for (path, bytes) in files {
        text.extend_from_slice(path.as_bytes());
        text.extend_from_slice(bytes);
    }
    Digest::of(&text).to_string()
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

/// Returns whether a folder of the path is never part of a skill.
fn is_ignored(path: &str) -> bool {
    let folders = path.rsplit_once('/').map(|(folders, _)| folders.split('/'));
    folders.into_iter().flatten().any(|folder| crate::IGNORED_FOLDERS.contains(&folder))
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

    #[test]
    fn the_hash_is_that_of_npx_skills() {
        let files: Vec<HashedFile<'_>> = ORDERED.iter().map(|path| (*path, &b"x\n"[..])).collect();
        assert_eq!(folder_hash(&files), NODE_HASH);
        let more: Vec<HashedFile<'_>> = files
            .iter()
            .copied()
            .chain([(".git/config", &b"y"[..]), ("a/node_modules/b.js", b"y")])
            .collect();
        assert_eq!(folder_hash(&more), NODE_HASH, "folders that are left out");
        let plain: Vec<HashedFile<'_>> = vec![("node_modules", b"a file"), ("SKILL.md", b"x")];
        assert_ne!(folder_hash(&plain), folder_hash(&plain[1..]), "a file of that name counts");
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
