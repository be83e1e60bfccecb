//! Skills of live clients over plain HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use skills_mdp::{Config, MdpLimits, MdpTimeouts};
use skills_testkit::{
    Request,
    mdp::{ok, registration, skill},
};

use crate::test_host::{TestHost, text};

#[tokio::test]
async fn skills_are_served_under_every_address_form() {
    let host = TestHost::new().await;
    let paths = ["/skill.md", "/team/review/skill.md", "/upper/SKILL.md", "/goods/:id/skill.md"];
    let client = host.client("c d", paths.iter().map(|path| skill(path)).collect()).await;
    client.serve_calls(|call| ok(format!("{} {}", call["path"].as_str().unwrap(), call["params"])));
    for (address, path) in [
        ("/skills/c%20d/team/review", "/team/review/skill.md {}"),
        ("/c%20d/skills/team/review", "/team/review/skill.md {}"),
        ("/skills/c%20d/team/review/", "/team/review/skill.md {}"),
        ("/skills/c%20d/team/review/skill.md", "/team/review/skill.md {}"),
        ("/c%20d/skills/team%2Freview/skill.md", "/team/review/skill.md {}"),
        ("/skills/c%20d/upper", "/upper/SKILL.md {}"),
        ("/skills/c%20d/upper/SKILL.md", "/upper/SKILL.md {}"),
        ("/skills/c%20d/goods/7", r#"/goods/7/skill.md {"id":"7"}"#),
        ("/skills/c%20d", "/skill.md {}"),
        ("/c%20d/skills/", "/skill.md {}"),
        ("/skills/c%20d/skill.md", "/skill.md {}"),
    ] {
        let answer = host.get(address).await;
        assert_eq!((answer.status, text(&answer)), (200, path), "{address}");
    }
    for address in [
        "/skills/c%20d/nope",
        "/skills/nobody/team/review",
        "/skills/c%20d/team/review/SKILL.md",
        "/skills/c%20d/team/../team/review",
        "/skills/c%20d/team/%2e%2e/team/review",
        "/skills/c%20d//team/review",
        "/skills/c%20d/Team/review",
        "/skills/c%20d/team/review/skill.md/skill.md",
        "/skills/c%20d/%3Aid",
        "/skills",
        "/team/review/skill.md",
        "/",
    ] {
        let answer = host.get(address).await;
        assert_eq!(answer.refusal(), (404, "not_found".to_owned()), "{address}");
    }
    for address in ["/skills/x/%zz", "/skills/%ff/a", "/x%/skills/a"] {
        assert_eq!(host.get(address).await.refusal(), (400, "bad_request".to_owned()), "{address}");
    }
}

#[tokio::test]
async fn only_skills_are_served() {
    let host = TestHost::new().await;
    let paths = json!([
        {"type": "endpoint", "path": "/goods/:id", "method": "GET"},
        {"type": "prompt", "path": "/ask/prompt.md"},
        skill("/:any/skill.md"),
    ]);
    host.client("c", paths).await.serve_calls(|_| ok("x"));
    assert_eq!(host.get("/skills/c/ask/prompt.md").await.status, 404);
    // The client would answer with the more specific endpoint.
    assert_eq!(host.get("/skills/c/goods").await.status, 404);
    assert_eq!(host.get("/skills/c/other").await.status, 200);
}

#[tokio::test]
async fn media_types_and_bodies_of_answers_are_preserved() {
    let host = TestHost::new().await;
    let typed = |path: &str, content_type: &str| json!({"type": "skill", "path": format!("/{path}/skill.md"), "contentType": content_type});
    let paths = json!([
        skill("/plain/skill.md"),
        typed("markdown", "text/markdown"),
        typed("html", "text/html; charset=latin1"),
        typed("json", "application/json"),
        skill("/object/skill.md"),
        skill("/nothing/skill.md"),
        skill("/null/skill.md"),
    ]);
    host.client("c", paths).await.serve_calls(|call| match call["path"].as_str().unwrap() {
        "/object/skill.md" => ok(json!({"a": [1, "é"]})),
        "/nothing/skill.md" => json!({"ok": true}),
        "/null/skill.md" => ok(Value::Null),
        _ => ok("# é \"quoted\"\n"),
    });
    let json = "application/json; charset=utf-8";
    for (name, media_type, body) in [
        ("plain", "text/markdown; charset=utf-8", "# é \"quoted\"\n"),
        ("markdown", "text/markdown; charset=utf-8", "# é \"quoted\"\n"),
        ("html", "text/html; charset=latin1", "# é \"quoted\"\n"),
        ("json", "application/json", "# é \"quoted\"\n"),
        ("object", json, r#"{"data":{"a":[1,"é"]}}"#),
        ("nothing", json, "{}"),
        ("null", json, r#"{"data":null}"#),
    ] {
        let answer = host.get(&format!("/skills/c/{name}")).await;
        assert_eq!((answer.status, text(&answer)), (200, body), "{name}");
        assert_eq!(answer.header("content-type").as_deref(), Some(media_type), "{name}");
        assert_eq!(answer.header("content-length").unwrap(), body.len().to_string(), "{name}");
    }
}

#[tokio::test]
async fn an_unchanged_skill_is_not_modified() {
    let host = TestHost::new().await;
    host.client("c", json!([skill("/a/skill.md")])).await.serve_calls(|_| ok("# A"));
    let first = host.get("/skills/c/a").await;
    let tag = first.header("etag").unwrap();
    let again = host.ask(Request::get("/skills/c/a").header("If-None-Match", &tag)).await;
    assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag.clone())));
    let other = host.ask(Request::get("/skills/c/a").header("If-None-Match", "\"x\"")).await;
    assert_eq!(other.status, 200);
    let head = host.ask(Request::new("HEAD", "/skills/c/a")).await;
    assert_eq!((head.status, head.body.len(), head.header("etag")), (200, 0, Some(tag)));
    assert_eq!(head.header("content-length").as_deref(), Some("3"));
}

