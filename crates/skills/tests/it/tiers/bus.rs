//! Bus functions with and without a key.

use serde_json::{Value, json};
use skills_testkit::{Worker, next};

use crate::tiers::fixture::{
    ANN, BOB, InProcessServer, column, register, register_in_three_tiers, unregister,
};

async fn resolved(worker: &Worker, id: &str, key: Option<&str>) -> Value {
    worker.ok("skills::resolve", json!({ "id": id, "key": key, "explain": true })).await
}

async fn text(worker: &Worker, uri: &str, key: Option<&str>) -> String {
    let answer = worker.ok("skills::resources-read", json!({ "uri": uri, "key": key })).await;
    answer["contents"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_a_copy_uncovers_the_tier_below() {
    let server = InProcessServer::new().await;
    let worker = server.worker().await;
    register_in_three_tiers(&worker, "weather").await;
    for key in [None, Some(BOB)] {
        let answer = resolved(&worker, "weather", key).await;
        assert_eq!(
            (&answer["tier"], &answer["uri"]),
            (&json!("official"), &json!("iii://weather")),
            "{key:?}"
        );
        assert_eq!(answer["shadows"], json!([{ "tier": "market", "id": "weather" }]), "{key:?}");
    }
    let answer = resolved(&worker, "weather", Some(ANN)).await;
    assert_eq!(answer["tier"], "private");
    assert_eq!(
        answer["shadows"],
        json!([{ "tier": "official", "id": "weather" }, { "tier": "market", "id": "weather" }])
    );
    assert_eq!(answer["tried"], json!([{ "tier": "private", "id": "weather" }]));
    for tier in ["private", "official", "market"] {
        let uri = format!("skill://{tier}/weather/SKILL.md");
        assert!(text(&worker, &uri, Some(ANN)).await.starts_with(&format!("# {tier}")), "{tier}");
        let input = json!({ "id": "weather", "tier": tier, "key": ANN });
        let answer = worker.ok("skills::resolve", input).await;
        assert_eq!(answer["uri"], format!("skill://{tier}/weather"), "{tier}");
    }
    for (gone, key, left) in [("private", Some(ANN), "official"), ("official", None, "market")] {
        unregister(&worker, gone, key, "weather").await;
        assert!(
            text(&worker, "iii://weather", Some(ANN)).await.starts_with(&format!("# {left}")),
            "{gone}"
        );
    }
    unregister(&worker, "market", None, "weather").await;
    let failure = worker.fails("skills::resolve", json!({ "id": "weather" })).await;
    assert_eq!(failure.code, "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_also_resolved_with_the_prefix() {
    let server = InProcessServer::new().await;
    let worker = server.worker().await;
    register(&worker, "market", None, "uniskill_weather").await;
    assert!(text(&worker, "iii://weather", None).await.starts_with("# market"));
    let answer = resolved(&worker, "weather", None).await;
    assert_eq!((&answer["id"], &answer["tier"]), (&json!("uniskill_weather"), &json!("market")));
    let files = worker.ok("skills::files", json!({ "id": "weather" })).await;
    assert_eq!(column(&files["files"], "path"), ["SKILL.md"]);
    // An exact name in the tier above wins over a prefixed one.
    register(&worker, "official", None, "weather").await;
    assert!(text(&worker, "iii://weather", None).await.starts_with("# official"));

    let config = skills::config::Config { prefix: "".parse().unwrap(), ..Default::default() };
    let server = InProcessServer::with(config, None).await;
    let worker = server.worker().await;
    register(&worker, "market", None, "uniskill_weather").await;
    let failure = worker.fails("skills::resolve", json!({ "id": "weather" })).await;
    assert_eq!(failure.code, "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_effective_or_of_every_layer_with_paging() {
    let server = InProcessServer::new().await;
    let worker = server.worker().await;
    register_in_three_tiers(&worker, "b").await;
    register(&worker, "market", None, "a").await;
    let page = |more: Value| {
        let mut input = json!({ "key": ANN });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        worker.ok("skills::catalog", input)
    };
    let effective = page(json!({})).await;
    assert_eq!(column(&effective["skills"], "tier"), ["market", "private"]);
    let mut all = vec![];
    let mut after = Value::Null;
    loop {
        let mut answer = page(json!({ "layers": "all", "limit": 1, "after": after })).await;
        all.extend(column(&answer["skills"], "tier"));
        match answer["next"].take() {
            Value::Null => break,
            next => after = next,
        }
    }
    assert_eq!(all, ["market", "private", "official", "market"]);
    let market = page(json!({ "layers": "all", "tier": "market" })).await;
    assert_eq!(column(&market["skills"], "id"), ["a", "b"]);
    let failure =
        worker.fails("skills::catalog", json!({ "layers": "all", "after": "nothing" })).await;
    assert_eq!(failure.code, "invalid_input");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_entries_are_visible_to_their_owner_only() {
    let server = InProcessServer::new().await;
    let worker = server.worker().await;
    let mut received = worker.collect("test::heard").await;
    worker.subscribe("skills::on-change", "test::heard", json!({})).await;
    register(&worker, "private", Some(ANN), "secret").await;
    let prompt = json!({
        "name": "mine", "description": "Mine.", "function_id": "a::b", "tier": "private", "key": ANN,
    });
    worker.ok("prompts::register", prompt).await;
    for key in [None, Some(BOB)] {
        for (function, input) in [
            ("skills::list", json!({ "key": key })),
            ("skills::resources-list", json!({ "key": key })),
            ("skills::catalog", json!({ "key": key, "layers": "all" })),
            ("skills::catalog", json!({ "key": key, "ids": ["secret"] })),
            ("skills::catalog", json!({ "key": key, "tier": "private" })),
            ("skills::available", json!({ "key": key })),
            ("skills::resources-read", json!({ "key": key, "uri": "iii://skills" })),
            ("prompts::list", json!({ "key": key })),
            ("prompts::mcp-list", json!({ "key": key })),
        ] {
            let answer = worker.ok(function, input).await.to_string();
            assert!(!answer.contains("secret") && !answer.contains("mine"), "{function}: {answer}");
        }
        for (function, input) in [
            ("skills::resolve", json!({ "key": key, "id": "secret", "explain": true })),
            ("skills::resolve", json!({ "key": key, "id": "secret", "tier": "private" })),
            ("skills::files", json!({ "key": key, "id": "secret" })),
            ("skills::resources-read", json!({ "key": key, "uri": "iii://secret" })),
            ("skills::resources-read", json!({ "key": key, "uri": "skill://private/secret" })),
            ("prompts::mcp-get", json!({ "key": key, "name": "mine" })),
        ] {
            let failure = worker.fails(function, input).await;
            assert_eq!(failure.code, "not_found", "{function}");
        }
        // Writes go to the caller's own layer, never to that of another user.
        let removed = json!({ "key": BOB, "id": "secret", "tier": "private" });
        assert_eq!(worker.ok("skills::unregister", removed).await["removed"], false, "{key:?}");
    }
    for function in ["skills::list", "skills::resources-list", "skills::available"] {
        let answer = worker.ok(function, json!({ "key": ANN })).await.to_string();
        assert!(answer.contains("secret"), "{function}: {answer}");
    }
    assert!(worker.ok("prompts::list", json!({ "key": ANN })).await.to_string().contains("mine"));
    // Public changes notify; the private ones before did not.
    register(&worker, "official", None, "public").await;
    assert_eq!(next(&mut received).await["id"], "public");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_key_is_refused_and_not_treated_as_anonymous() {
    let server = InProcessServer::new().await;
    let worker = server.worker().await;
    register(&worker, "official", None, "a").await;
    for key in ["us-nobody", "the-admin-secret", "", "ann"] {
        for (function, input) in [
            ("skills::list", json!({ "key": key })),
            ("skills::resources-read", json!({ "key": key, "uri": "iii://a" })),
            ("skills::resources-read", json!({ "key": key, "uri": "iii://skills" })),
            ("skills::resolve", json!({ "key": key, "id": "a" })),
            ("skills::register", json!({ "key": key, "id": "b", "skill": "x" })),
            ("skills::unregister", json!({ "key": key, "id": "a", "tier": "private" })),
        ] {
            let failure = worker.fails(function, input).await;
            assert_eq!(failure.code, "unknown_key", "{function} {key}");
            assert!(key.is_empty() || !failure.message.contains(key), "{}", failure.message);
        }
    }
    let private = json!({ "id": "b", "skill": "x", "tier": "private" });
    assert_eq!(worker.fails("skills::register", private).await.code, "key_needed");
    // Only a key identifies the caller.
    let uid = json!({ "id": "b", "skill": "x", "tier": "private", "uid": "ann", "owner": "ann" });
    assert_eq!(worker.fails("skills::register", uid).await.code, "key_needed");
    let tier = json!({ "id": "b", "skill": "x", "tier": "secret" });
    assert_eq!(worker.fails("skills::register", tier).await.code, "invalid_input");
}
