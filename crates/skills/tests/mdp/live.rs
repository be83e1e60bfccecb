//! Skills of clients and of the registry, read over HTTP.

use serde_json::json;
use skills_testkit::{
    Request,
    mdp::{ok, skill},
};

use crate::{
    ask, client, get, paths, post,
    support::{Home, register},
    text,
};

#[tokio::test]
async fn what_a_client_has_is_there_as_long_as_the_client() {
    let home = Home::new();
    assert_eq!(get(&home, "/skills/tab/review").await.status, 404);
    let described = json!([
        skill("/review/skill.md"),
        {"type": "skill", "path": "/goods/:id/skill.md", "contentType": "text/plain"},
    ]);
    let serving = client(&home, "tab", described)
        .await
        .serving(|call| ok(format!("{} {} {}", call["path"], call["params"], call["query"])));
    let review = r#""/review/skill.md" {} {"q":"1"}"#;
    for address in ["/skills/tab/review?q=1", "/tab/skills/review/skill.md?q=1"] {
        let answer = get(&home, address).await;
        assert_eq!((answer.status, text(&answer)), (200, review), "{address}");
        let kind = answer.header("content-type");
        assert_eq!(kind.as_deref(), Some("text/markdown; charset=utf-8"));
        let tag = answer.header("etag").unwrap();
        let again = Request::get(address).header("If-None-Match", &tag);
        assert_eq!(ask(&home, again).await.unwrap().status, 304, "{address}");
    }
    let head = ask(&home, Request::new("HEAD", "/skills/tab/goods/7")).await.unwrap();
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-type").as_deref(), Some("text/plain; charset=utf-8"));
    assert_eq!(get(&home, "/skills/tab/%zz").await.refusal(), (400, "bad_request".to_owned()));
    serving.abort();
    let gone = async { while get(&home, "/skills/tab/review").await.status != 404 {} };
    tokio::time::timeout(skills_testkit::DEADLINE, gone).await.expect("still there");
}

#[tokio::test]
async fn what_is_stored_is_a_client_too_and_other_routes_come_first() {
    let home = Home::new();
    register(&home.worker().await, "pdf", "# PDF\n\nReads.\n").await;
    for address in ["/skills/registry/pdf", "/registry/skills/pdf/skill.md"] {
        let answer = get(&home, address).await;
        assert_eq!((answer.status, text(&answer)), (200, "# PDF\n\nReads.\n"), "{address}");
    }
    assert_eq!(get(&home, "/.well-known/skills/index.json").await.status, 200);
    assert_eq!(get(&home, "/healthz").await.status, 200);
    let nowhere = get(&home, "/nowhere").await;
    assert_eq!(nowhere.refusal(), (404, "not_found".to_owned()));
    let put = ask(&home, Request::new("PUT", "/skills/registry/pdf")).await.unwrap();
    assert_eq!((put.status, put.header("allow").as_deref()), (405, Some("GET, HEAD, OPTIONS")));
}

#[tokio::test]
async fn no_client_takes_the_place_of_a_route() {
    let home = Home::new();
    for id in ["v1", "mcp", "mdp", ".well-known", "healthz", "readyz", "skills", "registry"] {
        let mut client = skills_testkit::mdp::Client::connect(&crate::ws(&home)).await;
        client.send(&skills_testkit::mdp::registration(id, paths())).await;
        let (code, reason) = client.closed().await;
        assert!(code == 1008 && reason.contains("reserved"), "{id}: {code} {reason}");
    }
}

#[tokio::test]
async fn the_loop_takes_results_that_are_larger_than_other_bodies() {
    let home = Home::new();
    let connected = post(&home, "/mdp/http-loop/connect", "").await;
    let session = connected.json()["sessionId"].as_str().unwrap().to_owned();
    let send = |message: serde_json::Value| {
        let body = json!({ "message": message }).to_string();
        ask(
            &home,
            Request::new("POST", &format!("/mdp/http-loop/send?sessionId={session}")).body(body),
        )
    };
    let registered = send(skills_testkit::mdp::registration("loop", paths())).await.unwrap();
    assert_eq!(registered.status, 202);
    let waiting = ask(&home, Request::get("/skills/loop/a"));
    let polled = get(&home, &format!("/mdp/http-loop/poll?sessionId={session}")).await;
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
