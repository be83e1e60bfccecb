//! Unusable security settings stop the server, and credentials go only to the right server.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::Path,
    process::Command,
};

use serde_json::Value;
use skills_testkit::{CommandOutput, Request, ServerProcess, program, run};

use crate::support::{BINARY, TestServer};

const SECRET: &str = "s3cret";
const LONG_SECRET: &str = "s3cret-of-16-bytes";

/// Configuration files that must stop the server instead of opening it.
const UNUSABLE: [(&str, &str); 16] = [
    ("http_token: 12345\n", ":1:13: http_token must be text, not a number"),
    ("http_token: [s3cret]\n", ":1:13: http_token must be text"),
    ("http_token:\n", "http_token has no value"),
    ("http_token: ''\n", "http_token is set but empty"),
    ("http_token: '4711'\n", "http_token has fewer than 16 bytes"),
    ("mdp:\n  token: '4711'\n", "token has fewer than 16 bytes"),
    ("mdp:\n\ttoken: s3cret\n", ":2:"),
    ("http_token: s3cret\nhttp_token: s3cret\n", ":2:1: a setting is given twice"),
    ("http_token: s3cret\nscopes: [unclosed\n", "not valid YAML"),
    ("- http_token: s3cret\n", ":1:1: not a mapping of settings"),
    ("mdp: {token: 7}\n", ":1:14: mdp.token must be text"),
    ("mdp: s3cret\n", "mdp must be a mapping"),
    ("allow_host: skills.example\n", "allow_host must be a list"),
    ("allow_origin: [nonsense]\n", ":1:16: allow_origin has an unusable entry"),
    ("execution: {allow_upstream: ['a b']}\n", "execution.allow_upstream has an unusable entry"),
    ("tiers: {prefix: 7}\n", "tiers.prefix must be text"),
];

/// Commands of a server and of a worker attached to an absent engine.
fn modes(data: &Path) -> [(&'static str, Command); 2] {
    let mut attached = program(BINARY);
    attached.args(["--url", "ws://127.0.0.1:1", "--data-dir"]).arg(data);
    [("serve", ServerProcess::command(BINARY, data)), ("attached", attached)]
}

fn assert_refused(ran: &CommandOutput, expected: &str, case: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{case}: {}", ran.stderr);
    assert!(
        ran.stderr.contains("error: ") && ran.stderr.contains("hint: "),
        "{case}: {}",
        ran.stderr
    );
    assert!(ran.stderr.contains(expected), "{case}: {}", ran.stderr);
    assert!(!ran.stderr.contains(SECRET) && !ran.stderr.contains("12345"), "{}", ran.stderr);
}

#[test]
fn an_unreadable_configuration_stops_the_server() {
    for (text, expected) in UNUSABLE {
        let dir = tempfile::tempdir().unwrap();
        let (data, path) = (dir.path().join("data"), dir.path().join("c.yaml"));
        fs::write(&path, text).unwrap();
        for (mode, mut command) in modes(&data) {
            let ran = run(command.arg("--config").arg(&path));
            assert_refused(&ran, expected, &format!("{mode} {text:?}"));
            assert!(ran.stderr.contains(path.to_str().unwrap()), "{}", ran.stderr);
            assert!(!data.exists(), "a server that does not start leaves nothing behind");
        }
    }
}

#[test]
fn a_missing_named_configuration_file_stops_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for ((mode, mut flag), (_, mut variable)) in modes(&data).into_iter().zip(modes(&data)) {
        flag.args(["--config", "/nonexistent/c.yaml"]);
        variable.env("III_CONFIG", "/nonexistent/c.yaml");
        for command in [&mut flag, &mut variable] {
            assert_refused(&run(command), "/nonexistent/c.yaml", mode);
        }
        assert_refused(&run(variable.env("III_CONFIG", "")), "III_CONFIG is set but empty", mode);
    }
}

#[test]
fn an_unusable_security_variable_stops_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let not_utf8 = OsStr::from_bytes(b"s3cret\xff");
    for (name, value, expected) in [
        ("III_TOKEN", OsStr::new(""), "III_TOKEN is set but empty"),
        ("SKILLS_HTTP_TOKEN", OsStr::new(""), "SKILLS_HTTP_TOKEN is set but empty"),
        ("SKILLS_MDP_TOKEN", OsStr::new(""), "SKILLS_MDP_TOKEN is set but empty"),
        ("SKILLS_HTTP_TOKEN", OsStr::new("s3cret"), "SKILLS_HTTP_TOKEN has fewer than 16 bytes"),
        ("SKILLS_MDP_TOKEN", OsStr::new("s3cret"), "SKILLS_MDP_TOKEN has fewer than 16 bytes"),
        ("SKILLS_HTTP_TOKEN", OsStr::new("s3cret\n"), "SKILLS_HTTP_TOKEN begins or ends with"),
        ("III_TOKEN", not_utf8, "III_TOKEN is not valid UTF-8"),
        ("SKILLS_HTTP_TOKEN", not_utf8, "SKILLS_HTTP_TOKEN is not valid UTF-8"),
        ("SKILLS_MDP_TOKEN", not_utf8, "SKILLS_MDP_TOKEN is not valid UTF-8"),
        ("ADMIN_KEY", OsStr::new("s3cret"), "ADMIN_KEY has fewer than 16 bytes"),
        ("INTERNAL_API_SECRET", not_utf8, "INTERNAL_API_SECRET is not valid UTF-8"),
        ("MASTER_ENCRYPTION_KEY", OsStr::new("s3cret"), "MASTER_ENCRYPTION_KEY must be 64"),
    ] {
        for (mode, mut command) in modes(&data) {
            // An attached worker serves users only over HTTP.
            let path = dir.path().join("c.yaml");
            fs::write(&path, "http: 127.0.0.1:0\n").unwrap();
            let ran = run(command.arg("--config").arg(path).env(name, value));
            assert_refused(&ran, expected, &format!("{mode} {name}"));
        }
    }
    for (arguments, expected) in [
        (["--token", ""], "--token is set but empty"),
        (["--token", SECRET], "--token has fewer than 16 bytes"),
        (["--mdp-token", SECRET], "--mdp-token has fewer than 16 bytes"),
    ] {
        let ran = run(ServerProcess::command(BINARY, &data).args(arguments));
        assert_refused(&ran, expected, "flag");
    }
    // The token of an engine is chosen by the engine.
    let ran = run(ServerProcess::command(BINARY, &data).env("III_TOKEN", SECRET));
    assert_refused(&ran, "III_TOKEN has fewer than 16 bytes", "variable");
}

