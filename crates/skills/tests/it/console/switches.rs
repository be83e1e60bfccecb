//! Where the console is served, and what its cookie is worth elsewhere.

use skills_testkit::Request;

use super::visitor::Visitor;
use crate::support::TestServer;

fn front_page(server: &TestServer) -> (u16, String) {
    let answer = Request::get("/").header("Accept", "text/html").send(&server.process.http);
    (answer.status, answer.header("content-type").unwrap_or_default())
}

#[test]
fn the_banner_prints_the_address_of_the_console() {
    let server = TestServer::new();
    let line = format!("\n  ui    {}/\n", server.process.http);
    assert!(
        server.process.stderr.contents().contains(&line),
        "{}",
        server.process.stderr.contents()
    );
    assert_eq!(front_page(&server), (200, "text/html; charset=utf-8".to_owned()));
}

#[test]
fn the_console_can_be_switched_off() {
    for server in
        [TestServer::with_args(&["--no-console"]), TestServer::with_config("console: false\n")]
    {
        assert!(!server.process.stderr.contents().contains("  ui  "));
        assert_eq!(front_page(&server), (404, "application/json".to_owned()));
        let answer = Request::get("/ui").header("Accept", "text/html").send(&server.process.http);
        assert_eq!(answer.status, 404);
    }
}

#[test]
fn programs_keep_their_answer_at_the_root() {
    let (with, without) = (TestServer::new(), TestServer::with_args(&["--no-console"]));
    for accept in ["*/*", "application/json", ""] {
        let answer = |server: &TestServer| {
            let request = Request::get("/").header("Accept", accept).header("X-Request-Id", "test");
            let answer = request.send(&server.process.http);
            (answer.status, answer.body)
        };
        assert_eq!(answer(&with), answer(&without), "{accept}");
    }
}

#[test]
fn the_cookie_is_no_credential_for_other_surfaces() {
    let server = TestServer::with_admin();
    let (key, _) = server.create_key("ann");
    server.add_tool("ann", "private", "plan");
    let mut ann = Visitor::signed_in(&server, &key);
    assert!(ann.open("/ui/skills/plan").contains("What only ann knows."));
    for (path, expected) in
        [("/v1/secrets", 401), ("/v1/admin/keys", 401), ("/v1/skills/plan", 404)]
    {
        for origin in [None, Some("http://localhost:3000"), Some(server.process.http.as_str())] {
            let mut request = Request::get(path).header("Cookie", ann.cookie());
            if let Some(origin) = origin {
                request = request.header("Origin", origin);
            }
            assert_eq!(request.send(&server.process.http).status, expected, "{path} {origin:?}");
        }
    }
}