#[tokio::test]
async fn queries_and_headers_reach_the_client_but_credentials_do_not() {
    let ask = async |forward_credentials: bool| {
        let config = Config { forward_credentials, ..Config::default() };
        let host = TestHost::with(config, None).await;
        let mut client = host.client("c", json!([skill("/a/skill.md")])).await;
        let request = Request::get("/skills/c/a?topic=x&topic=y+z%21&n=")
            .header("X-Review-Scope", "one")
            .header("X-Review-Scope", "two")
            .header("Authorization", "Bearer s3cret")
            .header("Cookie", "a=b")
            .header("X-MDP-Auth-Team", "t");
        let reading = tokio::spawn({
            let address = host.address.to_string();
            async move { tokio::task::spawn_blocking(move || request.send(&address)).await }
        });
        let call = client.next_call().await;
        client.answer(&call, ok("fine")).await;
        assert_eq!(reading.await.unwrap().unwrap().status, 200);
        call
    };
    let call = ask(false).await;
    assert_eq!(call["query"], json!({"topic": "y z!", "n": ""}));
    assert_eq!((&call["method"], &call["params"]), (&json!("GET"), &json!({})));
    assert_eq!(call["headers"]["x-review-scope"], "one, two");
    for secret in ["authorization", "cookie", "host", "x-mdp-auth-team"] {
        assert_eq!(call["headers"].get(secret), None, "{secret}");
    }
    assert_eq!((call.get("auth"), call.get("body")), (None, None));
    let call = ask(true).await;
    assert_eq!(call["headers"]["authorization"], "Bearer s3cret");
    assert_eq!(
        (&call["auth"]["scheme"], &call["auth"]["token"]),
        (&json!("Bearer"), &json!("s3cret"))
    );
    assert_eq!(call["auth"]["headers"]["x-mdp-auth-team"], "t");
}

#[tokio::test]
async fn methods_other_than_get_and_head_are_refused() {
    let host = TestHost::new().await;
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let answer = host.ask(Request::new(method, "/skills/c/a")).await;
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.header("allow").as_deref(), Some("GET, HEAD, OPTIONS"), "{method}");
        assert!(answer.json()["error"]["message"].is_string(), "{method}");
    }
    let options = host.ask(Request::new("OPTIONS", "/c/skills/a")).await;
    assert_eq!(
        (options.status, options.header("allow").as_deref()),
        (204, Some("GET, HEAD, OPTIONS"))
    );
}

#[tokio::test]
async fn failures_have_a_status_and_a_code() {
    let paths = || json!([skill("/a/skill.md")]);
    let host = TestHost::new().await;
    let failing = host.client("failing", paths()).await;
    failing.serve_calls(|_| {
        json!({"ok": false, "error": {"code": "not_found", "message": "no", "details": {"a": 1}}})
    });
    let answer = host.get("/skills/failing/a").await;
    let error = json!({"error": {"code": "not_found", "message": "no", "details": {"a": 1}}});
    assert_eq!((answer.status, answer.json()), (502, error));

    let times = MdpTimeouts { answer_within: Duration::from_millis(200), ..MdpTimeouts::default() };
    let host = TestHost::with(Config { times, ..Config::default() }, None).await;
    let mut silent = host.client("silent", paths()).await;
    let answer = host.get("/skills/silent/a").await;
    assert_eq!(answer.refusal(), (504, "timeout".to_owned()));
    assert_eq!(answer.json()["error"]["message"], "Invocation timed out for client \"silent\"");
    // A late answer is ignored.
    let call = silent.next_call().await;
    silent.answer(&call, ok("late")).await;
    assert_eq!(host.get("/skills/silent/a").await.status, 504);
}

#[tokio::test]
async fn a_client_that_disconnects_during_a_call_is_a_bad_gateway() {
    let limits = MdpLimits { calls_per_client: 1, ..MdpLimits::default() };
    let host = TestHost::with(Config { limits, ..Config::default() }, None).await;
    let mut client = host.client("c", json!([skill("/a/skill.md")])).await;
    let address = host.address.to_string();
    let read = move || Request::get("/skills/c/a").send(&address);
    let reading = tokio::task::spawn_blocking(read.clone());
    client.next_call().await;
    let busy = host.get("/skills/c/a").await;
    assert_eq!(busy.refusal(), (503, "not_ready".to_owned()));
    assert_eq!(busy.header("retry-after").as_deref(), Some("1"));
    client.kill();
    let answer = reading.await.unwrap();
    assert_eq!(answer.refusal(), (502, "transport_error".to_owned()));
    assert_eq!(answer.json()["error"]["message"], "Client \"c\" disconnected");

    let mut client = host.client("a", json!([skill("/a/skill.md")])).await;
    let address = host.address.to_string();
    let read = move || Request::get("/skills/a/a").send(&address);
    let reading = tokio::task::spawn_blocking(read);
    client.next_call().await;
    client.send(&registration("b", json!([]))).await;
    let answer = reading.await.unwrap();
    assert_eq!(answer.status, 502);
    assert_eq!(answer.json()["error"]["message"], "Client \"a\" was re-registered as \"b\"");
}
