use std::fs;

use serde_json::json;

use super::{answer, document, json_answer, put, put_bundles, skills, text, timestamps};

use crate::support::{TestServer, ids, keys, read};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adding_a_folder_again_writes_only_changed_bundles() {
    let server = TestServer::new();
    let target = ["--url", server.process.url.as_str(), "add"];
    let dir = server.dir().join("folder");
    put_bundles(&dir, &["one", "two", "deep/down/three"]);
    put(&dir, "README.md", "# not a bundle");
    let add = |more: &[&str]| answer(&[&target as &[&str], &[text(&dir)], more].concat());

    let dry = add(&["--dry-run"]);
    assert!(dry.contains("new iii://one (3 files, "), "{dry}");
    assert!(dry.ends_with("added 3, changed 0, unchanged 0, failed 0 (nothing was written)\n"));
    let worker = server.worker().await;
    assert!(timestamps(&worker).await.is_empty());

    let output = add(&[]);
    assert!(output.contains("registered iii://two (3 files, "), "{output}");
    assert!(output.ends_with("added 3, changed 0, unchanged 0, failed 0\n"), "{output}");
    let first = timestamps(&worker).await;
    assert_eq!(first.keys().collect::<Vec<_>>(), ["one", "three", "two"]);

    assert_eq!(add(&[]), "added 0, changed 0, unchanged 3, failed 0\n");
    assert_eq!(timestamps(&worker).await, first, "nothing was written");

    put(&dir, "two/assets/raw.bin", b"other");
    assert!(
        add(&["--dry-run"])
            .ends_with("added 0, changed 1, unchanged 2, failed 0 (nothing was written)\n")
    );
    assert!(add(&[]).ends_with("added 0, changed 1, unchanged 2, failed 0\n"));
    let second = timestamps(&worker).await;
    assert_eq!(second["one"], first["one"]);
    assert_ne!(second["two"], first["two"]);

    // A removed file is a change too.
    fs::remove_file(dir.join("one/assets/raw.bin")).unwrap();
    let changed = json_answer(&[&target as &[&str], &[text(&dir)]].concat());
    assert_eq!(keys(&changed), ["skills", "summary"]);
    let summary = json!({
        "added": 0, "changed": 1, "unchanged": 2, "replaced": 0, "skipped": 0, "duplicates": 0,
        "failed": 0,
    });
    assert_eq!(changed["summary"], summary);
    let rows = changed["skills"].as_array().unwrap();
    let row = rows.iter().find(|row| row["id"] == "one").unwrap();
    assert_eq!(
        keys(row),
        ["bytes", "files", "id", "path", "registered_at", "served", "status", "version"]
    );
    assert_eq!((&row["status"], &row["files"]), (&json!("changed"), &json!(2)));
    assert!(row["path"].as_str().unwrap().ends_with("folder/one"));
    assert_eq!(row["registered_at"], json!(timestamps(&worker).await["one"]));
    let files = worker.ok("skills::files", json!({ "id": "one" })).await;
    assert_eq!(files["files"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_paths_of_every_kind_can_be_added_at_once() {
    let server = TestServer::new();
    let target = ["--url", server.process.url.as_str(), "add"];
    put_bundles(server.dir(), &["a", "b"]);
    put(server.dir(), "plain.md", "# Plain\n\nNo frontmatter at all.\n");
    let path = |name: &str| server.dir().join(name).to_str().unwrap().to_owned();
    let (a, b, plain) = (path("a"), path("b"), path("plain.md"));
    let output = answer(&[&target as &[&str], &[&a, &b, &plain, &a]].concat());
    assert!(output.ends_with("added 3, changed 0, unchanged 0, failed 0\n"), "{output}");
    let worker = server.worker().await;
    assert_eq!(ids(&worker).await, ["a", "b", "plain"]);
    // One skill is reported in the singular.
    assert_eq!(answer(&[&target as &[&str], &[&plain]].concat()), "unchanged iii://plain\n");
    let renamed = answer(&[&target as &[&str], &[&a, "--id", "c"]].concat());
    assert!(renamed.starts_with("registered iii://c (3 files, "), "{renamed}");
    assert_eq!(read(&worker, "iii://c").await, document("a", "Body."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_bundles_are_reported_and_the_rest_is_added() {
    let server = TestServer::new();
    let target = ["--url", server.process.url.as_str(), "add"];
    let dir = server.dir().join("folder");
    put_bundles(&dir, &["good"]);
    put(&dir, "nothing-said/SKILL.md", "---\nname: nothing-said\n---\n# No description\n");
    put(&dir, "linked/SKILL.md", document("linked", ""));
    std::os::unix::fs::symlink("/etc/passwd", dir.join("linked/passwd")).unwrap();
    put(&dir, "clash/SKILL.md", document("clash", ""));
    put(&dir, "clash/a.md", "");
    put(&dir, "clash/A.md", "");
    put(&dir, "warned/SKILL.md", "---\nname: Warned\ndescription: d\n---\n");
    put(&dir, "twice-1/SKILL.md", document("twice", "1"));
    put(&dir, "twice-2/SKILL.md", document("twice", "2"));
    let ran = skills(&[&target as &[&str], &[text(&dir)]].concat());
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.ends_with("added 2, changed 0, unchanged 0, failed 5\n"), "{}", ran.stdout);
    for words in [
        "nothing-said/SKILL.md:",
        "linked/passwd is a link",
        "\"A.md\" and \"a.md\" cannot stand side by side",
        "twice-1 and ",
        "twice-2 have the same id twice",
        "warning[name-lowercase]",
        "5 of 7 skills could not be added",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    let worker = server.worker().await;
    assert_eq!(ids(&worker).await, ["good", "warned"]);

    let ran = skills(&[&target as &[&str], &[text(&dir), "--json"]].concat());
    assert_eq!(ran.code, Some(1));
    let answer: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let rows = answer["skills"].as_array().unwrap();
    let codes: Vec<_> = rows.iter().filter_map(|row| row["error"]["code"].as_str()).collect();
    assert_eq!(
        codes,
        ["invalid_path", "invalid_path", "invalid_skill", "duplicate_id", "duplicate_id"]
    );
    let warned = rows.iter().find(|row| row["id"] == "warned").unwrap();
    assert!(
        warned["findings"].as_array().unwrap().iter().any(|finding| {
            finding["code"] == "name-lowercase" && finding["level"] == "warning"
        })
    );
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["error"]["code"], "not_all_added");
}

#[test]
fn adding_one_invalid_bundle_reports_its_error_alone() {
    if skills_testkit::needs_embedded_store("expects that no file is created") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    put(dir.path(), "empty/README.md", "# A");
    put(dir.path(), "bad/SKILL.md", "---\nname: [\n---\n");
    put(dir.path(), "many/one/SKILL.md", document("one", ""));
    put(dir.path(), "many/two/SKILL.md", document("two", ""));
    put(dir.path(), "a.zip", "PK");
    for (arguments, code, words) in [
        (&["empty"] as &[&str], "no_bundle", "there is no SKILL.md in"),
        (&["absent"], "unreadable", "cannot read"),
        (&["bad"], "invalid_skill", "bad/SKILL.md:"),
        (&["a.zip"], "bad_archive", "a.zip is neither a text document nor an archive"),
        (&["many", "--id", "x"], "id_for_many", "but 2 were found"),
        (&["many/one", "--id", "X"], "invalid_input", "lowercase"),
        (&["--watch", "a.zip"], "cannot_watch", "not a folder"),
        (&["--watch", "absent"], "cannot_watch", "cannot watch"),
    ] {
        let at = |argument: &&str| match dir.path().join(argument).exists() || *argument == "absent"
        {
            true => text(&dir.path().join(argument)).to_owned(),
            false => (*argument).to_owned(),
        };
        let arguments: Vec<String> = arguments.iter().map(at).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ran =
            skills(&[&["--data-dir", text(&data), "add", "--json"], arguments.as_slice()].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{arguments:?}");
        let error: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(error["error"]["code"], code, "{error}");
        assert!(error["error"]["message"].as_str().unwrap().contains(words), "{error}");
        assert!(!data.exists(), "{arguments:?}: a store was made");
    }
    let usage = skills(&["add", "--watch", "--id", "x", "y"]);
    assert_eq!(usage.code, Some(2));
    // A dry run creates no store.
    let many = dir.path().join("many");
    let output = answer(&["--data-dir", text(&data), "add", "--dry-run", text(&many)]);
    assert!(output.contains("added 2"), "{output}");
    assert!(!data.exists());
}
