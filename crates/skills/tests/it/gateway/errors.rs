//! Status and code of every execution error.

use serde_json::json;
use skills_core::Layer;
use skills_testkit::Request;

use crate::gateway::fixture::{GatewaySetup, outcome, private, tool, weather};

#[tokio::test]
async fn each_execution_error_has_its_status_and_code() {
    let setup = GatewaySetup::new();
    let origin = setup.upstream.origin.clone();
    let put = async |id: &str, endpoint: &str| {
        setup.tool(&Layer::Official, id, &tool(id, endpoint, json!({}))).await;
    };
    setup.tool(&Layer::Official, "uniskill_weather", &weather(&origin)).await;
    put("broken", &format!("{origin}/broken")).await;
    put("plain", "http://example.invalid/").await;
    put("inside", "https://127.0.0.1:9/").await;
    put("metadata", "https://169.254.169.254/latest").await;
    put("mapped", "https://[::ffff:127.0.0.1]/").await;
    put("open", &format!("{origin}/{{{{path}}}}")).await;
    setup.document("notes").await;
    setup.tool(&private("bob"), "mine", &tool("mine", &origin, json!({}))).await;
    let ann = setup.key("ann");
    let gateway = setup.serve();
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
        let answer = gateway.execute(key, id, payload.clone());
        let (status, code) = outcome(&answer);
        assert_eq!((status, code.as_str()), expected, "{id} {payload}: {}", answer.json());
    }
    let violations = gateway.execute(key, "weather", json!({"location": 7})).json();
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
        let answer = gateway.send(key, request);
        let (status, code) = outcome(&answer);
        assert_eq!((status, code.as_str()), expected, "{}", answer.json());
    }
}

#[tokio::test]
async fn execution_requires_a_key() {
    let setup = GatewaySetup::new();
    let origin = setup.upstream.origin.clone();
    setup.tool(&Layer::Official, "uniskill_weather", &weather(&origin)).await;
    let gateway = setup.serve();
    let payload = || json!({ "location": "x" });
    let without = gateway.execute(None, "weather", payload());
    assert_eq!(outcome(&without), (401, "key_needed".to_owned()));
    assert_eq!(without.json()["error"], "Invalid Key Format");
    assert_eq!(without.header("WWW-Authenticate").as_deref(), Some("Bearer"));
    // A malformed key counts as none.
    assert_eq!(outcome(&gateway.execute(Some("x"), "weather", payload())).1, "key_needed");
    let unknown = gateway.execute(Some("us-made-up"), "weather", payload());
    assert_eq!(outcome(&unknown), (401, "unknown_key".to_owned()));
    assert!(gateway.upstream.received().is_empty());
}
