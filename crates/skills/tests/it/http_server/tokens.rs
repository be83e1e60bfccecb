//! Token check.

use skills_testkit::{Request, ServerProcess, program, run};

use crate::{
    http_server::{METHODS, PATHS},
    support::{BINARY, TestServer},
};

fn status(server: &TestServer, path: &str, token: Option<&str>) -> u16 {
    let request = Request::get(path);
    let request = match token {
        Some(token) => request.header("Authorization", &format!("Bearer {token}")),
        None => request,
    };
    request.send(&server.process.http).status
}

fn server(environment: &[(&str, &str)], arguments: &[&str]) -> TestServer {
    let dir = tempfile::tempdir().unwrap();
    let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
    command.args(arguments).envs(environment.iter().copied());
    TestServer::from_parts(ServerProcess::spawn(&mut command), dir)
}

#[test]
fn every_route_but_health_requires_the_token() {
    let server = TestServer::with_args(&["--token", "s3cret-of-16-bytes"]);
    for path in PATHS {
        let open = path.ends_with('z') && !path.contains('?');
        for method in METHODS {
            let answer = Request::new(method, path).send(&server.process.http);
            assert_eq!(answer.status == 401, !open, "{method} {path}");
            if !open && method != "HEAD" {
                assert_eq!(answer.refusal().1, "unauthorized");
                assert_eq!(answer.header("WWW-Authenticate").as_deref(), Some("Bearer"));
            }
        }
        assert_ne!(status(&server, path, Some("s3cret-of-16-bytes")), 401, "{path}");
    }
    assert_eq!(status(&server, "/healthz", None), 200);
    assert_eq!(status(&server, "/readyz", None), 200);
    // Paths similar to the health check need the token.
    for path in ["/healthz/", "//healthz", "/healthz/..", "/%68ealthz", "/healthzz"] {
        assert_eq!(status(&server, path, None), 401, "{path}");
    }
}

#[test]
fn only_the_exact_token_is_accepted() {
    let server = TestServer::with_args(&["--token", "s3cret-of-16-bytes"]);
    for (value, expected) in [
        ("Bearer s3cret-of-16-bytes", 404),
        ("bearer s3cret-of-16-bytes", 404),
        ("Bearer s3cre", 401),
        ("Bearer s3cret-of-16-bytesly", 401),
        ("Bearer S3CRET", 401),
        ("Bearer", 401),
        ("Basic s3cret-of-16-bytes", 401),
        ("s3cret-of-16-bytes", 401),
        ("", 401),
    ] {
        let request = Request::get("/nothing").header("Authorization", value);
        assert_eq!(request.send(&server.process.http).status, expected, "{value}");
    }
    assert_eq!(
        status(&server, "/nothing?token=s3cret-of-16-bytes", None),
        401,
        "an address is logged"
    );
    let twice = Request::get("/nothing")
        .header("Authorization", "Bearer s3cret-of-16-bytes")
        .header("Authorization", "Bearer x");
    assert_eq!(twice.send(&server.process.http).status, 401);
    assert!(
        !server.process.stderr.contents().contains("s3cret-of-16-bytes"),
        "a secret is not shown"
    );
}

#[test]
fn without_a_configured_token_none_is_required() {
    let server = TestServer::new();
    assert_eq!(status(&server, "/nothing", None), 404);
    assert_eq!(status(&server, "/nothing", Some("whatever")), 404);
}

#[test]
fn http_can_have_its_own_token() {
    let (web, bus) = ("web-token-of-16-bytes", "bus-token-of-16-bytes");
    let server = server(&[("SKILLS_HTTP_TOKEN", web)], &["--token", bus]);
    assert_eq!(status(&server, "/nothing", Some(web)), 404);
    assert_eq!(status(&server, "/nothing", Some(bus)), 401);
}

#[test]
fn a_public_listener_requires_a_token() {
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
        command.env(variable, "s3cret-of-16-bytes").arg("--data-dir").arg(dir.path());
        let server = TestServer::from_parts(ServerProcess::spawn(&mut command), dir);
        let address = server.process.http.replace("0.0.0.0", "127.0.0.1");
        assert_eq!(Request::get("/nothing").send(&address).status, 401, "{variable}");
    }
}
