//! Commands for the first steps: `status`, `init`, `prompt add` and `doctor`.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};
use skills_testkit::{CommandOutput, program, run};

use crate::support::{BINARY, TestServer};

fn skills(dir: &Path, arguments: &[&str]) -> CommandOutput {
    run(program(BINARY).args(arguments).current_dir(dir).env("HOME", dir))
}

fn answer(dir: &Path, arguments: &[&str]) -> String {
    let ran = skills(dir, arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {}{}", ran.stdout, ran.stderr);
    ran.stdout
}

fn json_answer(dir: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(dir, &[arguments, &["--json"]].concat())).unwrap()
}

#[test]
fn status_of_an_empty_machine_says_where_skills_will_be() {
    if skills_testkit::needs_embedded_store("expects that an empty data directory has no store") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let status = json_answer(dir.path(), &["--data-dir", "nothing-yet", "status"]);
    assert_eq!(status["registry"], json!({ "data_dir": "nothing-yet", "opened_by": null }));
    assert_eq!((&status["skills"], &status["healthy"]), (&json!(0), &json!(true)));
    let status = answer(dir.path(), &["--data-dir", "nothing-yet", "status"]);
    assert!(status.contains("nothing-yet, nothing is stored yet"), "{status}");
    assert!(!dir.path().join("nothing-yet").exists(), "a question creates nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_names_the_registry_its_content_and_its_users() {
    if skills_testkit::needs_embedded_store("expects the data directory in the status") {
        return;
    }
    let server = TestServer::new();
    let (dir, data) = (server.dir().to_owned(), server.data_dir());
    let data = data.to_str().unwrap();
    fs::write(dir.join("a.md"), "# A\n").unwrap();
    answer(&dir, &["--data-dir", data, "add", "a.md"]);
    answer(&dir, &["--data-dir", data, "add", "a.md", "--id", "b", "--tier", "market"]);
    let worker = server.worker().await;
    worker.ok("engine::workers::register", json!({ "name": "mail", "pid": 1 })).await;
    for target in [["--data-dir", data], ["--url", &server.process.url]] {
        let status = json_answer(&dir, &[&target[..], &["status"]].concat());
        assert_eq!(status["version"], env!("CARGO_PKG_VERSION"), "{status}");
        assert_eq!((&status["skills"], &status["prompts"]), (&json!(2), &json!(0)), "{target:?}");
        assert_eq!(status["tiers"], json!({ "official": 1, "market": 1 }), "{target:?}");
        assert_eq!(status["connected"][0]["name"], "mail", "{status}");
        assert_eq!(status["connected"].as_array().unwrap().len(), 1, "{status}");
        assert_eq!(status["healthy"], true, "{target:?}");
    }
    let status = answer(&dir, &["--data-dir", data, "status"]);
    assert!(
        status.contains(&server.process.url) && status.contains(&server.process.http),
        "{status}"
    );
    assert!(
        status.contains("2 (1 market, 1 official)") && status.contains("mail (process 1)"),
        "{status}"
    );
    let (code, _, output) = server.process.stop();
    assert_eq!(code, Some(0), "{output}");
}

#[test]
fn status_of_a_closed_store_is_read_from_its_directory() {
    if skills_testkit::needs_embedded_store("expects the data directory in the status") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.md"), "# A\n").unwrap();
    answer(dir.path(), &["--data-dir", "data", "add", "a.md"]);
    let status = json_answer(dir.path(), &["--data-dir", "data", "status"]);
    assert_eq!(status["registry"], json!({ "data_dir": "data", "opened_by": "this process" }));
    assert_eq!(status["connected"], json!([]));
}

#[test]
fn a_new_skill_passes_strict_validation_and_can_be_added() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    answer(dir, &["init", "bare"]);
    let made = answer(dir, &["init", "my-tool", "--with", "scripts,references,assets"]);
    assert!(
        made.contains("created ./my-tool/SKILL.md") && made.contains("skills add ./my-tool"),
        "{made}"
    );
    for name in ["bare", "my-tool"] {
        let report = json_answer(dir, &["validate", name]);
        let findings = report["files"][0]["findings"].as_array();
        assert!(findings.is_none_or(Vec::is_empty), "{report}");
    }
    let script = dir.join("my-tool/scripts/run.sh");
    assert_ne!(fs::metadata(&script).unwrap().permissions().mode() & 0o111, 0);
    assert!(run(&mut std::process::Command::new(&script)).stdout.contains("run.sh"));
    assert!(answer(dir, &["--data-dir", "data", "add", "my-tool"]).contains("iii://my-tool"));
    let ran = skills(dir, &["init", "my-tool", "--json"]);
    assert_eq!(ran.code, Some(1));
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["error"]["code"], "exists");
    for name in ["My Tool", "../escape", "a--b", "-a", ""] {
        let ran = skills(dir, &["init", "--json", "--", name]);
        assert_eq!(ran.code, Some(1), "{name}: {}", ran.stderr);
        let error: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(error["error"]["code"], "invalid_input", "{name}");
    }
    assert!(!dir.parent().unwrap().join("escape").exists());
}

