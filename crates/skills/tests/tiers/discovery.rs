//! Agent Skills over plain HTTP, with and without a key.

use serde_json::{Value, json};
use skills_testkit::{Answer, Request};

use crate::{
    clients::send,
    site::{ANN, BOB, Site, column, register, three, unregister},
};

async fn get(site: &Site, path: &str, key: Option<&str>) -> Answer {
    let mut request = Request::get(path);
    if let Some(key) = key {
        request = request.header("Authorization", &format!("Bearer {key}"));
    }
    send(&site.http, &request).await
}

const INDEX: &str = "/.well-known/agent-skills/index.json";

async fn published(site: &Site, key: Option<&str>) -> Value {
    get(site, INDEX, key).await.json()["skills"].take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everyone_finds_their_own_view() {
    let site = Site::new().await;
    let worker = site.worker().await;
    three(&worker, "weather").await;
    register(&worker, "private", Some(ANN), "secret").await;
    let document = "/.well-known/agent-skills/weather/SKILL.md";
    let body = |answer: Answer| String::from_utf8(answer.body).unwrap();
    // In turns, so that what is remembered for one is not given to another.
    for _ in 0..2 {
        assert_eq!(column(&published(&site, Some(ANN)).await, "name"), ["secret", "weather"]);
        assert!(body(get(&site, document, Some(ANN)).await).contains("# private"));
        for key in [None, Some(BOB)] {
            let rows = published(&site, key).await;
            assert_eq!(column(&rows, "name"), ["weather"]);
            assert!(body(get(&site, document, key).await).contains("# official"));
            for path in
                ["/.well-known/agent-skills/secret/SKILL.md", "/.well-known/skills/secret/SKILL.md"]
            {
                assert_eq!(get(&site, path, key).await.status, 404, "{path}");
            }
            let available = body(get(&site, "/v1/available-skills", key).await);
            assert!(!available.contains("secret"), "{available}");
        }
    }
    let digest = |rows: &Value| column(rows, "digest");
    let (anns, everyones) = (published(&site, Some(ANN)).await, published(&site, None).await);
    assert_ne!(digest(&anns)[1], digest(&everyones)[0]);
    unregister(&worker, "private", Some(ANN), "weather").await;
    assert!(body(get(&site, document, Some(ANN)).await).contains("# official"));
    unregister(&worker, "official", None, "weather").await;
    assert!(body(get(&site, document, Some(ANN)).await).contains("# market"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_asked_with_a_credential_is_kept_for_nobody_else() {
    let site = Site::new().await;
    for (key, cache) in [(None, "public, max-age=60"), (Some(ANN), "private, max-age=60")] {
        let answer = get(&site, INDEX, key).await;
        assert_eq!(answer.header("Cache-Control").as_deref(), Some(cache));
        let vary = answer.header("Vary").unwrap();
        assert!(vary.contains("authorization"), "{vary}");
    }
    let refused = get(&site, INDEX, Some("us-nobody")).await;
    assert_eq!(refused.refusal(), (401, "unknown_key".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_opens_also_where_a_token_is_set() {
    let site = Site::with(Default::default(), Some("the-token")).await;
    let worker = site.worker().await;
    register(&worker, "private", Some(ANN), "secret").await;
    assert_eq!(get(&site, INDEX, None).await.status, 401);
    assert_eq!(published(&site, Some("the-token")).await, json!([]));
    assert_eq!(column(&published(&site, Some(ANN)).await, "name"), ["secret"]);
}
