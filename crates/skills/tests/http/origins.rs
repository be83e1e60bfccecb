//! The web page that asks.

use serde_json::json;
use skills_testkit::{Answer, Request};

use crate::{METHODS, PATHS, support::Home};

const EVIL: &str = "https://evil.example";

fn ask(home: &Home, path: &str, origin: &str) -> Answer {
    Request::get(path).header("Origin", origin).send(&home.server.http)
}

fn allow_origin(answer: &Answer) -> Option<String> {
    answer.header("Access-Control-Allow-Origin")
}

fn preflight(origin: &str) -> Request {
    Request::new("OPTIONS", "/mcp")
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "POST")
}

#[test]
fn a_foreign_page_is_refused_on_every_route() {
    let home = Home::new();
    for path in PATHS {
        for method in METHODS {
            let request = Request::new(method, path).header("Origin", EVIL);
            let answer = request.send(&home.server.http);
            assert_eq!((answer.status, allow_origin(&answer)), (403, None), "{method} {path}");
            if method != "HEAD" {
                assert_eq!(answer.refusal().1, "origin_not_allowed", "{method} {path}");
            }
        }
    }
    let answer = preflight(EVIL).send(&home.server.http);
    assert_eq!((answer.status, allow_origin(&answer)), (403, None));
    for origin in ["null", "", "http://localhost.evil.example", "file://", "tauri://localhost"] {
        assert_eq!(ask(&home, "/healthz", origin).status, 403, "{origin}");
    }
    // A second origin does not hide behind the first.
    let two = Request::get("/healthz").header("Origin", "http://localhost").header("Origin", EVIL);
    assert_eq!(two.send(&home.server.http).status, 403);
}

#[test]
fn a_page_of_this_machine_gets_its_answer() {
    let home = Home::new();
    for origin in ["http://localhost:5173", "https://127.0.0.1", "http://[::1]:8080"] {
        for (path, status) in [("/healthz", 200), ("/nothing", 404)] {
            let answer = ask(&home, path, origin);
            assert_eq!(answer.status, status, "{origin}");
            assert_eq!(allow_origin(&answer).as_deref(), Some(origin));
            assert_eq!(answer.header("Vary").as_deref(), Some("origin"));
            let exposed = answer.header("Access-Control-Expose-Headers").unwrap();
            let names: Vec<&str> = exposed.split(", ").collect();
            for name in ["Mcp-Session-Id", "ETag", "Retry-After", "X-RateLimit-Limit"] {
                assert!(names.contains(&name), "{name}: {exposed}");
            }
        }
    }
    let answer = Request::get("/healthz").send(&home.server.http);
    assert_eq!((answer.status, allow_origin(&answer)), (200, None), "no page asked");
    assert_eq!(answer.header("Vary").as_deref(), Some("origin"));
}

#[test]
fn the_question_before_a_request_is_answered_without_a_token() {
    let home = Home::with(&["--token", "s3cret", "--allow-origin", "https://app.example"]);
    for origin in ["https://app.example", "http://localhost:3000"] {
        let request =
            preflight(origin).header("Access-Control-Request-Headers", "authorization, mcp-x");
        let answer = request.send(&home.server.http);
        assert_eq!((answer.status, answer.body.len()), (204, 0));
        assert_eq!(allow_origin(&answer).as_deref(), Some(origin));
        let header = |name: &str| answer.header(&format!("Access-Control-{name}")).unwrap();
        assert_eq!(header("Allow-Methods"), "GET, HEAD, POST, PUT, DELETE, OPTIONS");
        assert_eq!(header("Allow-Headers"), "authorization, mcp-x");
        assert!(header("Max-Age").parse::<u32>().unwrap() > 0);
    }
    // Every method that some route takes: a secret is set with PUT.
    let question = Request::new("OPTIONS", "/v1/secrets/TOKEN")
        .header("Origin", "http://localhost:3000")
        .header("Access-Control-Request-Method", "PUT");
    let answer = question.send(&home.server.http);
    let methods = answer.header("Access-Control-Allow-Methods").unwrap();
    assert!(answer.status == 204 && methods.split(", ").any(|it| it == "PUT"), "{methods}");
    // A list without end is not repeated.
    let request = preflight("http://localhost")
        .header("Access-Control-Request-Headers", &"x-long, ".repeat(1000));
    let answer = request.send(&home.server.http);
    assert_eq!((answer.status, answer.header("Access-Control-Allow-Headers")), (204, None));
    // A page that asks without its token can read why it does not get an answer.
    let answer = ask(&home, "/mcp", "https://app.example");
    assert_eq!(answer.refusal(), (401, "unauthorized".to_owned()));
    assert_eq!(allow_origin(&answer).as_deref(), Some("https://app.example"));
    // What is no such question is asked for the token.
    let plain = Request::new("OPTIONS", "/mcp").header("Origin", "http://localhost");
    assert_eq!(plain.send(&home.server.http).status, 401);
}

#[test]
fn listed_origins_are_allowed_and_the_others_are_not() {
    let home = Home::with(&["--allow-origin", "https://App.example:443", "--allow-origin", "null"]);
    for (origin, status) in [
        ("https://app.example", 200),
        ("https://APP.example:443", 200),
        ("null", 200),
        ("http://localhost", 200),
        ("http://app.example", 403),
        ("https://app.example:444", 403),
        (EVIL, 403),
    ] {
        assert_eq!(ask(&home, "/healthz", origin).status, status, "{origin}");
    }
    let home = Home::with(&["--allow-origin", "*"]);
    for origin in [EVIL, "null"] {
        let answer = ask(&home, "/healthz", origin);
        assert_eq!((answer.status, allow_origin(&answer).as_deref()), (200, Some(origin)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_public_catalogue_can_be_read_by_every_page() {
    let home = Home::with(&["--allow-origin", "*"]);
    let files = json!({ "references/a.md": "# A\n" });
    let body = "---\nname: pdf\ndescription: Reads PDF.\n---\n# PDF\n";
    let skill = json!({ "id": "pdf", "skill": body, "files": files });
    home.worker().await.ok("skills::register", skill).await;
    let index = ask(&home, "/.well-known/agent-skills/index.json", EVIL);
    let url = index.json()["skills"][0]["url"].as_str().unwrap().to_owned();
    assert!(url.ends_with("/pdf.tar.gz"), "{url}");
    for path in [
        "/.well-known/agent-skills/index.json",
        url.as_str(),
        "/.well-known/skills/index.json",
        "/.well-known/skills/pdf/references/a.md",
        "/v1/available-skills",
    ] {
        let answer = ask(&home, path, EVIL);
        assert_eq!((answer.status, allow_origin(&answer).as_deref()), (200, Some(EVIL)), "{path}");
        let exposed = answer.header("Access-Control-Expose-Headers").unwrap();
        assert!(exposed.contains("ETag"), "{exposed}");
        assert!(answer.header("Cache-Control").unwrap().starts_with("public"), "{path}");
        // What is asked for again is not sent again, to a page either.
        let tag = answer.header("ETag").unwrap();
        let again = Request::get(path).header("Origin", EVIL).header("If-None-Match", &tag);
        let again = again.send(&home.server.http);
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        assert_eq!(allow_origin(&again).as_deref(), Some(EVIL), "{path}");
    }
}
