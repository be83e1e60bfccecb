//! Origin check and CORS.

use serde_json::json;
use skills_testkit::{Request, Response};

use crate::{
    http_server::{METHODS, PATHS},
    support::TestServer,
};

const EVIL: &str = "https://evil.example";

fn ask(server: &TestServer, path: &str, origin: &str) -> Response {
    Request::get(path).header("Origin", origin).send(&server.process.http)
}

fn allow_origin(answer: &Response) -> Option<String> {
    answer.header("Access-Control-Allow-Origin")
}

fn preflight(origin: &str) -> Request {
    Request::new("OPTIONS", "/mcp")
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "POST")
}

#[test]
fn a_foreign_origin_is_refused_on_every_route() {
    let server = TestServer::new();
    for path in PATHS {
        for method in METHODS {
            let request = Request::new(method, path).header("Origin", EVIL);
            let answer = request.send(&server.process.http);
            assert_eq!((answer.status, allow_origin(&answer)), (403, None), "{method} {path}");
            if method != "HEAD" {
                assert_eq!(answer.refusal().1, "origin_not_allowed", "{method} {path}");
            }
        }
    }
    let answer = preflight(EVIL).send(&server.process.http);
    assert_eq!((answer.status, allow_origin(&answer)), (403, None));
    for origin in ["null", "", "http://localhost.evil.example", "file://", "tauri://localhost"] {
        assert_eq!(ask(&server, "/healthz", origin).status, 403, "{origin}");
    }
    // A second origin header is checked too.
    let two = Request::get("/healthz").header("Origin", "http://localhost").header("Origin", EVIL);
    assert_eq!(two.send(&server.process.http).status, 403);
}

#[test]
fn a_loopback_origin_is_answered() {
    let server = TestServer::new();
    for origin in ["http://localhost:5173", "https://127.0.0.1", "http://[::1]:8080"] {
        for (path, status) in [("/healthz", 200), ("/nothing", 404)] {
            let answer = ask(&server, path, origin);
            assert_eq!(answer.status, status, "{origin}");
            assert_eq!(allow_origin(&answer).as_deref(), Some(origin), "{path}");
            assert_eq!(answer.header("Vary").as_deref(), Some("origin"), "{path}");
            let exposed = answer.header("Access-Control-Expose-Headers").unwrap();
            let names: Vec<&str> = exposed.split(", ").collect();
            for name in [
                "Mcp-Session-Id",
                "ETag",
                "Retry-After",
                "X-RateLimit-Limit",
                "X-Skills-Catalog-Age",
            ] {
                assert!(names.contains(&name), "{name}: {exposed}");
            }
        }
    }
    let answer = Request::get("/healthz").send(&server.process.http);
    assert_eq!((answer.status, allow_origin(&answer)), (200, None), "no page asked");
    assert_eq!(answer.header("Vary").as_deref(), Some("origin"));
}

#[test]
fn a_preflight_is_answered_without_a_token() {
    let server = TestServer::with_args(&[
        "--token",
        "s3cret-of-16-bytes",
        "--allow-origin",
        "https://app.example",
    ]);
    for origin in ["https://app.example", "http://localhost:3000"] {
        let request =
            preflight(origin).header("Access-Control-Request-Headers", "authorization, mcp-x");
        let answer = request.send(&server.process.http);
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{origin}");
        assert_eq!(allow_origin(&answer).as_deref(), Some(origin), "{origin}");
        let header = |name: &str| answer.header(&format!("Access-Control-{name}")).unwrap();
        assert_eq!(header("Allow-Methods"), "GET, HEAD, POST, PUT, DELETE, OPTIONS", "{origin}");
        assert_eq!(header("Allow-Headers"), "authorization, mcp-x", "{origin}");
        assert!(header("Max-Age").parse::<u32>().unwrap() > 0, "{origin}");
    }
    // Methods of all routes are allowed: a secret is set with PUT.
    let question = Request::new("OPTIONS", "/v1/secrets/TOKEN")
        .header("Origin", "http://localhost:3000")
        .header("Access-Control-Request-Method", "PUT");
    let answer = question.send(&server.process.http);
    let methods = answer.header("Access-Control-Allow-Methods").unwrap();
    assert!(answer.status == 204 && methods.split(", ").any(|it| it == "PUT"), "{methods}");
    // An overlong header list is not echoed.
    let request = preflight("http://localhost")
        .header("Access-Control-Request-Headers", &"x-long, ".repeat(1000));
    let answer = request.send(&server.process.http);
    assert_eq!((answer.status, answer.header("Access-Control-Allow-Headers")), (204, None));
    // A page without its token can read the error.
    let answer = ask(&server, "/mcp", "https://app.example");
    assert_eq!(answer.refusal(), (401, "unauthorized".to_owned()));
    assert_eq!(allow_origin(&answer).as_deref(), Some("https://app.example"));
    // An `OPTIONS` request that is no preflight needs the token.
    let plain = Request::new("OPTIONS", "/mcp").header("Origin", "http://localhost");
    assert_eq!(plain.send(&server.process.http).status, 401);
}

#[test]
fn listed_origins_are_allowed_and_the_others_are_not() {
    let server = TestServer::with_args(&[
        "--allow-origin",
        "https://App.example:443",
        "--allow-origin",
        "null",
    ]);
    for (origin, status) in [
        ("https://app.example", 200),
        ("https://APP.example:443", 200),
        ("null", 200),
        ("http://localhost", 200),
        ("http://app.example", 403),
        ("https://app.example:444", 403),
        (EVIL, 403),
    ] {
        assert_eq!(ask(&server, "/healthz", origin).status, status, "{origin}");
    }
    let server = TestServer::with_args(&["--allow-origin", "*"]);
    for origin in [EVIL, "null"] {
        let answer = ask(&server, "/healthz", origin);
        assert_eq!(
            (answer.status, allow_origin(&answer).as_deref()),
            (200, Some(origin)),
            "{origin:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_public_catalogue_can_be_read_from_every_origin() {
    let server = TestServer::with_args(&["--allow-origin", "*"]);
    let files = json!({ "references/a.md": "# A\n" });
    let body = "---\nname: pdf\ndescription: Reads PDF.\n---\n# PDF\n";
    let skill = json!({ "id": "pdf", "skill": body, "files": files });
    server.worker().await.ok("skills::register", skill).await;
    let index = ask(&server, "/.well-known/agent-skills/index.json", EVIL);
    let url = index.json()["skills"][0]["url"].as_str().unwrap().to_owned();
    assert!(url.ends_with("/pdf.tar.gz"), "{url}");
    for path in [
        "/.well-known/agent-skills/index.json",
        url.as_str(),
        "/.well-known/skills/index.json",
        "/.well-known/skills/pdf/references/a.md",
        "/v1/available-skills",
    ] {
        let answer = ask(&server, path, EVIL);
        assert_eq!((answer.status, allow_origin(&answer).as_deref()), (200, Some(EVIL)), "{path}");
        let exposed = answer.header("Access-Control-Expose-Headers").unwrap();
        assert!(exposed.contains("ETag"), "{exposed}");
        assert!(answer.header("Cache-Control").unwrap().starts_with("public"), "{path}");
        // Revalidation works from pages too.
        let tag = answer.header("ETag").unwrap();
        let again = Request::get(path).header("Origin", EVIL).header("If-None-Match", &tag);
        let again = again.send(&server.process.http);
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        assert_eq!(allow_origin(&again).as_deref(), Some(EVIL), "{path}");
    }
}
