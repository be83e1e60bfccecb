//! Messages of the command line for the mistakes of first use.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use serde_json::{Value, json};
use skills_testkit::{CommandOutput, program, run, unprivileged_program};

use crate::support::{BINARY, TestServer, mcp_clients::Pipe, terminal::run_on_terminal};

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = program(BINARY);
    // Not the bus that another process may serve at the default address.
    command.args(arguments).current_dir(dir).env("SKILLS_DATA_DIR", "data");
    command
}

fn skills(dir: &Path, arguments: &[&str]) -> CommandOutput {
    run(&mut command(dir, arguments))
}

/// Returns the error object of a command that must fail.
fn error(dir: &Path, arguments: &[&str]) -> Value {
    let ran = skills(dir, &[arguments, &["--json"]].concat());
    assert_eq!(ran.code, Some(1), "{arguments:?}: {}{}", ran.stdout, ran.stderr);
    let error: Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
    error["error"].clone()
}

fn add(dir: &Path, id: &str, text: &str) {
    let file = dir.join(format!("{id}.md"));
    fs::write(&file, text).unwrap();
    let ran = skills(dir, &["--data-dir", "data", "add", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn a_name_that_is_nearly_right_is_suggested() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add(dir, "pdf", "# PDF\n");
    for arguments in [["show", "pfd"], ["read", "iii://pfd"]] {
        let error = error(dir, &arguments);
        assert_eq!(
            (&error["code"], &error["hint"]),
            (&json!("not_found"), &json!("did you mean pdf?")),
            "{arguments:?}"
        );
    }
    let error = error(dir, &["show", "weather"]);
    assert!(error["hint"].as_str().unwrap().contains("skills list"), "{error}");
}

#[test]
fn hints_name_what_to_do_next() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add(dir, "pdf", "# PDF\n");
    for (arguments, code, hint) in [
        (&["prompt", "get", "nothing"] as &[&str], "not_found", "skills prompt list"),
        (&["show", "nothing"], "not_found", "skills list"),
        (&["add", "nowhere"], "unreadable", "owner/repo"),
    ] {
        let error = error(dir, arguments);
        assert_eq!(error["code"], code, "{arguments:?}: {error}");
        assert!(error["hint"].as_str().unwrap().contains(hint), "{arguments:?}: {error}");
    }
}

#[test]
fn help_lists_the_options_of_a_command_before_the_common_ones() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["add", "list", "sync", "serve"] {
        let help = skills(dir.path(), &[command, "-h"]).stdout;
        let (own, common) = help.split_once("\nCommon options:\n").unwrap();
        assert!(!own.contains("--data-dir") && common.contains("--data-dir"), "{command}: {help}");
        assert!(!common.contains("--json") && !common.contains("--dry-run"), "{command}: {help}");
    }
    let help = skills(dir.path(), &["init", "-h"]).stdout;
    assert!(!help.contains("Common options"), "they have no effect: {help}");
}

#[test]
fn stderr_of_a_command_with_json_is_json() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add(dir, "pdf", "# PDF\n");
    fs::write(dir.join("config.yaml"), "state_timeout_ms: soon\n").unwrap();
    for (arguments, code) in [
        (&["-v", "list", "--json"] as &[&str], 0),
        (&["-v", "show", "pfd", "--json"], 1),
        (&["list", "--json", "--frobnicate"], 2),
        (&["show", "--json"], 2),
    ] {
        let ran = skills(dir, arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {}", ran.stderr);
        assert!(!ran.stderr.is_empty(), "{arguments:?}");
        for line in ran.stderr.lines() {
            let line: Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert!(line.is_object(), "{line}");
        }
    }
    assert_eq!(
        skills(dir, &["list", "--frobnicate"]).stderr.lines().next().unwrap(),
        "error: unexpected argument '--frobnicate' found"
    );
}

#[test]
fn a_configuration_file_of_another_program_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add(dir, "pdf", "# PDF\n");
    fs::write(
        dir.join("config.yaml"),
        "version: 3\nservices:\n  web: {image: nginx}\nvolumes: []\n",
    )
    .unwrap();
    let ran = skills(dir, &["list"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("no setting of this program"), "{}", ran.stderr);
}

