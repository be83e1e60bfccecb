//! Live and stored skills, read over HTTP.

use serde_json::json;
use skills_testkit::{
    Request,
    mdp::{ok, skill},
};

use crate::{
    mdp::{ask, client, get, paths, post, text},
    support::{TestServer, register},
};

#[tokio::test]
async fn live_skills_are_readable_while_their_client_is_connected() {
    let server = TestServer::new();
    assert_eq!(get(&server, "/skills/tab/review").await.status, 404);
    let described = json!([
        skill("/review/skill.md"),
        {"type": "skill", "path": "/goods/:id/skill.md", "contentType": "text/plain"},
    ]);
    let serving = client(&server, "tab", described)
        .await
        .serve_calls(|call| ok(format!("{} {} {}", call["path"], call["params"], call["query"])));
    let review = r#""/review/skill.md" {} {"q":"1"}"#;
    for address in ["/skills/tab/review?q=1", "/tab/skills/review/skill.md?q=1"] {
        let answer = get(&server, address).await;
        assert_eq!((answer.status, text(&answer)), (200, review), "{address}");
        let kind = answer.header("content-type");
        assert_eq!(kind.as_deref(), Some("text/markdown; charset=utf-8"), "{address}");
        let tag = answer.header("etag").unwrap();
        let again = Request::get(address).header("If-None-Match", &tag);
        assert_eq!(ask(&server, again).await.unwrap().status, 304, "{address}");
    }
    let head = ask(&server, Request::new("HEAD", "/skills/tab/goods/7")).await.unwrap();
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-type").as_deref(), Some("text/plain; charset=utf-8"));
    assert_eq!(get(&server, "/skills/tab/%zz").await.refusal(), (400, "bad_request".to_owned()));
    serving.abort();
    let gone = async { while get(&server, "/skills/tab/review").await.status != 404 {} };
    tokio::time::timeout(skills_testkit::DEADLINE, gone).await.expect("still there");
}

#[tokio::test]
async fn stored_skills_form_a_client_and_other_routes_win() {
    let server = TestServer::new();
    register(&server.worker().await, "pdf", "# PDF\n\nReads.\n").await;
    for address in ["/skills/registry/pdf", "/registry/skills/pdf/skill.md"] {
        let answer = get(&server, address).await;
        assert_eq!((answer.status, text(&answer)), (200, "# PDF\n\nReads.\n"), "{address}");
    }
    assert_eq!(get(&server, "/.well-known/skills/index.json").await.status, 200);
    assert_eq!(get(&server, "/healthz").await.status, 200);
    let nowhere = get(&server, "/nowhere").await;
    assert_eq!(nowhere.refusal(), (404, "not_found".to_owned()));
    let put = ask(&server, Request::new("PUT", "/skills/registry/pdf")).await.unwrap();
    assert_eq!((put.status, put.header("allow").as_deref()), (405, Some("GET, HEAD, OPTIONS")));
}

#[tokio::test]
async fn no_client_can_shadow_a_route() {
    let server = TestServer::new();
    for id in ["v1", "mcp", "mdp", ".well-known", "healthz", "readyz", "skills", "registry"] {
        let mut client = skills_testkit::mdp::Client::connect(&crate::mdp::ws(&server)).await;
        client.send(&skills_testkit::mdp::registration(id, paths())).await;
        let (code, reason) = client.wait_for_close().await;
        assert!(code == 1008 && reason.contains("reserved"), "{id}: {code} {reason}");
    }
}

#[tokio::test]
async fn the_http_loop_accepts_results_above_the_body_limit() {
    let server = TestServer::new();
    let connected = post(&server, "/mdp/http-loop/connect", "").await;
    let session = connected.json()["sessionId"].as_str().unwrap().to_owned();
    let send = |message: serde_json::Value| {
        let body = json!({ "message": message }).to_string();
        ask(
            &server,
            Request::new("POST", &format!("/mdp/http-loop/send?sessionId={session}")).body(body),
        )
    };
    let registered = send(skills_testkit::mdp::registration("loop", paths())).await.unwrap();
    assert_eq!(registered.status, 202);
    let waiting = ask(&server, Request::get("/skills/loop/a"));
    let polled = get(&server, &format!("/mdp/http-loop/poll?sessionId={session}")).await;
    let call = polled.json()["message"].clone();
    let large = "x".repeat(6 << 20);
    let result = json!({
        "type": "callClientResult", "requestId": call["requestId"], "ok": true, "data": large,
    });
    assert_eq!(send(result).await.unwrap().status, 202);
    assert_eq!(waiting.await.unwrap().body.len(), large.len());
    let too_large = send(json!("x".repeat(9 << 20))).await.unwrap();
    assert_eq!(too_large.status, 413);
}