#[test]
fn a_name_that_sync_leaves_out_is_refused_by_init() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["con", "nul", "com1", "lpt9"] {
        let ran = skills(dir.path(), &["init", "--json", name]);
        assert_eq!(ran.code, Some(1), "{name}: {}", ran.stderr);
        let error: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(error["error"]["code"], "invalid_input", "{name}");
        assert_eq!(error["error"]["hint"], "choose another name", "{name}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_is_added_and_rendered_by_its_function() {
    let server = TestServer::new();
    let worker = server.worker().await;
    worker.serve("mail::prompt", |data| Some(Ok(json!(format!("Dear {},", data["to"]))))).await;
    let (dir, url) = (server.dir(), server.process.url.as_str());
    let add = ["--url", url, "prompt", "add", "mail", "--function", "mail::prompt"];
    let more =
        ["--description", "Writes a mail.", "--required", "to=Recipient", "--optional", "cc"];
    assert_eq!(answer(dir, &[&add[..], &more].concat()), "registered prompt mail\n");
    let list = json_answer(dir, &["--url", url, "prompt", "list"]);
    let arguments = json!([
        { "name": "to", "description": "Recipient", "required": true },
        { "name": "cc", "required": false },
    ]);
    assert_eq!(list["prompts"][0]["arguments"], arguments, "{list}");
    let rendered = answer(dir, &["--url", url, "prompt", "get", "mail", "to=Ann"]);
    assert_eq!(rendered, "Dear \"Ann\",\n");
    let twice = [&add[..], &["--description", "x", "--required", "a", "--optional", "a"]].concat();
    assert_eq!(skills(dir, &twice).code, Some(1), "an argument given twice");
}

/// Returns the outcome and hint of a check.
fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["check"] == name).unwrap_or_else(|| panic!("{name}: {report}"))
}

#[test]
fn doctor_finds_what_is_wrong_and_gives_hints() {
    if skills_testkit::needs_embedded_store("damages the file") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    fs::write(dir.join("a.md"), "# A\n").unwrap();
    answer(dir, &["--data-dir", "data", "add", "a.md"]);
    let report = json_answer(dir, &["doctor", "--data-dir", "data"]);
    assert_eq!(check(&report, "store")["outcome"], "ok", "{report}");
    assert_eq!(check(&report, "data directory")["outcome"], "ok", "{report}");
    assert_eq!(check(&report, "MCP clients")["outcome"], "ok", "{report}");

    // Another program of the same name, a client, an open directory, a damaged store and an unusable configuration.
    let bin = dir.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("skills"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(bin.join("skills"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(dir.join(".cursor")).unwrap();
    fs::set_permissions(dir.join("data"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(dir.join("data/skills.db"), "no database").unwrap();
    fs::write(dir.join("config.yaml"), "http_token: 7\n").unwrap();
    let mut command = program(BINARY);
    command.args(["doctor", "--json", "--data-dir", "data"]).current_dir(dir);
    let ran = run(command.env("HOME", dir).env("PATH", &bin));
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    for (name, outcome, hint) in [
        ("program", "warning", "PATH"),
        ("configuration", "problem", ""),
        ("data directory", "warning", "chmod go-w"),
        ("store", "problem", "backup"),
        ("MCP clients", "warning", "skills connect cursor --write"),
    ] {
        let check = check(&report, name);
        assert_eq!(check["outcome"], outcome, "{check}");
        assert!(check["hint"].as_str().unwrap().contains(hint), "{check}");
    }
    let error: Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
    assert_eq!(error["error"]["code"], "problems_found");
}
