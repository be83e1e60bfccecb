//! The token that a request presents.

use skills_testkit::{Request, Server, program, run};

use crate::{METHODS, PATHS, support::BINARY, support::Home};

fn status(home: &Home, path: &str, token: Option<&str>) -> u16 {
    let request = Request::get(path);
    let request = match token {
        Some(token) => request.header("Authorization", &format!("Bearer {token}")),
        None => request,
    };
    request.send(&home.server.http).status
}

fn home(environment: &[(&str, &str)], arguments: &[&str]) -> Home {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Server::command(BINARY, &dir.path().join("data"));
    command.args(arguments).envs(environment.iter().copied());
    Home::of(Server::spawn(&mut command), dir)
}

#[test]
fn everything_but_health_asks_for_the_token() {
    let home = Home::with(&["--token", "s3cret"]);
    for path in PATHS {
        let open = path.ends_with('z') && !path.contains('?');
        for method in METHODS {
            let answer = Request::new(method, path).send(&home.server.http);
            assert_eq!(answer.status == 401, !open, "{method} {path}");
            if !open && method != "HEAD" {
                assert_eq!(answer.refusal().1, "unauthorized");
                assert_eq!(answer.header("WWW-Authenticate").as_deref(), Some("Bearer"));
            }
        }
        assert_ne!(status(&home, path, Some("s3cret")), 401, "{path}");
    }
    assert_eq!(status(&home, "/healthz", None), 200);
    assert_eq!(status(&home, "/readyz", None), 200);
    // What looks like health is not.
    for path in ["/healthz/", "//healthz", "/healthz/..", "/%68ealthz", "/healthzz"] {
        assert_eq!(status(&home, path, None), 401, "{path}");
    }
}

#[test]
fn only_the_token_itself_will_do() {
    let home = Home::with(&["--token", "s3cret"]);
    for (value, expected) in [
        ("Bearer s3cret", 404),
        ("bearer s3cret", 404),
        ("Bearer s3cre", 401),
        ("Bearer s3cretly", 401),
        ("Bearer S3CRET", 401),
        ("Bearer", 401),
        ("Basic s3cret", 401),
        ("s3cret", 401),
        ("", 401),
    ] {
        let request = Request::get("/nothing").header("Authorization", value);
        assert_eq!(request.send(&home.server.http).status, expected, "{value}");
    }
    assert_eq!(status(&home, "/nothing?token=s3cret", None), 401, "an address is logged");
    let twice = Request::get("/nothing")
        .header("Authorization", "Bearer s3cret")
        .header("Authorization", "Bearer x");
    assert_eq!(twice.send(&home.server.http).status, 401);
    assert!(!home.server.stderr.so_far().contains("s3cret"), "a secret is not shown");
}

#[test]
fn without_a_token_none_is_asked_for() {
    let home = Home::new();
    assert_eq!(status(&home, "/nothing", None), 404);
    assert_eq!(status(&home, "/nothing", Some("whatever")), 404);
}

#[test]
fn http_can_have_a_token_of_its_own() {
    let home = home(&[("SKILLS_HTTP_TOKEN", "web")], &["--token", "bus"]);
    assert_eq!(status(&home, "/nothing", Some("web")), 404);
    assert_eq!(status(&home, "/nothing", Some("bus")), 401);
}

#[test]
fn other_machines_are_let_in_only_with_a_token() {
    let serve = |address: &str| {
        let mut command = program(BINARY);
        command.args(["serve", "--bus", "127.0.0.1:0", "--http", address]);
        command
    };
    let dir = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let ran = run(serve(address).current_dir(dir.path()));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains("no token is set"), "{}", ran.stderr);
        let hint = "give one with --token, III_TOKEN or SKILLS_HTTP_TOKEN, or listen on 127.0.0.1";
        assert!(ran.stderr.contains(hint), "{}", ran.stderr);
    }
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "a server that does not start leaves nothing behind");
    for variable in ["III_TOKEN", "SKILLS_HTTP_TOKEN"] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = serve("0.0.0.0:0");
        command.env(variable, "s3cret").arg("--data-dir").arg(dir.path());
        let home = Home::of(Server::spawn(&mut command), dir);
        let address = home.server.http.replace("0.0.0.0", "127.0.0.1");
        assert_eq!(Request::get("/nothing").send(&address).status, 401, "{variable}");
    }
}
