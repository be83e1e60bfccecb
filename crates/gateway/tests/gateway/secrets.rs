//! Secrets of somebody with a key: written, listed by name, granted, removed, and never read back.

use axum::http::StatusCode;
use serde_json::{Value, json};
use skills_core::{Caller, Layer};

use crate::{admin::admin, house::House, skills::tool};

async fn set(house: &House, caller: &Caller, uri: &str, value: &str) -> (StatusCode, Value) {
    house.ask(caller, "PUT", uri, &json!({ "value": value })).await
}

#[tokio::test]
async fn a_secret_is_written_and_never_read_back() {
    let house = House::open();
    let (ann, bob) = (house.user("ann"), house.user("bob"));
    let (status, answer) = set(&house, &ann, "/v1/secrets/TOKEN", "s3cr3t-value").await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"success": true, "name": "TOKEN"})));
    let (_, list) = house.get(&ann, "/v1/secrets").await;
    assert_eq!(list["data"][0]["name"], "TOKEN");
    assert!(!list.to_string().contains("s3cr3t"));
    assert_eq!(house.get(&bob, "/v1/secrets").await.1["data"], json!([]));
    let gone = |caller: &Caller| {
        house.ask_owned(caller.clone(), "DELETE", "/v1/secrets/TOKEN", Value::Null)
    };
    let (status, answer) = gone(&bob).await;
    assert_eq!((status.as_u16(), &answer["code"]), (404, &json!("no_such_secret")));
    assert_eq!(gone(&ann).await.0, StatusCode::OK);
    assert_eq!(gone(&ann).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_secret_for_a_skill_is_kept_for_the_id_that_the_name_leads_to() {
    let house = House::open();
    let ann = house.user("ann");
    let layer = Layer::Official;
    let put =
        house.registry.register_skill_in("test", &layer, "uniskill_weather", "# W".to_owned());
    put.await.unwrap();
    for (named, kept) in [("weather", "uniskill_weather"), ("later", "later")] {
        let uri = format!("/v1/secrets/TOKEN?skill={named}");
        let (_, answer) = set(&house, &ann, &uri, "v").await;
        assert_eq!(answer["skill"], kept);
        let (status, answer) = house.ask(&ann, "DELETE", &uri, &Value::Null).await;
        assert_eq!((status, &answer["skill"]), (StatusCode::OK, &json!(kept)));
    }
}

#[tokio::test]
async fn only_what_is_in_the_market_is_granted_something() {
    let house = House::open();
    let ann = house.user("ann");
    set(&house, &ann, "/v1/secrets/TOKEN", "v").await;
    let grant = |method: &'static str, name: &str| {
        let uri = format!("/v1/secrets/{name}/grants/weather");
        let ann = ann.clone();
        let house = &house;
        async move { house.ask(&ann, method, &uri, &Value::Null).await }
    };
    let (status, answer) = grant("PUT", "TOKEN").await;
    assert_eq!((status.as_u16(), &answer["code"]), (404, &json!("not_found")));
    let put = house.registry.register_skill_in(
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
    let (_, list) = house.get(&ann, "/v1/secrets").await;
    assert_eq!(list["data"][0]["granted_to"], json!(["uniskill_weather"]));
    let (_, answer) = grant("DELETE", "TOKEN").await;
    assert_eq!(answer["granted"], false);
    let (_, list) = house.get(&ann, "/v1/secrets").await;
    assert_eq!(list["data"][0]["granted_to"], json!([]));
}

#[tokio::test]
async fn secrets_are_for_who_has_a_key() {
    let house = House::open();
    for caller in [Caller::Anonymous, admin()] {
        for (method, uri) in [
            ("GET", "/v1/secrets"),
            ("PUT", "/v1/secrets/A"),
            ("DELETE", "/v1/secrets/A"),
            ("PUT", "/v1/secrets/A/grants/x"),
            ("DELETE", "/v1/secrets/A/grants/x"),
            ("GET", "/v1/auth/verify"),
        ] {
            let (status, answer) = house.ask(&caller, method, uri, &json!({"value": "v"})).await;
            assert_eq!((status.as_u16(), &answer["code"]), (401, &json!("key_needed")), "{uri}");
            assert_eq!(answer["error"], "Invalid Key Format");
        }
    }
}

#[tokio::test]
async fn bad_secrets_are_refused() {
    let house = House::open();
    let ann = house.user("ann");
    for (uri, body, status, code) in [
        ("/v1/secrets/a%20b", json!({"value": "v"}), 400, "invalid_path"),
        ("/v1/secrets/A?skill=B", json!({"value": "v"}), 400, "invalid_query"),
        ("/v1/secrets/A", json!({"value": ""}), 422, "invalid_input"),
        ("/v1/secrets/A", json!({"value": 1}), 422, "invalid_body"),
        ("/v1/secrets/A", json!({}), 422, "invalid_body"),
        ("/v1/secrets/A", json!({"value": "x".repeat(65537)}), 413, "too_large"),
    ] {
        let (found, answer) = house.ask(&ann, "PUT", uri, &body).await;
        assert_eq!((found.as_u16(), &answer["code"]), (status, &json!(code)), "{uri}: {answer}");
    }
    let bare = House::without_master_key();
    let ann = bare.user("ann");
    let (status, answer) = set(&bare, &ann, "/v1/secrets/A", "v").await;
    assert_eq!((status.as_u16(), &answer["code"]), (503, &json!("no_master_key")));
    assert_eq!(bare.get(&ann, "/v1/secrets").await.0, StatusCode::OK);
}

/// Whoever publishes another skill under an id, or sends things elsewhere, has none of what was granted before.
#[tokio::test]
async fn a_grant_is_for_the_server_that_the_skill_calls() {
    let house = House::open();
    let ann = house.user("ann");
    set(&house, &ann, "/v1/secrets/TOKEN", "v").await;
    let publish = |host: &str| {
        let endpoint = format!("https://{host}/{{{{q|x}}}}?k={{{{SECRETS.TOKEN}}}}");
        let text = json!({"id": "weather", "config": {"endpoint": endpoint}}).to_string();
        let tool = tool("weather", &text);
        house.registry.register_tool_in("test", &Layer::Market, "weather", tool)
    };
    let missing = async || {
        let (_, shown) = house.get(&ann, "/v1/skills/weather").await;
        shown["secrets"]["missing"].clone()
    };
    let grant = async || {
        let uri = "/v1/secrets/TOKEN/grants/weather";
        assert_eq!(house.ask(&ann, "PUT", uri, &Value::Null).await.0, StatusCode::OK);
    };
    let document = house.registry.register_skill_in("t", &Layer::Market, "weather", "# W".into());
    document.await.unwrap();
    grant().await;
    publish("127.0.0.1").await.unwrap();
    let changed = json!([{"name": "TOKEN", "reason": "origin_changed"}]);
    assert_eq!(missing().await, changed, "what called nothing was granted nothing");
    let uri = "/v1/secrets/TOKEN/grants/weather";
    assert_eq!(house.ask(&ann, "DELETE", uri, &Value::Null).await.0, StatusCode::OK);
    assert_eq!(missing().await, json!([{"name": "TOKEN", "reason": "not_granted"}]));
    grant().await;
    assert_eq!(missing().await, json!([]));
    publish("127.0.0.2").await.unwrap();
    assert_eq!(missing().await, changed);
    let (status, answer) = house.ask(&ann, "POST", "/v1/execute/weather", &json!({})).await;
    assert_eq!((status.as_u16(), &answer["code"]), (422, &json!("missing_secrets")), "{answer}");
    assert_eq!(answer["details"], changed);
    grant().await;
    // It gets as far as the rules on addresses.
    let (status, answer) = house.ask(&ann, "POST", "/v1/execute/weather", &json!({})).await;
    assert_eq!((status.as_u16(), &answer["code"]), (403, &json!("refused_address")), "{answer}");
}

#[tokio::test]
async fn setting_them_counts_as_a_use_of_the_key() {
    let house = House::open();
    // More than one, in case a minute ends in between.
    for number in 0..5 {
        let caller = house.user(&format!("user{number}"));
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
                let (status, answer) = house.ask(&caller, method, uri, &body).await;
                if status == StatusCode::TOO_MANY_REQUESTS {
                    assert_eq!((&answer["code"], method), (&json!("rate_limited"), "PUT"));
                    refused.get_or_insert(round);
                }
            }
        }
        let (listed, _) = house.get(&caller, "/v1/secrets").await;
        if minute() == began {
            assert_eq!(refused, Some(15), "30 uses are fifteen rounds");
            assert_eq!(listed, StatusCode::OK, "neither looking nor taking back counts");
            return;
        }
    }
    panic!("every try went over the end of a minute");
}
