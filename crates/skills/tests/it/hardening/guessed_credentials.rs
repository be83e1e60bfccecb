//! Guessing of credentials: refusals of one client are counted over all surfaces, logged and delayed.

use skills_testkit::Request;

use crate::support::TestServer;

const TOKEN: &str = "s3cret-of-16-bytes";
/// Refusals that are answered at once.
const ALLOWANCE: usize = 10;

fn status(server: &TestServer, request: Request) -> u16 {
    request.send(&server.process.http).status
}

/// Presents a wrong credential to one of the surfaces.
fn guess(server: &TestServer, number: usize) -> u16 {
    let wrong = format!("guess-{number}-of-16-bytes");
    let bearer =
        |path: &str| Request::get(path).header("Authorization", &format!("Bearer {wrong}"));
    match number % 4 {
        0 => status(server, bearer("/mcp")),
        1 => status(server, bearer("/v1/admin/status")),
        2 => {
            let body = format!("{{\"auth\":{{\"token\":\"{wrong}\"}}}}");
            status(server, Request::new("POST", "/mdp/auth").body(body))
        }
        _ => {
            let bus = server.process.url.strip_prefix("ws://").unwrap();
            Request::get(&format!("/?token={wrong}")).send(bus).status
        }
    }
}

#[test]
fn credentials_that_are_guessed_are_logged_with_their_number() {
    let server = TestServer::with_args(&["--token", TOKEN, "--mdp-token", "drive-of-16-bytes"]);
    let lines = || {
        let output = server.process.stderr.contents();
        output.lines().filter(|line| line.contains("credentials refused")).count()
    };
    for number in 0..ALLOWANCE - 1 {
        assert_eq!(guess(&server, number), 401, "{number}");
    }
    // Requests without a credential are no guesses.
    for _ in 0..ALLOWANCE {
        assert_eq!(status(&server, Request::get("/mcp")), 401);
    }
    assert_eq!(lines(), 0);
    for number in 0..3 {
        assert_eq!(guess(&server, number), 401, "{number}");
    }
    let logged = server.process.stderr.wait_for("credentials refused");
    assert!(logged.contains("address=127.0.0.1") && logged.contains("count=10"), "{logged}");
    assert_eq!(lines(), 1);
    assert!(!server.process.stderr.contents().contains("guess-"), "a guess may be nearly right");
    let right = Request::get("/nothing").header("Authorization", &format!("Bearer {TOKEN}"));
    assert_eq!(status(&server, right), 404);
}
