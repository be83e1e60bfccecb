use std::{fs, os::unix::fs::symlink};

use bytes::Bytes;
use skills_bundles::{Written, export};
use skills_core::Bundle;

use super::{DOCUMENT, folder, put, tree};

fn bundle() -> Bundle<Bytes> {
    let file = |path: &str, bytes: &'static [u8]| (path.parse().unwrap(), Bytes::from(bytes));
    Bundle::new(DOCUMENT.to_owned(), vec![file("d/x", b"new"), file("y", b"")]).unwrap()
}

#[test]
fn what_is_something_else_is_left_alone_unless_forced() {
    let dir = folder(&[("d/x", b"old"), ("mine", b"1")]);
    let before = tree(dir.path());
    let error = export(bundle(), dir.path(), false).expect_err("in the way");
    assert_eq!(error.code(), "exists");
    assert!(error.to_string().contains("d/x"), "{error}");
    assert_eq!(tree(dir.path()), before, "nothing was written");
    let written = export(bundle(), dir.path(), true).unwrap();
    assert_eq!(written, Written { written: 3, unchanged: 0 });
    let after = tree(dir.path());
    assert_eq!(after.len(), 4, "what is not part of it stays");
    assert_eq!(fs::read(dir.path().join("d/x")).unwrap(), b"new");
}

#[test]
fn no_link_is_written_through() {
    for (target, link) in [("outside", "d"), ("outside/x", "d/x"), ("outside/x", "SKILL.md")] {
        let dir = folder(&[("outside/x", b"old"), ("outside/SKILL.md", b"old")]);
        let into = dir.path().join("into");
        put(&into, "other", b"");
        if link.contains('/') {
            fs::create_dir(into.join("d")).unwrap();
        }
        symlink(dir.path().join(target), into.join(link)).unwrap();
        let outside = tree(&dir.path().join("outside"));
        assert_eq!(export(bundle(), &into, false).expect_err(link).code(), "exists");
        export(bundle(), &into, true).unwrap();
        assert_eq!(tree(&dir.path().join("outside")), outside, "{link}");
        assert!(!fs::symlink_metadata(into.join(link)).unwrap().is_symlink());
        assert_eq!(fs::read(into.join("d/x")).unwrap(), b"new");
    }
}

#[test]
fn a_folder_in_the_way_is_not_removed() {
    let dir = folder(&[("y/precious", b"1")]);
    assert_eq!(export(bundle(), dir.path(), true).expect_err("a folder").code(), "unwritable");
    assert_eq!(fs::read(dir.path().join("y/precious")).unwrap(), b"1");
    let left =
        tree(dir.path()).keys().filter(|path| path.to_string_lossy().contains(".skills-")).count();
    assert_eq!(left, 0);
}
