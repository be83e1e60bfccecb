use std::fs;

use serde_json::json;

use super::{answer, json_answer, put, put_bundles, skills, text, tree};
use crate::support::{Home, keys};

#[test]
fn a_skill_is_exported_as_it_was_and_never_over_something_else() {
    let home = Home::new();
    let target = ["--url", home.server.url.as_str()];
    let (from, to) = (home.dir().join("one"), home.dir().join("out/one"));
    put_bundles(home.dir(), &["one"]);
    let at = |arguments: &[&str]| answer(&[&target as &[&str], arguments].concat());
    at(&["add", text(&from)]);

    let said = at(&["export", "one", text(&to)]);
    assert_eq!(said, format!("exported 3 files to {}\n", to.display()));
    assert_eq!(tree(&to), tree(&from));
    let again = json_answer(&[&target as &[&str], &["export", "one", text(&to)]].concat());
    assert_eq!(again, json!({ "id": "one", "written": 0, "unchanged": 3 }));

    put(&to, "assets/raw.bin", "mine");
    let ran = skills(&[&target as &[&str], &["export", "one", text(&to)]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("assets/raw.bin is there already"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--force"), "{}", ran.stderr);
    assert_eq!(fs::read(to.join("assets/raw.bin")).unwrap(), b"mine");
    at(&["export", "one", text(&to), "--force"]);
    assert_eq!(tree(&to), tree(&from));

    let ran = skills(&[&target as &[&str], &["export", "nobody", text(&to)]].concat());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("skill not found: nobody"), "{}", ran.stderr);
}

#[test]
fn show_lists_the_files() {
    let home = Home::new();
    let target = ["--url", home.server.url.as_str()];
    put_bundles(home.dir(), &["one"]);
    put(home.dir(), "plain.md", "# Plain\n");
    let paths = [home.dir().join("one"), home.dir().join("plain.md")];
    answer(&[&target as &[&str], &["add", text(&paths[0]), text(&paths[1])]].concat());
    let shown = answer(&[&target as &[&str], &["show", "one"]].concat());
    assert!(shown.contains("references/deep/notes.md  15 B\n"), "{shown}");
    let shown = json_answer(&[&target as &[&str], &["show", "one"]].concat());
    let files = shown["files"].as_array().unwrap();
    let paths: Vec<_> = files.iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["SKILL.md", "assets/raw.bin", "references/deep/notes.md"]);
    assert_eq!(keys(&files[1]), ["digest", "path", "size"]);
    assert_eq!(files[1]["size"], 4);
    assert!(files[1]["digest"].as_str().unwrap().starts_with("sha256:"));
    let plain = answer(&[&target as &[&str], &["show", "plain"]].concat());
    assert!(!plain.contains("FILE"), "one file needs no list: {plain}");
}
