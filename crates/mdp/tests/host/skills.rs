//! Skills of live clients over plain HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use skills_mdp::{Config, Limits, Times};
use skills_testkit::{
    Request,
    mdp::{ok, registration, skill},
};

use crate::world::{World, text};

#[tokio::test]
async fn every_form_of_an_address() {
    let world = World::new().await;
    let paths = ["/skill.md", "/team/review/skill.md", "/upper/SKILL.md", "/goods/:id/skill.md"];
    let client = world.client("c d", paths.iter().map(|path| skill(path)).collect()).await;
    client.serving(|call| ok(format!("{} {}", call["path"].as_str().unwrap(), call["params"])));
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
        let answer = world.get(address).await;
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
        let answer = world.get(address).await;
        assert_eq!(answer.refusal(), (404, "not_found".to_owned()), "{address}");
    }
    for address in ["/skills/x/%zz", "/skills/%ff/a", "/x%/skills/a"] {
        assert_eq!(
            world.get(address).await.refusal(),
            (400, "bad_request".to_owned()),
            "{address}"
        );
    }
}

#[tokio::test]
async fn only_skills_are_served() {
    let world = World::new().await;
    let paths = json!([
        {"type": "endpoint", "path": "/goods/:id", "method": "GET"},
        {"type": "prompt", "path": "/ask/prompt.md"},
        skill("/:any/skill.md"),
    ]);
    world.client("c", paths).await.serving(|_| ok("x"));
    assert_eq!(world.get("/skills/c/ask/prompt.md").await.status, 404);
    // The client itself would answer with the endpoint, which is the more specific.
    assert_eq!(world.get("/skills/c/goods").await.status, 404);
    assert_eq!(world.get("/skills/c/other").await.status, 200);
}

#[tokio::test]
async fn types_and_bodies() {
    let world = World::new().await;
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
    world.client("c", paths).await.serving(|call| match call["path"].as_str().unwrap() {
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
        let answer = world.get(&format!("/skills/c/{name}")).await;
        assert_eq!((answer.status, text(&answer)), (200, body), "{name}");
        assert_eq!(answer.header("content-type").as_deref(), Some(media_type), "{name}");
        assert_eq!(answer.header("content-length").unwrap(), body.len().to_string(), "{name}");
        assert_eq!(answer.header("x-content-type-options").as_deref(), Some("nosniff"));
    }
}

#[tokio::test]
async fn what_is_known_is_not_sent_again() {
    let world = World::new().await;
    world.client("c", json!([skill("/a/skill.md")])).await.serving(|_| ok("# A"));
    let first = world.get("/skills/c/a").await;
    let tag = first.header("etag").unwrap();
    let again = world.ask(Request::get("/skills/c/a").header("If-None-Match", &tag)).await;
    assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag.clone())));
    let other = world.ask(Request::get("/skills/c/a").header("If-None-Match", "\"x\"")).await;
    assert_eq!(other.status, 200);
    let head = world.ask(Request::new("HEAD", "/skills/c/a")).await;
    assert_eq!((head.status, head.body.len(), head.header("etag")), (200, 0, Some(tag)));
    assert_eq!(head.header("content-length").as_deref(), Some("3"));
}

#[tokio::test]
async fn queries_and_headers_reach_the_client_but_credentials_do_not() {
    let ask = async |forward_credentials: bool| {
        let config = Config { forward_credentials, ..Config::default() };
        let world = World::with(config, None).await;
        let mut client = world.client("c", json!([skill("/a/skill.md")])).await;
        let request = Request::get("/skills/c/a?topic=x&topic=y+z%21&n=")
            .header("X-Review-Scope", "one")
            .header("X-Review-Scope", "two")
            .header("Authorization", "Bearer s3cret")
            .header("Cookie", "a=b")
            .header("X-MDP-Auth-Team", "t");
        let reading = tokio::spawn({
            let address = world.address.to_string();
            async move { tokio::task::spawn_blocking(move || request.send(&address)).await }
        });
        let call = client.asked().await;
        client.answer(&call, ok("fine")).await;
        assert_eq!(reading.await.unwrap().unwrap().status, 200);
        call
    };
    let call = ask(false).await;
    assert_eq!(call["query"], json!({"topic": "y z!", "n": ""}));
    assert_eq!((&call["method"], &call["params"]), (&json!("GET"), &json!({})));
    assert_eq!(call["headers"]["x-review-scope"], "one, two");
    assert!(call["headers"]["host"].is_string());
    for secret in ["authorization", "cookie", "x-mdp-auth-team"] {
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
async fn other_methods() {
    let world = World::new().await;
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let answer = world.ask(Request::new(method, "/skills/c/a")).await;
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.header("allow").as_deref(), Some("GET, HEAD, OPTIONS"));
        assert!(answer.json()["error"]["message"].is_string());
    }
    let options = world.ask(Request::new("OPTIONS", "/c/skills/a")).await;
    assert_eq!(
        (options.status, options.header("allow").as_deref()),
        (204, Some("GET, HEAD, OPTIONS"))
    );
}

#[tokio::test]
async fn failures_have_a_status_and_a_code() {
    let paths = || json!([skill("/a/skill.md")]);
    let world = World::new().await;
    let failing = world.client("failing", paths()).await;
    failing.serving(|_| {
        json!({"ok": false, "error": {"code": "not_found", "message": "no", "details": {"a": 1}}})
    });
    let answer = world.get("/skills/failing/a").await;
    let error = json!({"error": {"code": "not_found", "message": "no", "details": {"a": 1}}});
    assert_eq!((answer.status, answer.json()), (502, error));

    let times = Times { answer_within: Duration::from_millis(200), ..Times::default() };
    let world = World::with(Config { times, ..Config::default() }, None).await;
    let mut silent = world.client("silent", paths()).await;
    let answer = world.get("/skills/silent/a").await;
    assert_eq!(answer.refusal(), (504, "timeout".to_owned()));
    assert_eq!(answer.json()["error"]["message"], "Invocation timed out for client \"silent\"");
    // Late is never.
    let call = silent.asked().await;
    silent.answer(&call, ok("late")).await;
    assert_eq!(world.get("/skills/silent/a").await.status, 504);
}

#[tokio::test]
async fn a_client_that_goes_while_it_is_asked() {
    let limits = Limits { calls_per_client: 1, ..Limits::default() };
    let world = World::with(Config { limits, ..Config::default() }, None).await;
    let mut client = world.client("c", json!([skill("/a/skill.md")])).await;
    let address = world.address.to_string();
    let read = move || Request::get("/skills/c/a").send(&address);
    let reading = tokio::task::spawn_blocking(read.clone());
    client.asked().await;
    let busy = world.get("/skills/c/a").await;
    assert_eq!(busy.refusal(), (503, "not_ready".to_owned()));
    assert_eq!(busy.header("retry-after").as_deref(), Some("1"));
    client.kill();
    let answer = reading.await.unwrap();
    assert_eq!(answer.refusal(), (502, "transport_error".to_owned()));
    assert_eq!(answer.json()["error"]["message"], "Client \"c\" disconnected");

    let mut client = world.client("a", json!([skill("/a/skill.md")])).await;
    let address = world.address.to_string();
    let read = move || Request::get("/skills/a/a").send(&address);
    let reading = tokio::task::spawn_blocking(read);
    client.asked().await;
    client.send(&registration("b", json!([]))).await;
    let answer = reading.await.unwrap();
    assert_eq!(answer.status, 502);
    assert_eq!(answer.json()["error"]["message"], "Client \"a\" was re-registered as \"b\"");
}
