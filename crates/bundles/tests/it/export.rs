use std::{fs, os::unix::fs::symlink};

use bytes::Bytes;
use skills_agent_skills::Bundle;
use skills_bundles::{ExportSummary, export};
use skills_core::Coded as _;

use super::{DOCUMENT, folder, put, tree};

fn bundle() -> Bundle<Bytes> {
    let file = |path: &str, bytes: &'static [u8]| (path.parse().unwrap(), Bytes::from(bytes));
    Bundle::new(DOCUMENT.to_owned(), vec![file("d/x", b"new"), file("y", b"")]).unwrap()
}

#[test]
fn a_different_file_is_overwritten_only_with_force() {
    let dir = folder(&[("d/x", b"old"), ("mine", b"1")]);
    let before = tree(dir.path());
    let error = export(bundle(), dir.path(), false).expect_err("in the way");
    assert_eq!(error.code().as_str(), "exists");
    assert!(error.to_string().contains("d/x"), "{error}");
    assert_eq!(tree(dir.path()), before, "nothing was written");
    let written = export(bundle(), dir.path(), true).unwrap();
    assert_eq!(written, ExportSummary { written: 3, unchanged: 0 });
    let after = tree(dir.path());
    assert_eq!(after.len(), 4, "what is not part of it stays");
    assert_eq!(fs::read(dir.path().join("d/x")).unwrap(), b"new");
}

#[test]
fn export_never_writes_through_a_link() {
    for (target, link) in [("outside", "d"), ("outside/x", "d/x"), ("outside/x", "SKILL.md")] {
        let dir = folder(&[("outside/x", b"old"), ("outside/SKILL.md", b"old")]);
        let into = dir.path().join("into");
        put(&into, "other", b"");
        if link.contains('/') {
            fs::create_dir(into.join("d")).unwrap();
        }
        symlink(dir.path().join(target), into.join(link)).unwrap();
        let outside = tree(&dir.path().join("outside"));
        assert_eq!(
            export(bundle(), &into, false).expect_err(link).code().as_str(),
            "exists",
            "{target}"
        );
        export(bundle(), &into, true).unwrap();
        assert_eq!(tree(&dir.path().join("outside")), outside, "{link}");
        assert!(!fs::symlink_metadata(into.join(link)).unwrap().is_symlink(), "{target}");
        assert_eq!(fs::read(into.join("d/x")).unwrap(), b"new", "{target}");
    }
}

#[test]
fn a_folder_in_place_of_a_file_is_not_removed() {
    let dir = folder(&[("y/precious", b"1")]);
    assert_eq!(
        export(bundle(), dir.path(), true).expect_err("a folder").code().as_str(),
        "unwritable"
    );
    assert_eq!(fs::read(dir.path().join("y/precious")).unwrap(), b"1");
    let left =
        tree(dir.path()).keys().filter(|path| path.to_string_lossy().contains(".skills-")).count();
    assert_eq!(left, 0);
}

#[test]
fn two_exports_cannot_form_a_git_repository() {
    let bundle = |paths: &[&str]| {
        let file = |path: &&str| (path.parse().unwrap(), Bytes::from_static(b"x"));
        Bundle::new(DOCUMENT.to_owned(), paths.iter().map(file).collect()).unwrap()
    };
    for (first, second) in [
        (&["HEAD", "config"] as &[&str], &["objects/x", "refs/x"] as &[&str]),
        (&["objects/x", "refs/x"], &["HEAD", "config"]),
        (&["HEAD", "objects/x"], &["refs/x"]),
        (&["a/b/head", "a/b/config"], &["a/b/Objects/x", "a/b/refs/x"]),
        (&["a/HEAD", "a/config"], &["a/commondir"]),
    ] {
        for force in [false, true] {
            let dir = folder(&[]);
            let into = dir.path().join("into");
            export(bundle(first), &into, false).unwrap();
            let before = tree(&into);
            let error = export(bundle(second), &into, force).expect_err("a repository");
            assert_eq!(error.code().as_str(), "invalid_path", "{force:?}");
            assert!(error.to_string().contains("git repository"), "{error}");
            assert_eq!(tree(&into), before, "nothing was written");
            export(bundle(first), &into, false).unwrap();
        }
    }
    // A link may point to a folder of another export.
    let dir = folder(&[("elsewhere/x", b""), ("into/objects/x", b"")]);
    symlink(dir.path().join("elsewhere"), dir.path().join("into/refs")).unwrap();
    export(bundle(&["HEAD"]), &dir.path().join("into"), false).expect_err("a repository");
}
