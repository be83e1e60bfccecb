//! The host that a request names.

use skills_testkit::{Answer, Request, exchange};

use crate::{METHODS, PATHS, support::Home};

fn status(home: &Home, path: &str, host: &str) -> u16 {
    Request::get(path).header("Host", host).send(&home.server.http).status
}

#[test]
fn a_name_that_is_not_ours_is_refused_on_every_route() {
    let home = Home::new();
    for path in PATHS {
        for method in METHODS {
            let request = Request::new(method, path).header("Host", "evil.example:47372");
            let answer = request.send(&home.server.http);
            assert_eq!(answer.status, 403, "{method} {path}");
            if method != "HEAD" {
                assert_eq!(answer.refusal(), (403, "host_not_allowed".to_owned()));
            }
        }
    }
    for host in ["10.0.0.1", "localhost.evil.example", "127.0.0.1.nip.io", "[fe80::1]"] {
        assert_eq!(status(&home, "/healthz", host), 403, "{host}");
    }
}

#[test]
fn this_machine_may_be_named_in_any_way() {
    let home = Home::new();
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:80", "[::1]:47372"] {
        assert_eq!(status(&home, "/healthz", host), 200, "{host}");
    }
}

#[test]
fn a_request_without_a_host_or_with_several_is_refused() {
    let home = Home::new();
    let address = home.server.http.strip_prefix("http://").unwrap();
    for (head, expected) in [
        ("GET /healthz HTTP/1.1\r\n", 400),
        ("GET /healthz HTTP/1.0\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost:\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: a b\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n", 400),
        // The target, where it is absolute, is what the request is for.
        ("GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n", 403),
        ("GET http://localhost/healthz HTTP/1.1\r\nHost: evil.example\r\n", 403),
        ("GET http://me@localhost/healthz HTTP/1.1\r\nHost: localhost\r\n", 400),
        ("GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n", 200),
        ("GET /healthz HTTP/1.0\r\nHost: localhost\r\n", 200),
        ("CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n", 403),
    ] {
        let said = exchange(address, format!("{head}Connection: close\r\n\r\n").as_bytes());
        let answer = Answer::parse(&said.unwrap()).unwrap();
        assert_eq!(answer.status, expected, "{head}");
        if expected == 400 {
            assert_eq!(answer.refusal().1, "bad_host", "{head}");
        }
    }
}

#[test]
fn a_name_that_is_listed_is_ours() {
    let home = Home::with(&["--allow-host", "Skills.example", "--allow-host", "other.example"]);
    for host in ["skills.example", "SKILLS.EXAMPLE:443", "other.example", "localhost"] {
        assert_eq!(status(&home, "/healthz", host), 200, "{host}");
    }
    assert_eq!(status(&home, "/healthz", "a.skills.example"), 403);
}

#[test]
fn where_other_machines_may_ask_any_address_is_ours_and_no_name() {
    let arguments = ["--token", "s3cret", "--http", "0.0.0.0:0"];
    let dir = tempfile::tempdir().unwrap();
    let mut command = skills_testkit::program(crate::support::BINARY);
    command.args(["serve", "--bus", "127.0.0.1:0", "--data-dir"]).arg(dir.path()).args(arguments);
    let home = Home::of(skills_testkit::Server::spawn(&mut command), dir);
    let address = home.server.http.replace("0.0.0.0", "127.0.0.1");
    for (host, expected) in
        [("192.168.7.7:1", 200), ("[2001:db8::1]", 200), ("localhost", 200), ("evil.example", 403)]
    {
        let answer = Request::get("/healthz").header("Host", host).send(&address);
        assert_eq!(answer.status, expected, "{host}");
    }
}
