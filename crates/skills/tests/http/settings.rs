//! Where the rules come from, and what is said of those that cannot be used.

use std::fs;

use skills_testkit::{Request, Server, run};

use crate::support::{BINARY, Home};

const FILE: &str =
    "http_token: filed\nallow_host: [filed.example]\nallow_origin: ['https://filed.example']\n";

fn configured(config: &str, arguments: &[&str]) -> Home {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.yaml");
    fs::write(&path, config).unwrap();
    let mut command = Server::command(BINARY, &dir.path().join("data"));
    command.arg("--config").arg(path).args(arguments);
    Home::of(Server::spawn(&mut command), dir)
}

/// The statuses of requests for a name, from an origin, and with a token.
fn statuses(home: &Home, name: &str, origin: &str, token: &str) -> [u16; 3] {
    let token = format!("Bearer {token}");
    [
        Request::get("/healthz").header("Host", name),
        Request::get("/healthz").header("Origin", origin),
        Request::get("/nothing").header("Authorization", &token),
    ]
    .map(|request| request.send(&home.server.http).status)
}

#[test]
fn the_file_sets_them_and_a_flag_outweighs_it() {
    let home = configured(FILE, &[]);
    let filed = statuses(&home, "filed.example", "https://filed.example", "filed");
    assert_eq!(filed, [200, 200, 404]);
    let flags = ["--allow-host", "flag.example", "--allow-origin", "https://flag.example"];
    let home = configured(FILE, &flags);
    let flagged = statuses(&home, "flag.example", "https://flag.example", "filed");
    assert_eq!(flagged, [200, 200, 404]);
    let filed = statuses(&home, "filed.example", "https://filed.example", "wrong");
    assert_eq!(filed, [403, 403, 401]);
}

#[test]
fn a_flag_that_cannot_be_used_is_explained() {
    for (flag, value, code, hint) in [
        ("--allow-origin", "app.example", "origin", "https://app.example:8443"),
        ("--allow-origin", "https://app.example/path", "origin", "without a path"),
        ("--allow-origin", "", "origin", "or null, or *"),
        ("--allow-host", "skills.example:443", "host", "without a port"),
        ("--allow-host", "https://skills.example", "host", "skills.example"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let ran = run(Server::command(BINARY, &data).args([flag, value]));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        let said = format!("error: {value:?} is not a");
        assert!(ran.stderr.contains(&said) && ran.stderr.contains(code), "{}", ran.stderr);
        let (_, hinted) = ran.stderr.split_once("hint: ").unwrap();
        assert!(hinted.contains(hint), "{hinted}");
        assert!(!data.exists(), "a server that does not start leaves nothing behind");
    }
}

#[test]
fn an_entry_of_the_file_that_cannot_be_used_is_named() {
    let home = configured("allow_origin: [nonsense, 'https://filed.example']", &[]);
    let said = home.server.stderr.so_far();
    let line = said.lines().find(|line| line.contains("\"nonsense\" is not an origin"));
    assert!(line.is_some_and(|line| line.contains("WARN")), "{said}");
    let page = Request::get("/healthz").header("Origin", "https://filed.example");
    assert_eq!(page.send(&home.server.http).status, 200);
}
