use std::{fs, os::unix, path::Path};

use skills_bundles::find;

use super::{DOCUMENT, bundles, folder, paths, put};

fn ids(path: &Path) -> Vec<String> {
    bundles(path).unwrap().into_iter().map(|(id, _)| id).collect()
}

#[test]
fn one_bundle_many_bundles_and_bundles_deep_down() {
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
    assert_eq!(readme.expect_err("README is no id").code(), "id_needed");
}

#[test]
fn the_name_in_the_document_comes_before_that_of_the_folder() {
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
fn another_spelling_is_the_root_document_and_pointed_out() {
    let dir = folder(&[("a/skill.md", DOCUMENT.as_bytes()), ("a/x", b"1")]);
    let found = find(&dir.path().join("a")).unwrap();
    let contents = found.candidates[0].read().unwrap();
    assert!(contents.report().findings.iter().any(|finding| finding.code == "file-name"));
    assert!(contents.report().is_valid());
    assert_eq!(paths(&contents.into_bundle().unwrap()), ["SKILL.md", "x"]);
}

#[test]
fn what_git_ignores_is_left_out_and_so_is_what_nobody_packs() {
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
    // A repository's own rules hold below it; those above a folder that is in none do not.
    put(dir.path(), ".gitignore", b".hidden\n");
    assert_eq!(paths(&bundles(&dir.path().join("a")).unwrap()[0].1).len(), 5);
    fs::remove_dir_all(dir.path().join("a/.git")).unwrap();
    fs::create_dir(dir.path().join(".git")).unwrap();
    assert_eq!(paths(&bundles(&dir.path().join("a")).unwrap()[0].1).len(), 4);
}

#[test]
fn links_outside_of_bundles_are_passed_by_and_a_link_that_is_named_is_followed() {
    let dir = folder(&[("a/SKILL.md", DOCUMENT.as_bytes())]);
    unix::fs::symlink("a", dir.path().join("link")).unwrap();
    assert_eq!(ids(dir.path()), ["a"]);
    assert_eq!(bundles(&dir.path().join("link")).unwrap().len(), 1);
}

#[test]
fn nothing_there_is_said() {
    let dir = folder(&[("a/README.md", b"# A")]);
    for (path, code) in [("a", "no_bundle"), ("absent", "unreadable")] {
        let error = find(&dir.path().join(path)).expect_err(path);
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(path), "{error}");
    }
}