#[test]
fn a_quoted_number_is_a_token_and_other_unusable_settings_are_warnings() {
    let server = TestServer::with_config(
        "http_token: '0123456789012345'\nstate_timeout_ms: soon\nscopes: 7\ncolour: red\nlimits: {FREE: many}\n",
    );
    let output = server.process.stderr.contents();
    for warning in [
        ":2:19: state_timeout_ms must be a whole number",
        "scopes must be a mapping",
        "colour is not a setting",
        "limits.FREE must be",
    ] {
        let line = output.lines().find(|line| line.contains(warning));
        assert!(line.is_some_and(|line| line.contains("WARN")), "{warning}: {output}");
    }
    let ask = |token: &str| {
        let request = Request::get("/nothing").header("Authorization", &format!("Bearer {token}"));
        request.send(&server.process.http).status
    };
    assert_eq!((ask("0123456789012345"), ask("123456789012345")), (404, 401));
}

#[test]
fn the_default_file_of_another_program_stops_a_server_but_not_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::write(dir.path().join("config.yaml"), "- somebody: else\n").unwrap();
    fs::write(dir.path().join("a.md"), "# A\n").unwrap();
    for (mode, mut command) in modes(&data) {
        assert_refused(&run(command.current_dir(dir.path())), "config.yaml:1:1", mode);
    }
    let mut add = program(BINARY);
    add.arg("--data-dir").arg(&data).args(["add", "a.md"]).current_dir(dir.path());
    let ran = run(&mut add);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("WARN") && ran.stderr.contains("config.yaml:1:1"),
        "{}",
        ran.stderr
    );
    let ran = run(add.args(["--config", "config.yaml"]));
    assert_refused(&ran, "config.yaml:1:1", "a command with a named file");
}

#[test]
fn a_data_directory_proves_its_server_while_it_runs() {
    if skills_testkit::needs_embedded_store("a server on a database has no server.json") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (data, path) = (dir.path().join("data"), dir.path().join("data/server.json"));
    let start = || ServerProcess::start_with(BINARY, &data, &["--token", LONG_SECRET]);
    let server = start();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let bus = server.url.strip_prefix("ws://").unwrap();
    assert_eq!(file["bus"], bus);
    assert_eq!(file["pid"], server.pid());
    // The challenge is answered without the token, and the answer does not reveal the nonce.
    let nonce = file["nonce"].as_str().unwrap().to_owned();
    let prove = |challenge: &str| {
        let answer = Request::get("/proof").header("skills-challenge", challenge).send(bus);
        assert_eq!(answer.status, 204);
        answer.header("skills-proof").unwrap()
    };
    let proofs = [prove("a"), prove("b"), prove("a")];
    assert!(proofs[0] == proofs[2] && proofs[0] != proofs[1]);
    assert!(proofs.iter().all(|proof| proof.len() == 64 && *proof != nonce));
    assert_eq!(Request::get("/proof").send(bus).status, 404);
    assert_eq!(Request::get("/").header("skills-challenge", "a").send(bus).status, 401);
    let output = server.stderr.contents();
    assert!(!output.contains(&nonce), "{output}");

    server.kill();
    assert!(path.exists(), "a killed server leaves it behind");
    let server = start();
    let next: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_ne!(next["nonce"], file["nonce"]);
    let (code, _, output) = server.stop();
    assert_eq!(code, Some(0), "{output}");
    assert!(!path.exists(), "one that stops does not");
}

#[test]
fn a_token_is_not_sent_to_an_engine_that_was_not_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = program(BINARY);
    command.current_dir(dir.path()).env("III_TOKEN", SECRET);
    assert_refused(
        &run(&mut command),
        "III_TOKEN) is not sent to the default address ws://127.0.0.1:49134",
        "attached",
    );
    let ran = run(command.args(["import", "--from-state"]));
    assert_refused(
        &ran,
        "III_TOKEN) is not sent to the default address ws://127.0.0.1:49134",
        "import",
    );
}
