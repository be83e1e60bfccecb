//! Secrets of a user: written, listed by name, granted, removed, and never read back.

use axum::http::StatusCode;
use serde_json::{Value, json};
use skills_core::{Caller, Layer};

use crate::{admin::admin, skills::tool, test_gateway::TestGateway};

async fn set(
    gateway: &TestGateway,
    caller: &Caller,
    uri: &str,
    value: &str,
) -> (StatusCode, Value) {
    gateway.ask(caller, "PUT", uri, &json!({ "value": value })).await
}

#[tokio::test]
async fn a_secret_is_written_and_never_read_back() {
    let gateway = TestGateway::open();
    let (ann, bob) = (gateway.user("ann"), gateway.user("bob"));
    let (status, answer) = set(&gateway, &ann, "/v1/secrets/TOKEN", "s3cr3t-value").await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"success": true, "name": "TOKEN"})));
    let (_, list) = gateway.get(&ann, "/v1/secrets").await;
    assert_eq!(list["data"][0]["name"], "TOKEN");
    assert!(!list.to_string().contains("s3cr3t"));
    assert_eq!(gateway.get(&bob, "/v1/secrets").await.1["data"], json!([]));
    let gone = |caller: &Caller| {
        gateway.ask_owned(caller.clone(), "DELETE", "/v1/secrets/TOKEN", Value::Null)
    };
    let (status, answer) = gone(&bob).await;
    assert_eq!((status.as_u16(), &answer["code"]), (404, &json!("no_such_secret")));
    assert_eq!(gone(&ann).await.0, StatusCode::OK);
    assert_eq!(gone(&ann).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_secret_is_stored_under_the_resolved_skill_id() {
    let gateway = TestGateway::open();
    let ann = gateway.user("ann");
    let layer = Layer::Official;
    let put = gateway.registry.register_skill("test", &layer, "uniskill_weather", "# W".to_owned());
    put.await.unwrap();
    for (named, kept) in [("weather", "uniskill_weather"), ("later", "later")] {
        let uri = format!("/v1/secrets/TOKEN?skill={named}");
        let (_, answer) = set(&gateway, &ann, &uri, "v").await;
        assert_eq!(answer["skill"], kept, "{named}");
        let (status, answer) = gateway.ask(&ann, "DELETE", &uri, &Value::Null).await;
        assert_eq!((status, &answer["skill"]), (StatusCode::OK, &json!(kept)), "{named}");
    }
}

#[tokio::test]
async fn only_market_skills_can_be_granted_secrets() {
    let gateway = TestGateway::open();
    let ann = gateway.user("ann");
    set(&gateway, &ann, "/v1/secrets/TOKEN", "v").await;
    let grant = |method: &'static str, name: &str| {
        let uri = format!("/v1/secrets/{name}/grants/weather");
        let ann = ann.clone();
        let gateway = &gateway;
        async move { gateway.ask(&ann, method, &uri, &Value::Null).await }
    };
    let (status, answer) = grant("PUT", "TOKEN").await;
    assert_eq!((status.as_u16(), &answer["code"]), (404, &json!("not_found")));
    let put = gateway.registry.register_skill(
        "test",
        &Layer::Market,
        "uniskill_weather",
        "# W".to_owned(),
    );
    put.await.unwrap();
    let (status, answer) = grant("PUT", "TOKEN").await;
    assert_eq!((status, &answer["granted"]), (StatusCode::OK, &json!(true)), "{answer}");
    assert_eq!(answer["skill"], "uniskill_weather");
    let (status, answer) = grant("PUT", "OTHER").await;
    assert_eq!((status.as_u16(), &answer["code"]), (404, &json!("no_such_secret")));
    let (_, list) = gateway.get(&ann, "/v1/secrets").await;
    assert_eq!(list["data"][0]["granted_to"], json!(["uniskill_weather"]));
    let (_, answer) = grant("DELETE", "TOKEN").await;
    assert_eq!(answer["granted"], false);
    let (_, list) = gateway.get(&ann, "/v1/secrets").await;
    assert_eq!(list["data"][0]["granted_to"], json!([]));
}

#[tokio::test]
async fn secret_routes_require_a_key() {
    let gateway = TestGateway::open();
    for caller in [Caller::Anonymous, admin()] {
        for (method, uri) in [
            ("GET", "/v1/secrets"),
            ("PUT", "/v1/secrets/A"),
            ("DELETE", "/v1/secrets/A"),
            ("PUT", "/v1/secrets/A/grants/x"),
            ("DELETE", "/v1/secrets/A/grants/x"),
            ("GET", "/v1/auth/verify"),
        ] {
            let (status, answer) = gateway.ask(&caller, method, uri, &json!({"value": "v"})).await;
            assert_eq!((status.as_u16(), &answer["code"]), (401, &json!("key_needed")), "{uri}");
            assert_eq!(answer["error"], "Invalid Key Format", "{method}");
        }
    }
}