#[test]
fn the_http_port_as_the_bus_is_named_at_once() {
    let server = TestServer::new();
    let url = server.process.http.replace("http://", "ws://");
    let error = error(server.dir(), &["--url", &url, "list"]);
    assert_eq!(error["code"], "bad_url", "{error}");
    assert!(error["message"].as_str().unwrap().contains("HTTP port"), "{error}");
}

#[test]
fn a_directory_without_permission_is_not_called_empty() {
    if skills_testkit::needs_embedded_store("is about permissions of the file") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    add(dir.path(), "pdf", "# PDF\n");
    let data = dir.path().join("data");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = unprivileged_program(BINARY);
    let ran = run(command.args(["list", "--json", "--data-dir", "data"]).current_dir(dir.path()));
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("ermission denied"), "{error}");
    assert!(error["error"]["hint"].as_str().unwrap().contains("permissions"), "{error}");
}

#[test]
fn an_empty_database_is_not_taken_for_a_new_one() {
    if skills_testkit::needs_embedded_store("empties the file") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add(dir, "pdf", "# PDF\n");
    let path = dir.join("data/skills.db");
    fs::write(&path, "").unwrap();
    let error = error(dir, &["list"]);
    assert_eq!(error["code"], "store_corrupt", "{error}");
    assert!(error["message"].as_str().unwrap().contains("it is empty"), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 0, "it was not touched");
}

#[test]
fn a_size_limit_is_named_in_its_unit() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("big.md"), "x".repeat(300_000)).unwrap();
    let ran = skills(dir, &["--data-dir", "data", "add", "big.md"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("256 KiB"), "{}", ran.stderr);
}

#[test]
fn the_documentation_is_part_of_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let page = skills(dir, &["help", "errors"]).stdout;
    assert!(page.contains("| `not_found` |"), "{page}");
    let both = skills(dir, &["help", "validate"]).stdout;
    assert!(both.contains("Usage: skills validate") && both.contains("tools-commas"), "{both}");
    let nested = skills(dir, &["help", "key", "create"]).stdout;
    assert!(nested.contains("--uid") && !nested.contains("--url"), "{nested}");
    assert!(skills(dir, &["help"]).stdout.contains("Pages: acp, "));
    assert_eq!(error(dir, &["validate", "nowhere"])["code"], "unreadable");
    assert_eq!(skills(dir, &["help", "nonsense"]).code, Some(1));
}

#[test]
fn a_listing_fits_the_terminal_and_times_have_a_zone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add(dir, "pdf", &format!("# PDF\n\n{}\n", "Reads and writes documents. ".repeat(20)));
    let listed = run_on_terminal(command(dir, &["list"]), 80, None);
    let rows: Vec<&str> = listed.lines().collect();
    assert_eq!(rows.len(), 2, "{listed}");
    assert!(rows[1].contains("…") && rows[1].contains("Z  Reads"), "{listed}");
    let visible = |row: &str| {
        let mut is_escape = false;
        row.chars()
            .filter(|c| {
                let is_hidden = is_escape || *c == '\u{1b}';
                is_escape = is_hidden && !(is_escape && c.is_ascii_alphabetic());
                !is_hidden && !c.is_control()
            })
            .count()
    };
    assert!(visible(rows[1]) <= 80, "{} in {listed}", visible(rows[1]));
    let piped = skills(dir, &["list"]).stdout;
    assert!(piped.lines().nth(1).unwrap().len() > 120, "a pipe gets everything");
}

#[test]
fn without_a_command_and_an_engine_the_program_introduces_itself() {
    let dir = tempfile::tempdir().unwrap();
    let is_allowed =
        run(program("unshare").args(["--map-root-user", "--net", "true"])).code == Some(0);
    if !is_allowed {
        return;
    }
    let mut command = program("unshare");
    command.args(["--map-root-user", "--net", BINARY]).current_dir(dir.path());
    let said = run_on_terminal(command, 100, Some("skills help"));
    assert!(said.contains("registry of skills") && said.contains("skills serve"), "{said}");
}

#[tokio::test]
async fn a_host_with_a_wrong_token_learns_the_reason() {
    let server = TestServer::with_args(&["--token", "the-token-of-the-bus"]);
    let url = server.process.url.as_str();
    let mut pipe = Pipe::session(&["--url", url, "--token", "another-token"], "2025-11-25").await;
    let answer = pipe.ask("resources/read", &json!({ "uri": "iii://a" })).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("refused the token"), "{answer}");
}
