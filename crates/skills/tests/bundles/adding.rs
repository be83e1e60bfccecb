use std::fs;

use serde_json::json;

use super::{answer, document, json_answer, moments, put, put_bundles, skills, text};
use crate::support::{Home, ids, keys, read};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_bundles_is_added_and_only_what_changes_is_written_again() {
    let home = Home::new();
    let target = ["--url", home.server.url.as_str(), "add"];
    let dir = home.dir().join("folder");
    put_bundles(&dir, &["one", "two", "deep/down/three"]);
    put(&dir, "README.md", "# not a bundle");
    let add = |more: &[&str]| answer(&[&target as &[&str], &[text(&dir)], more].concat());

    let dry = add(&["--dry-run"]);
    assert!(dry.contains("would register iii://one (3 files, "), "{dry}");
    assert!(dry.ends_with("added 3, changed 0, unchanged 0, failed 0 (nothing was written)\n"));
    let worker = home.worker().await;
    assert!(moments(&worker).await.is_empty());

    let said = add(&[]);
    assert!(said.contains("registered iii://two (3 files, "), "{said}");
    assert!(said.ends_with("added 3, changed 0, unchanged 0, failed 0\n"), "{said}");
    let first = moments(&worker).await;
    assert_eq!(first.keys().collect::<Vec<_>>(), ["one", "three", "two"]);

    assert_eq!(add(&[]), "added 0, changed 0, unchanged 3, failed 0\n");
    assert_eq!(moments(&worker).await, first, "nothing was written");

    put(&dir, "two/assets/raw.bin", b"other");
    assert!(
        add(&["--dry-run"])
            .ends_with("added 0, changed 1, unchanged 2, failed 0 (nothing was written)\n")
    );
    assert!(add(&[]).ends_with("added 0, changed 1, unchanged 2, failed 0\n"));
    let second = moments(&worker).await;
    assert_eq!(second["one"], first["one"]);
    assert_ne!(second["two"], first["two"]);

    // A file less is a change too.
    fs::remove_file(dir.join("one/assets/raw.bin")).unwrap();
    let changed = json_answer(&[&target as &[&str], &[text(&dir)]].concat());
    assert_eq!(keys(&changed), ["skills", "summary"]);
    let summary = json!({ "added": 0, "changed": 1, "unchanged": 2, "failed": 0 });
    assert_eq!(changed["summary"], summary);
    let rows = changed["skills"].as_array().unwrap();
    let row = rows.iter().find(|row| row["id"] == "one").unwrap();
    assert_eq!(keys(row), ["bytes", "files", "id", "path", "registered_at", "status"]);
    assert_eq!((&row["status"], &row["files"]), (&json!("changed"), &json!(2)));
    assert!(row["path"].as_str().unwrap().ends_with("folder/one"));
    assert_eq!(row["registered_at"], json!(moments(&worker).await["one"]));
    let files = worker.ok("skills::files", json!({ "id": "one" })).await;
    assert_eq!(files["files"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_paths_at_once_and_each_kind_of_them() {
    let home = Home::new();
    let target = ["--url", home.server.url.as_str(), "add"];
    put_bundles(home.dir(), &["a", "b"]);
    put(home.dir(), "plain.md", "# Plain\n\nNo frontmatter at all.\n");
    let path = |name: &str| home.dir().join(name).to_str().unwrap().to_owned();
    let (a, b, plain) = (path("a"), path("b"), path("plain.md"));
    let said = answer(&[&target as &[&str], &[&a, &b, &plain, &a]].concat());
    assert!(said.ends_with("added 3, changed 0, unchanged 0, failed 0\n"), "{said}");
    let worker = home.worker().await;
    assert_eq!(ids(&worker).await, ["a", "b", "plain"]);
    // One skill is spoken of by itself.
    assert_eq!(answer(&[&target as &[&str], &[&plain]].concat()), "unchanged iii://plain\n");
    let renamed = answer(&[&target as &[&str], &[&a, "--id", "c"]].concat());
    assert!(renamed.starts_with("registered iii://c (3 files, "), "{renamed}");
    assert_eq!(read(&worker, "iii://c").await, document("a", "Body."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_used_is_reported_and_the_rest_is_added() {
    let home = Home::new();
    let target = ["--url", home.server.url.as_str(), "add"];
    let dir = home.dir().join("folder");
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
        "twice-2 would both be twice",
        "warning[name-lowercase]",
        "5 of 7 skills could not be added",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    let worker = home.worker().await;
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
fn what_is_wrong_with_a_single_one_is_the_whole_answer() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    put(dir.path(), "empty/README.md", "# A");
    put(dir.path(), "bad/SKILL.md", "no frontmatter");
    put(dir.path(), "many/one/SKILL.md", document("one", ""));
    put(dir.path(), "many/two/SKILL.md", document("two", ""));
    put(dir.path(), "a.zip", "PK");
    for (arguments, code, words) in [
        (&["empty"] as &[&str], "no_bundle", "there is no SKILL.md in"),
        (&["absent"], "unreadable", "cannot read"),
        (&["bad"], "invalid_skill", "bad/SKILL.md:1:1:"),
        (&["a.zip"], "bad_archive", "a.zip: the archive cannot be read"),
        (&["many", "--id", "x"], "id_for_many", "there are 2"),
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
    // A dry run needs no store and makes none.
    let many = dir.path().join("many");
    let said = answer(&["--data-dir", text(&data), "add", "--dry-run", text(&many)]);
    assert!(said.contains("added 2"), "{said}");
    assert!(!data.exists());
}