#[tokio::test]
async fn invalid_secrets_are_refused() {
    let gateway = TestGateway::open();
    let ann = gateway.user("ann");
    for (uri, body, status, code) in [
        ("/v1/secrets/a%20b", json!({"value": "v"}), 400, "invalid_path"),
        ("/v1/secrets/A?skill=B", json!({"value": "v"}), 400, "invalid_query"),
        ("/v1/secrets/A", json!({"value": ""}), 422, "invalid_input"),
        ("/v1/secrets/A", json!({"value": 1}), 422, "invalid_body"),
        ("/v1/secrets/A", json!({}), 422, "invalid_body"),
        ("/v1/secrets/A", json!({"value": "x".repeat(65537)}), 413, "too_large"),
    ] {
        let (found, answer) = gateway.ask(&ann, "PUT", uri, &body).await;
        assert_eq!((found.as_u16(), &answer["code"]), (status, &json!(code)), "{uri}: {answer}");
    }
    let bare = TestGateway::without_master_key();
    let ann = bare.user("ann");
    let (status, answer) = set(&bare, &ann, "/v1/secrets/A", "v").await;
    assert_eq!((status.as_u16(), &answer["code"]), (503, &json!("no_master_key")));
    assert_eq!(bare.get(&ann, "/v1/secrets").await.0, StatusCode::OK);
}

/// A replaced skill, or one with another server, loses the grants given before.
#[tokio::test]
async fn a_grant_is_bound_to_the_server_that_the_skill_calls() {
    let gateway = TestGateway::open();
    let ann = gateway.user("ann");
    set(&gateway, &ann, "/v1/secrets/TOKEN", "v").await;
    let publish = |host: &str| {
        let endpoint = format!("https://{host}/{{{{q|x}}}}?k={{{{SECRETS.TOKEN}}}}");
        let text = json!({"id": "weather", "config": {"endpoint": endpoint}}).to_string();
        let tool = tool("weather", &text);
        gateway.registry.register_tool("test", &Layer::Market, "weather", tool)
    };
    let missing = async || {
        let (_, shown) = gateway.get(&ann, "/v1/skills/weather").await;
        shown["secrets"]["missing"].clone()
    };
    let grant = async || {
        let uri = "/v1/secrets/TOKEN/grants/weather";
        assert_eq!(gateway.ask(&ann, "PUT", uri, &Value::Null).await.0, StatusCode::OK);
    };
    let document = gateway.registry.register_skill("t", &Layer::Market, "weather", "# W".into());
    document.await.unwrap();
    grant().await;
    publish("127.0.0.1").await.unwrap();
    let changed = json!([{"name": "TOKEN", "reason": "origin_changed"}]);
    assert_eq!(missing().await, changed, "what called nothing was granted nothing");
    let uri = "/v1/secrets/TOKEN/grants/weather";
    assert_eq!(gateway.ask(&ann, "DELETE", uri, &Value::Null).await.0, StatusCode::OK);
    assert_eq!(missing().await, json!([{"name": "TOKEN", "reason": "not_granted"}]));
    grant().await;
    assert_eq!(missing().await, json!([]));
    publish("127.0.0.2").await.unwrap();
    assert_eq!(missing().await, changed);
    let (status, answer) = gateway.ask(&ann, "POST", "/v1/execute/weather", &json!({})).await;
    assert_eq!((status.as_u16(), &answer["code"]), (422, &json!("missing_secrets")), "{answer}");
    assert_eq!(answer["details"], changed);
    grant().await;
    // The call gets as far as the address check.
    let (status, answer) = gateway.ask(&ann, "POST", "/v1/execute/weather", &json!({})).await;
    assert_eq!((status.as_u16(), &answer["code"]), (403, &json!("refused_address")), "{answer}");
}

#[tokio::test]
async fn setting_secrets_counts_against_the_rate_limit() {
    let gateway = TestGateway::open();
    // Several users, in case a minute ends meanwhile.
    for number in 0..5 {
        let caller = gateway.user(&format!("user{number}"));
        let minute = || skills_vault::now().as_micros() / 60_000_000;
        let began = minute();
        let mut refused = None;
        for round in 0..17 {
            for (method, uri, body) in [
                ("PUT", "/v1/secrets/A", json!({ "value": "v" })),
                ("PUT", "/v1/secrets/A/grants/none", Value::Null),
                ("DELETE", "/v1/secrets/A/grants/none", Value::Null),
                ("DELETE", "/v1/secrets/A", Value::Null),
            ] {
                let (status, answer) = gateway.ask(&caller, method, uri, &body).await;
                if status == StatusCode::TOO_MANY_REQUESTS {
                    assert_eq!(
                        (&answer["code"], method),
                        (&json!("rate_limited"), "PUT"),
                        "{method:?}"
                    );
                    refused.get_or_insert(round);
                }
            }
        }
        let (listed, _) = gateway.get(&caller, "/v1/secrets").await;
        if minute() == began {
            assert_eq!(refused, Some(15), "30 uses are fifteen rounds");
            assert_eq!(listed, StatusCode::OK, "neither looking nor taking back counts");
            return;
        }
    }
    panic!("every try went over the end of a minute");
}
