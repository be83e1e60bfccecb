use std::fs;

use serde_json::json;

use super::{answer, json_answer, put, put_bundles, skills, text, tree};

use crate::support::{TestServer, keys};

#[test]
fn a_skill_is_exported_unchanged_and_overwrites_nothing() {
    let server = TestServer::new();
    let target = ["--url", server.process.url.as_str()];
    let (from, to) = (server.dir().join("one"), server.dir().join("out/one"));
    put_bundles(server.dir(), &["one"]);
    let at = |arguments: &[&str]| answer(&[&target as &[&str], arguments].concat());
    at(&["add", text(&from)]);

    let output = at(&["export", "one", text(&to)]);
    assert_eq!(output, format!("exported 3 files to {}\n", to.display()));
    assert_eq!(tree(&to), tree(&from));
    let again = json_answer(&[&target as &[&str], &["export", "one", text(&to)]].concat());
    assert_eq!(again, json!({ "id": "one", "written": 0, "unchanged": 3 }));

    put(&to, "assets/raw.bin", "mine");
    let ran = skills(&[&target as &[&str], &["export", "one", text(&to)]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("assets/raw.bin already exists"), "{}", ran.stderr);
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
    let server = TestServer::new();
    let target = ["--url", server.process.url.as_str()];
    put_bundles(server.dir(), &["one"]);
    put(server.dir(), "plain.md", "# Plain\n");
    let paths = [server.dir().join("one"), server.dir().join("plain.md")];
    answer(&[&target as &[&str], &["add", text(&paths[0]), text(&paths[1])]].concat());
    let shown = answer(&[&target as &[&str], &["show", "one"]].concat());
    assert!(shown.contains("references/deep/notes.md  15 B\n"), "{shown}");
    let shown = json_answer(&[&target as &[&str], &["show", "one"]].concat());
    let files = shown["files"].as_array().unwrap();
    let paths: Vec<_> = files.iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["SKILL.md", "assets/raw.bin", "references/deep/notes.md"]);
    assert_eq!(keys(&files[1]), ["digest", "executable", "path", "size"]);
    assert_eq!(files[1]["size"], 4);
    assert!(files[1]["digest"].as_str().unwrap().starts_with("sha256:"));
    let plain = answer(&[&target as &[&str], &["show", "plain"]].concat());
    assert!(!plain.contains("FILE"), "one file needs no list: {plain}");
}

/// Skills of every kind can be exported and added again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_exported_skill_can_be_added_again() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let documents = [
        ("plain", "# Plain\n\nNo frontmatter at all.\n", &[] as &[&str]),
        ("no-description", "---\nname: no-description\n---\n# A\n", &["--plain"]),
        ("bad-yaml", "---\nname: [\n---\n# A\n", &["--plain"]),
    ];
    for (id, body, flags) in documents {
        crate::support::register(&worker, id, body).await;
        let (to, data) = (server.dir().join("out").join(id), server.dir().join("other"));
        answer(&["--url", &server.process.url, "export", id, text(&to)]);
        let add = ["--data-dir", text(&data), "add", text(&to)];
        let ran = skills(&[&add as &[&str], flags].concat());
        assert_eq!(ran.code, Some(0), "{id}: {}", ran.stderr);
        assert!(ran.stderr.contains("warning["), "{id}: {}", ran.stderr);
        let read = answer(&["--data-dir", text(&data), "read", &format!("iii://{id}")]);
        assert_eq!(read, body);
        if !flags.is_empty() {
            let refused = skills(&add);
            assert!(
                refused.stderr.contains("as plain Markdown with --plain"),
                "{}",
                refused.stderr
            );
        }
    }
}
