use std::{fs, os::unix, path::Path};

use skills_bundles::find_bundles;
use skills_core::Coded as _;

use super::{DOCUMENT, bundles, folder, paths, put};

fn ids(path: &Path) -> Vec<String> {
    bundles(path).unwrap().into_iter().map(|(id, _)| id).collect()
}

#[test]
fn bundles_are_found_at_any_depth() {
    let dir = folder(&[
        ("README.md", b"# not a bundle"),
        ("one/SKILL.md", b"---\ndescription: d\n---\n"),
        ("one/inner/SKILL.md", b"part of it"),
        ("deep/er/two/SKILL.md", b"---\ndescription: d\n---\n"),
        ("deep/er/two/scripts/run.sh", b"#!/bin/sh\n"),
    ]);
    assert_eq!(ids(dir.path()), ["two", "one"]);
    let found = bundles(&dir.path().join("one")).unwrap();
    assert_eq!(paths(&found[0].1), ["SKILL.md", "inner/SKILL.md"]);
    assert_eq!(ids(&dir.path().join("deep/er/two/SKILL.md")), ["two"], "the folder names it");
    let readme = bundles(&dir.path().join("README.md"));
    assert_eq!(readme.expect_err("README is no id").code().as_str(), "id_needed");
}

#[test]
fn the_name_in_the_document_wins_over_the_folder_name() {
    let named = |name: &str| format!("---\nname: {name}\ndescription: d\n---\n");
    for (name, id) in [
        ("other", "other"),
        ("under_score", "under_score"),
        ("Not An Id", "fallback"),
        ("skills", "fallback"),
        ("[a]", "fallback"),
        ("12", "fallback"),
    ] {
        let dir = folder(&[("fallback/SKILL.md", named(name).as_bytes())]);
        assert_eq!(ids(&dir.path().join("fallback")), [id], "{name}");
        put(dir.path(), "fallback.md", named(name).as_bytes());
        assert_eq!(ids(&dir.path().join("fallback.md")), [id], "{name}");
    }
}

#[test]
fn a_misspelt_root_document_is_accepted_with_a_warning() {
    let dir = folder(&[("a/skill.md", DOCUMENT.as_bytes()), ("a/x", b"1")]);
    let found = find_bundles(&dir.path().join("a")).unwrap();
    let contents = found.candidates[0].read().unwrap();
    assert!(contents.report().findings.iter().any(|finding| finding.code == "file-name"));
    assert!(contents.report().is_valid());
    assert_eq!(paths(&contents.into_bundle().unwrap()), ["SKILL.md", "x"]);
}

#[test]
fn files_ignored_by_git_and_build_folders_are_skipped() {
    let dir = folder(&[
        ("a/SKILL.md", DOCUMENT.as_bytes()),
        ("a/.gitignore", b"*.log\n/build/\n"),
        ("a/.hidden", b"kept"),
        ("a/x.log", b""),
        ("a/keep/.gitignore", b"!x.log\n"),
        ("a/keep/x.log", b"kept"),
        ("a/build/out", b""),
        ("a/.git/config", b""),
        ("a/node_modules/m/SKILL.md", b""),
        ("b/node_modules/c/SKILL.md", b""),
    ]);
    let found = bundles(dir.path()).unwrap();
    assert_eq!(found.len(), 1);
    let expected = ["SKILL.md", ".gitignore", ".hidden", "keep/.gitignore", "keep/x.log"];
    assert_eq!(paths(&found[0].1), expected);
    // Ignore rules apply below their repository; rules above a folder outside any repository do not.
    put(dir.path(), ".gitignore", b".hidden\n");
    assert_eq!(paths(&bundles(&dir.path().join("a")).unwrap()[0].1).len(), 5);
    fs::remove_dir_all(dir.path().join("a/.git")).unwrap();
    fs::create_dir(dir.path().join(".git")).unwrap();
    assert_eq!(paths(&bundles(&dir.path().join("a")).unwrap()[0].1).len(), 4);
}

#[test]
fn links_are_skipped_unless_named_on_the_command_line() {
    let dir = folder(&[("a/SKILL.md", DOCUMENT.as_bytes())]);
    unix::fs::symlink("a", dir.path().join("link")).unwrap();
    assert_eq!(ids(dir.path()), ["a"]);
    assert_eq!(bundles(&dir.path().join("link")).unwrap().len(), 1);
}

#[test]
fn a_path_without_bundles_is_an_error() {
    let dir = folder(&[("a/README.md", b"# A")]);
    for (path, code) in [("a", "no_bundle"), ("absent", "unreadable")] {
        let error = find_bundles(&dir.path().join(path)).expect_err(path);
        assert_eq!(error.code().as_str(), code, "{error}");
        assert!(error.to_string().contains(path), "{error}");
    }
}
