use skills_core::{
    Coded as _,
    limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES},
};
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, path::Path, process::Command};

use super::{DOCUMENT, bundles, folder, put};

fn refusal(prepare: impl FnOnce(&Path)) -> (String, String) {
    let dir = folder(&[("b/SKILL.md", DOCUMENT.as_bytes()), ("b/ok.txt", b"1")]);
    let bundle = dir.path().join("b");
    prepare(&bundle);
    let error = bundles(&bundle).expect_err("should be refused");
    (error.code().as_str().to_owned(), error.to_string())
}

#[test]
fn a_special_file_is_refused_with_its_path() {
    type Case = (&'static str, fn(&Path), &'static str);
    let cases: [Case; 13] = [
        ("sub/link", |dir| link(dir, "../ok.txt", "sub/link"), "is a link"),
        ("out", |dir| link(dir, "/etc/passwd", "out"), "is a link"),
        ("dirlink", |dir| link(dir, ".", "dirlink"), "is a link"),
        ("broken", |dir| link(dir, "nowhere", "broken"), "is a link"),
        ("pipe", |dir| mkfifo(&dir.join("pipe")), "not a regular file"),
        ("a\\\\b", |dir| put(dir, "a\\b", b""), "has a backslash"),
        ("a\\nb", |dir| put(dir, "a\nb", b""), "control character"),
        (".GIT/config", |dir| put(dir, ".GIT/config", b""), "stands for .git"),
        ("nul.txt", |dir| put(dir, "nul.txt", b""), "device"),
        ("x:y", |dir| put(dir, "x:y", b""), "Windows does not allow"),
        ("\\u{202e}", |dir| put(dir, "x\u{202e}y", b""), "reorders text"),
        ("OK.TXT", |dir| put(dir, "OK.TXT", b""), "cannot stand side by side"),
        (
            "cafe\\u{301}",
            |dir| {
                put(dir, "caf\u{e9}/x", b"");
                put(dir, "cafe\u{301}/y", b"");
            },
            "cannot stand side by side",
        ),
    ];
    for (path, prepare, words) in cases {
        let (code, message) = refusal(prepare);
        assert_eq!(code, "invalid_path", "{path}: {message}");
        assert!(message.contains(path) && message.contains(words), "{path}: {message}");
        assert!(message.contains("/b"), "the bundle is named: {message}");
    }
    let (code, message) = refusal(|dir| {
        fs::write(dir.join(OsStr::from_bytes(b"x\xff")), "").unwrap();
    });
    assert_eq!(code, "invalid_path");
    assert!(message.contains("not UTF-8"), "{message}");
}

#[test]
fn a_root_document_that_is_a_link_out_of_the_tree_is_refused() {
    let dir = folder(&[("real.md", DOCUMENT.as_bytes()), ("tree/x", b"")]);
    let tree = dir.path().join("tree");
    fs::create_dir(tree.join("b")).unwrap();
    for target in ["../../real.md", "../absent.md", dir.path().join("real.md").to_str().unwrap()] {
        link(&tree.join("b"), target, "SKILL.md");
        let error = bundles(&tree).expect_err("a link").to_string();
        assert!(error.contains("b/SKILL.md is a link"), "{target}: {error}");
        fs::remove_file(tree.join("b/SKILL.md")).unwrap();
    }
    // A file between listing and reading.
    link(&tree.join("b"), "../x", "SKILL.md");
    put(&tree, "x", DOCUMENT.as_bytes());
    let found = skills_bundles::find_bundles(&tree).unwrap();
    fs::remove_file(tree.join("x")).unwrap();
    link(&tree, "../real.md", "x");
    assert!(found.candidates[0].read().is_err());
}

#[test]
fn bundle_limits_are_inclusive() {
    let many = |count: usize| {
        move |dir: &Path| {
            (0..count).for_each(|number| put(dir, &format!("d/{number}"), b""));
        }
    };
    let (code, message) = refusal(many(MAX_BUNDLE_FILES - 1));
    assert_eq!(code, "too_large");
    assert!(message.contains(&format!("{} files", MAX_BUNDLE_FILES + 1)), "{message}");
    let dir = folder(&[("SKILL.md", DOCUMENT.as_bytes())]);
    many(MAX_BUNDLE_FILES - 1)(dir.path());
    assert_eq!(bundles(dir.path()).unwrap()[0].1.meta().files.len(), MAX_BUNDLE_FILES);

    let half = MAX_BUNDLE_BYTES / 2;
    let large = vec![0; half - DOCUMENT.len()];
    let dir = folder(&[("SKILL.md", DOCUMENT.as_bytes()), ("a", &large), ("b", &vec![1; half])]);
    assert!(bundles(dir.path()).is_ok());
    // One byte more, in any file and in any order of reading.
    let longer = format!("{DOCUMENT}\n");
    for (path, bytes) in [("c", b"x" as &[u8]), ("SKILL.md", longer.as_bytes())] {
        put(dir.path(), path, bytes);
        let error = bundles(dir.path()).expect_err("too large");
        assert_eq!(error.code().as_str(), "too_large", "{path}");
        assert!(error.to_string().contains("bundle too large"), "{error}");
        let _ = fs::remove_file(dir.path().join("c"));
    }
}

#[test]
fn a_root_document_must_be_text_within_the_size_limit() {
    for (document, code, words) in [
        (b"a\xff" as &[u8], "unreadable", "not UTF-8 text (byte 1)"),
        (&[b'x'; 262_145], "too_large", "at most 256 KiB (262144 bytes)"),
        (b"", "invalid_input", "must be non-empty"),
    ] {
        let (found, message) = refusal(|dir| fs::write(dir.join("SKILL.md"), document).unwrap());
        assert_eq!(found, code, "{message}");
        assert!(message.contains(words), "{message}");
    }
}

fn link(dir: &Path, to: &str, path: &str) {
    let full = dir.join(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(to, full).unwrap();
}

fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}
