//! Everything that can go wrong with an execution has a status and a code.

use serde_json::json;
use skills_core::Layer;
use skills_testkit::Request;

use crate::house::{Plan, outcome, private, tool, weather};

#[tokio::test]
async fn each_has_its_status_and_code() {
    let plan = Plan::new();
    let origin = plan.upstream.origin.clone();
    let put = async |id: &str, endpoint: &str| {
        plan.tool(&Layer::Official, id, &tool(id, endpoint, json!({}))).await;
    };
    plan.tool(&Layer::Official, "uniskill_weather", &weather(&origin)).await;
    put("broken", &format!("{origin}/broken")).await;
    put("plain", "http://example.invalid/").await;
    put("inside", "https://127.0.0.1:9/").await;
    put("metadata", "https://169.254.169.254/latest").await;
    put("mapped", "https://[::ffff:127.0.0.1]/").await;
    put("open", &format!("{origin}/{{{{path}}}}")).await;
    plan.document("notes").await;
    plan.tool(&private("bob"), "mine", &tool("mine", &origin, json!({}))).await;
    let ann = plan.key("ann");
    let house = plan.serve();
    let key = Some(ann.as_str());
    for (id, payload, expected) in [
        ("none", json!({}), (404, "not_found")),
        ("mine", json!({}), (404, "not_found")),
        ("notes", json!({}), (422, "not_a_tool")),
        ("weather", json!({}), (422, "invalid_arguments")),
        ("weather", json!({"location": 7}), (422, "invalid_arguments")),
        ("broken", json!({}), (502, "upstream_status")),
        ("plain", json!({}), (403, "not_https")),
        ("inside", json!({}), (403, "refused_address")),
        ("metadata", json!({}), (403, "refused_address")),
        ("mapped", json!({}), (403, "refused_address")),
        ("open", json!({}), (422, "missing_parameters")),
        ("open", json!({"path": ".."}), (422, "invalid_parameters")),
    ] {
        let answer = house.execute(key, id, payload.clone());
        let (status, code) = outcome(&answer);
        assert_eq!((status, code.as_str()), expected, "{id} {payload}: {}", answer.json());
    }
    let violations = house.execute(key, "weather", json!({"location": 7})).json();
    assert_eq!(violations["details"][0]["pointer"], "/location");
    let json =
        || Request::new("POST", "/v1/execute/weather").header("Content-Type", "application/json");
    for (request, expected) in [
        (json().body("{"), (400, "invalid_json")),
        (json().body("[1]"), (422, "invalid_body")),
        (json().body(r#"{"payload": 1}"#), (422, "invalid_body")),
        (json().body(r#"{"skill": "other"}"#), (400, "names_differ")),
        (json().body(r#"{"user_uid": "bob"}"#), (403, "other_user")),
        (json().body(vec![b' '; 5 << 20]), (413, "body_too_large")),
        (Request::new("POST", "/v1/execute/weather").body("x=1"), (415, "unsupported_media_type")),
        (Request::new("POST", "/v1/execute"), (400, "missing_skill")),
        (Request::get("/v1/execute/weather"), (405, "method_not_allowed")),
        (Request::get("/v1/nowhere"), (404, "not_found")),
    ] {
        let answer = house.ask(key, request);
        let (status, code) = outcome(&answer);
        assert_eq!((status, code.as_str()), expected, "{}", answer.json());
    }
}

#[tokio::test]
async fn nobody_executes_without_a_key() {
    let plan = Plan::new();
    let origin = plan.upstream.origin.clone();
    plan.tool(&Layer::Official, "uniskill_weather", &weather(&origin)).await;
    let house = plan.serve();
    let payload = || json!({ "location": "x" });
    let without = house.execute(None, "weather", payload());
    assert_eq!(outcome(&without), (401, "key_needed".to_owned()));
    assert_eq!(without.json()["error"], "Invalid Key Format");
    assert_eq!(without.header("WWW-Authenticate").as_deref(), Some("Bearer"));
    // What is no key at all is like none.
    assert_eq!(outcome(&house.execute(Some("x"), "weather", payload())).1, "key_needed");
    let unknown = house.execute(Some("us-made-up"), "weather", payload());
    assert_eq!(outcome(&unknown), (401, "unknown_key".to_owned()));
    assert!(house.upstream.asked().is_empty());
}
