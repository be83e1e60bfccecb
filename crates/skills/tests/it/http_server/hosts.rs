//! Host check.

use skills_testkit::{Request, Response, exchange};

use crate::{
    http_server::{METHODS, PATHS},
    support::TestServer,
};

fn status(server: &TestServer, path: &str, host: &str) -> u16 {
    Request::get(path).header("Host", host).send(&server.process.http).status
}

#[test]
fn an_unlisted_host_name_is_refused_on_every_route() {
    let server = TestServer::new();
    for path in PATHS {
        for method in METHODS {
            let request = Request::new(method, path).header("Host", "evil.example:47372");
            let answer = request.send(&server.process.http);
            assert_eq!(answer.status, 403, "{method} {path}");
            if method != "HEAD" {
                assert_eq!(answer.refusal(), (403, "host_not_allowed".to_owned()));
            }
        }
    }
    for host in ["10.0.0.1", "localhost.evil.example", "127.0.0.1.nip.io", "[fe80::1]"] {
        assert_eq!(status(&server, "/healthz", host), 403, "{host}");
    }
}

#[test]
fn every_loopback_host_name_is_accepted() {
    let server = TestServer::new();
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:80", "[::1]:47372"] {
        assert_eq!(status(&server, "/healthz", host), 200, "{host}");
    }
}

#[test]
fn a_request_without_a_host_or_with_several_is_refused() {
    let server = TestServer::new();
    let address = server.process.http.strip_prefix("http://").unwrap();
    for (head, expected) in [
        ("GET /healthz HTTP/1.1\r\n", 400),
        ("GET /healthz HTTP/1.0\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost:\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: a b\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n", 400),
        // An absolute target decides.
        ("GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n", 403),
        ("GET http://localhost/healthz HTTP/1.1\r\nHost: evil.example\r\n", 403),
        ("GET http://me@localhost/healthz HTTP/1.1\r\nHost: localhost\r\n", 400),
        ("GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n", 200),
        ("GET /healthz HTTP/1.0\r\nHost: localhost\r\n", 200),
        ("CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n", 403),
    ] {
        let output = exchange(address, format!("{head}Connection: close\r\n\r\n").as_bytes());
        let answer = Response::parse(&output.unwrap()).unwrap();
        assert_eq!(answer.status, expected, "{head}");
        if expected == 400 {
            assert_eq!(answer.refusal().1, "bad_host", "{head}");
        }
    }
}

#[test]
fn a_listed_host_name_is_accepted() {
    let server =
        TestServer::with_args(&["--allow-host", "Skills.example", "--allow-host", "other.example"]);
    for host in ["skills.example", "SKILLS.EXAMPLE:443", "other.example", "localhost"] {
        assert_eq!(status(&server, "/healthz", host), 200, "{host}");
    }
    assert_eq!(status(&server, "/healthz", "a.skills.example"), 403);
}

#[test]
fn a_public_listener_accepts_any_ip_address_and_no_host_name() {
    let arguments = ["--token", "s3cret-of-16-bytes", "--http", "0.0.0.0:0"];
    let dir = tempfile::tempdir().unwrap();
    let mut command = skills_testkit::program(crate::support::BINARY);
    command.args(["serve", "--bus", "127.0.0.1:0", "--data-dir"]).arg(dir.path()).args(arguments);
    let server = TestServer::from_parts(skills_testkit::ServerProcess::spawn(&mut command), dir);
    let address = server.process.http.replace("0.0.0.0", "127.0.0.1");
    for (host, expected) in
        [("192.168.7.7:1", 200), ("[2001:db8::1]", 200), ("localhost", 200), ("evil.example", 403)]
    {
        let answer = Request::get("/healthz").header("Host", host).send(&address);
        assert_eq!(answer.status, expected, "{host}");
    }
}
