use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};
use skills_testkit::program;

use super::{answer, document, json_answer, put, skills, text};

use crate::support::{BINARY, TestServer};

fn statuses(answer: &Value) -> Vec<(String, String)> {
    let cell = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let rows = answer["skills"].as_array().unwrap().iter();
    rows.map(|row| (cell(row, "id"), cell(row, "status"))).collect()
}

#[test]
fn equal_copies_count_once_and_an_unusable_copy_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let (data, folder) = (dir.path().join("data"), dir.path().join("repo"));
    for copy in [".claude/skills/pdf", "plugins/pdf", "skills/pdf"] {
        put(&folder, &format!("{copy}/SKILL.md"), document("pdf", "Reads PDF."));
        put(&folder, &format!("{copy}/scripts/run.py"), "print(1)\n");
    }
    put(&folder, "broken/pdf/SKILL.md", "---\nname: pdf\n---\n");
    let target = ["--data-dir", text(&data), "add", text(&folder)];
    let ran = skills(&[&target as &[&str], &["--json"]].concat());
    assert_eq!(ran.code, Some(1), "the broken copy is reported");
    let added: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        added["summary"],
        json!({
            "added": 1, "changed": 0, "unchanged": 0, "replaced": 0, "skipped": 0, "duplicates": 2,
            "failed": 1,
        })
    );
    let broken = added["skills"].as_array().unwrap().iter().find(|row| row["status"] == "failed");
    assert_eq!(broken.unwrap()["error"]["code"], "invalid_skill");
    fs::remove_dir_all(folder.join("broken")).unwrap();
    let again = answer(&target);
    assert_eq!(again, "added 0, changed 0, unchanged 1, duplicates 2, failed 0\n");
}

#[test]
fn different_skills_of_one_id_need_a_decision() {
    let dir = tempfile::tempdir().unwrap();
    let (data, folder) = (dir.path().join("data"), dir.path().join("repo"));
    put(&folder, "a/SKILL.md", document("twin", "One."));
    put(&folder, "b/SKILL.md", document("twin", "Two."));
    put(&folder, "c/SKILL.md", document("twin", "One."));
    let target = ["--data-dir", text(&data), "add", text(&folder)];
    let refused = skills(&[&target as &[&str], &["--json"]].concat());
    let refused: Value = serde_json::from_str(&refused.stdout).unwrap();
    let status = |status: &str| ("twin".to_owned(), status.to_owned());
    assert_eq!(statuses(&refused), [status("failed"), status("failed"), status("duplicate")]);
    let skipped = json_answer(&[&target as &[&str], &["--on-conflict", "skip"]].concat());
    assert_eq!(statuses(&skipped), [status("added"), status("skipped"), status("duplicate")]);
    let renamed = json_answer(&[&target as &[&str], &["--on-conflict", "rename"]].concat());
    assert_eq!(statuses(&renamed)[1], ("twin-2".to_owned(), "added".to_owned()));
    assert_eq!(renamed["skills"][1]["renamed_from"], "twin");
}

#[test]
fn a_long_name_gets_a_stable_short_id() {
    let dir = tempfile::tempdir().unwrap();
    let (data, folder) = (dir.path().join("data"), dir.path().join("repo"));
    let long = format!("a-{}", "very-long-name-".repeat(6).trim_end_matches('-'));
    put(&folder, &format!("{long}/SKILL.md"), document(&long, ""));
    let target = ["--data-dir", text(&data), "add", text(&folder)];
    let ran = skills(&target);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains(&format!("shortened: {long} is too long for an id and becomes a-very"))
    );
    let again = json_answer(&target);
    assert_eq!(again["skills"][0]["status"], "unchanged");
    assert_eq!(again["skills"][0]["shortened_from"], json!(long));
    assert!(again["skills"][0]["id"].as_str().unwrap().len() <= 64);
}

#[test]
fn a_document_that_is_a_link_inside_the_folder_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (data, folder) = (dir.path().join("data"), dir.path().join("repo"));
    put(&folder, "shared/docs/pdf.md", document("pdf", "Shared."));
    put(&folder, "pdf/notes.md", "# Notes\n");
    symlink("../shared/docs/pdf.md", folder.join("pdf/SKILL.md")).unwrap();
    put(&folder, "xlsx/SKILL.md", document("xlsx", ""));
    put(&folder, "xlsx/run.py", "print(1)\n");
    fs::create_dir_all(folder.join(".claude/skills/xlsx")).unwrap();
    symlink("../../../xlsx/SKILL.md", folder.join(".claude/skills/xlsx/SKILL.md")).unwrap();
    fs::create_dir_all(folder.join("evil")).unwrap();
    put(dir.path(), "outside.md", document("evil", "s3cret"));
    symlink("../../outside.md", folder.join("evil/SKILL.md")).unwrap();
    let ran = skills(&["--data-dir", text(&data), "add", text(&folder)]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("evil/SKILL.md is a link"), "{}", ran.stderr);
    assert!(ran.stdout.ends_with("added 2, changed 0, unchanged 0, duplicates 1, failed 1\n"));
    let show = |id: &str| json_answer(&["--data-dir", text(&data), "show", id]);
    assert!(show("pdf")["skill"].as_str().unwrap().contains("Shared."));
    assert_eq!(
        show("xlsx")["files"].as_array().unwrap().len(),
        2,
        "the link is no skill of its own"
    );
}

/// 32 MiB of control characters take six times as much as JSON text.
#[test]
fn a_bundle_of_exactly_the_limit_passes_whatever_its_bytes_are() {
    let server = TestServer::new();
    let (url, bundle) = (server.process.url.as_str(), server.dir().join("big"));
    let document = document("big", "");
    put(&bundle, "SKILL.md", &document);
    let size = (32 << 20) - document.len();
    put(&bundle, "control.txt", vec![1; size / 2]);
    put(&bundle, "quotes.txt", vec![b'"'; size - size / 2]);
    // A debug build on a busy machine needs long for it.
    put(server.dir(), "patient.yaml", "state_timeout_ms: 600000\n");
    let config = server.dir().join("patient.yaml");
    let run = |arguments: &[&str]| {
        let mut command = program(BINARY);
        command.args(["--url", url, "--config", text(&config)]);
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let added: Value = serde_json::from_str(&run(&["add", text(&bundle), "--json"])).unwrap();
    assert_eq!(added["skills"][0]["bytes"], json!(32 << 20));
    let out = server.dir().join("out");
    run(&["export", "big", text(&out)]);
    assert_eq!(fs::read(out.join("control.txt")).unwrap(), vec![1; size / 2]);
    assert_eq!(fs::read(out.join("quotes.txt")).unwrap().len(), size - size / 2);
    put(&bundle, "more.txt", "x");
    let ran = skills(&["--url", url, "add", text(&bundle)]);
    assert!(ran.stderr.contains("bundle too large"), "{}", ran.stderr);
}

#[test]
fn a_bundle_may_have_two_thousand_files() {
    let server = TestServer::new();
    let (url, bundle) = (server.process.url.as_str(), server.dir().join("many"));
    put(&bundle, "SKILL.md", document("many", ""));
    for number in 1..2000 {
        put(&bundle, &format!("f/{number}.txt"), "x");
    }
    let added = json_answer(&["--url", url, "add", text(&bundle)]);
    assert_eq!(added["skills"][0]["files"], json!(2000));
    put(&bundle, "f/2000.txt", "x");
    let ran = skills(&["--url", url, "add", text(&bundle)]);
    assert!(ran.stderr.contains("bundle has 2001 files"), "{}", ran.stderr);
}
