//! Agent Skills over plain HTTP, with and without a key.

use serde_json::{Value, json};
use skills_testkit::{Request, Response};

use crate::{
    support::mcp_clients::send,
    tiers::fixture::{
        ANN, BOB, InProcessServer, column, register, register_in_three_tiers, unregister,
    },
};

async fn get(server: &InProcessServer, path: &str, key: Option<&str>) -> Response {
    let mut request = Request::get(path);
    if let Some(key) = key {
        request = request.header("Authorization", &format!("Bearer {key}"));
    }
    send(&server.http, &request).await
}

const INDEX: &str = "/.well-known/agent-skills/index.json";

async fn published(server: &InProcessServer, key: Option<&str>) -> Value {
    get(server, INDEX, key).await.json()["skills"].take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discovery_lists_the_callers_view() {
    let server = InProcessServer::new().await;
    let worker = server.worker().await;
    register_in_three_tiers(&worker, "weather").await;
    register(&worker, "private", Some(ANN), "secret").await;
    let document = "/.well-known/agent-skills/weather/SKILL.md";
    let body = |answer: Response| String::from_utf8(answer.body).unwrap();
    // Alternating requests, so that a cache cannot mix callers.
    for _ in 0..2 {
        assert_eq!(column(&published(&server, Some(ANN)).await, "name"), ["secret", "weather"]);
        assert!(body(get(&server, document, Some(ANN)).await).contains("# private"));
        for key in [None, Some(BOB)] {
            let rows = published(&server, key).await;
            assert_eq!(column(&rows, "name"), ["weather"], "{key:?}");
            assert!(body(get(&server, document, key).await).contains("# official"), "{key:?}");
            for path in
                ["/.well-known/agent-skills/secret/SKILL.md", "/.well-known/skills/secret/SKILL.md"]
            {
                assert_eq!(get(&server, path, key).await.status, 404, "{path}");
            }
            let available = body(get(&server, "/v1/available-skills", key).await);
            assert!(!available.contains("secret"), "{available}");
        }
    }
    let digest = |rows: &Value| column(rows, "digest");
    let (anns, everyones) = (published(&server, Some(ANN)).await, published(&server, None).await);
    assert_ne!(digest(&anns)[1], digest(&everyones)[0]);
    unregister(&worker, "private", Some(ANN), "weather").await;
    assert!(body(get(&server, document, Some(ANN)).await).contains("# official"));
    unregister(&worker, "official", None, "weather").await;
    assert!(body(get(&server, document, Some(ANN)).await).contains("# market"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_to_credentials_are_not_cached_for_others() {
    let server = InProcessServer::new().await;
    for (key, cache) in [(None, "public, max-age=60"), (Some(ANN), "private, max-age=60")] {
        let answer = get(&server, INDEX, key).await;
        assert_eq!(answer.header("Cache-Control").as_deref(), Some(cache), "{key:?}");
        let vary = answer.header("Vary").unwrap();
        assert!(vary.contains("authorization"), "{vary}");
    }
    let refused = get(&server, INDEX, Some("us-nobody")).await;
    assert_eq!(refused.refusal(), (401, "unknown_key".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_accepted_where_a_token_is_set() {
    let server = InProcessServer::with(Default::default(), Some("the-token")).await;
    let worker = server.worker().await;
    register(&worker, "private", Some(ANN), "secret").await;
    assert_eq!(get(&server, INDEX, None).await.status, 401);
    assert_eq!(published(&server, Some("the-token")).await, json!([]));
    assert_eq!(column(&published(&server, Some(ANN)).await, "name"), ["secret"]);
}
