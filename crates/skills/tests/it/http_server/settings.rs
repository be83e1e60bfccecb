//! Sources of the access rules, and errors for unusable ones.

use std::fs;

use skills_testkit::{Request, ServerProcess, run};

use crate::support::{BINARY, TestServer};

const FILE: &str = "http_token: filed-of-16-bytes\nallow_host: [filed.example]\nallow_origin: ['https://filed.example']\n";

fn with_config_and_args(config: &str, arguments: &[&str]) -> TestServer {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml");
    fs::write(&path, config).unwrap();
    let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
    command.arg("--config").arg(path).args(arguments);
    TestServer::from_parts(ServerProcess::spawn(&mut command), dir)
}

/// Returns the statuses of requests with a host name, an origin, and a token.
fn statuses(server: &TestServer, name: &str, origin: &str, token: &str) -> [u16; 3] {
    let token = format!("Bearer {token}");
    [
        Request::get("/healthz").header("Host", name),
        Request::get("/healthz").header("Origin", origin),
        Request::get("/nothing").header("Authorization", &token),
    ]
    .map(|request| request.send(&server.process.http).status)
}

#[test]
fn a_flag_overrides_the_configuration_file() {
    let server = with_config_and_args(FILE, &[]);
    let filed = statuses(&server, "filed.example", "https://filed.example", "filed-of-16-bytes");
    assert_eq!(filed, [200, 200, 404]);
    let flags = ["--allow-host", "flag.example", "--allow-origin", "https://flag.example"];
    let server = with_config_and_args(FILE, &flags);
    let flagged = statuses(&server, "flag.example", "https://flag.example", "filed-of-16-bytes");
    assert_eq!(flagged, [200, 200, 404]);
    let filed = statuses(&server, "filed.example", "https://filed.example", "wrong");
    assert_eq!(filed, [403, 403, 401]);
}

#[test]
fn an_invalid_flag_is_reported() {
    for (flag, value, code, hint) in [
        ("--allow-origin", "app.example", "origin", "https://app.example:8443"),
        ("--allow-origin", "https://app.example/path", "origin", "without a path"),
        ("--allow-origin", "", "origin", "or null, or *"),
        ("--allow-host", "skills.example:443", "host", "without a port"),
        ("--allow-host", "https://skills.example", "host", "skills.example"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let ran = run(ServerProcess::command(BINARY, &data).args([flag, value]));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        let output = format!("error: {value:?} is not a");
        assert!(ran.stderr.contains(&output) && ran.stderr.contains(code), "{}", ran.stderr);
        let (_, hinted) = ran.stderr.split_once("hint: ").unwrap();
        assert!(hinted.contains(hint), "{hinted}");
        assert!(!data.exists(), "a server that does not start leaves nothing behind");
    }
}

#[test]
fn an_invalid_configuration_entry_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml");
    fs::write(&path, "allow_origin: [nonsense, 'https://filed.example']").unwrap();
    let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
    let ran = run(command.arg("--config").arg(path));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("\"nonsense\" is not an origin"), "{}", ran.stderr);
}
