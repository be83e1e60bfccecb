//! Execution resolves names like every other path.

use serde_json::json;
use skills_core::Layer;

use crate::gateway::fixture::{GatewaySetup, TestGateway, outcome, private, tool, weather};

/// Executes a tool and returns the tier whose endpoint was called.
fn tier(gateway: &TestGateway, key: &str, name: &str) -> String {
    let answer = gateway.execute(Some(key), name, json!({ "location": "Köln" }));
    assert_eq!(outcome(&answer), (200, String::new()));
    let body = answer.json();
    let target = body["data"]["target"].as_str().unwrap();
    let (path, query) = target.split_once('?').unwrap();
    assert_eq!(query, "location=K%C3%B6ln");
    assert_eq!(body["data"]["method"], "GET");
    assert!(body["_uniskill"]["request_id"].is_string(), "{body}");
    assert!(body["_uniskill"]["version"].as_str().unwrap().starts_with('v'));
    path.trim_start_matches('/').to_owned()
}

#[tokio::test]
async fn the_example_tool_executes_from_the_tier_that_wins() {
    let setup = GatewaySetup::new();
    for layer in [private("ann"), Layer::Official, Layer::Market] {
        let endpoint = format!("{}/{}", setup.upstream.origin, layer.tier());
        setup.tool(&layer, "uniskill_weather", &weather(&endpoint)).await;
    }
    let (ann, bob) = (setup.key("ann"), setup.key("bob"));
    let gateway = setup.serve();
    let shown = |key: &str| {
        let body = gateway.get(Some(key), "/v1/skills/weather").json();
        (body["source"].clone(), body["is_official"].clone())
    };
    for name in ["weather", "uniskill_weather"] {
        assert_eq!(tier(&gateway, &ann, name), "private", "{name}");
        assert_eq!(tier(&gateway, &bob, name), "official", "{name}");
    }
    assert_eq!(shown(&ann), (json!("private"), json!(false)));
    assert_eq!(shown(&bob), (json!("official"), json!(true)));
    let listed = gateway.get(Some(&ann), "/v1/skills?layers=all").json();
    let sources: Vec<_> =
        listed["data"].as_array().unwrap().iter().map(|row| &row["source"]).collect();
    assert_eq!(sources, ["private", "official", "market"]);
    let tools = gateway.get(None, "/v1/skills/schema").json();
    assert_eq!(tools["tools"][0]["name"], "uniskill_weather");
    assert_eq!(tools["tools"][0]["parameters"]["required"], json!(["location"]));

    let worker = gateway.server.worker().await;
    worker.ok("skills::unregister", json!({ "id": "uniskill_weather" })).await;
    assert_eq!(tier(&gateway, &bob, "weather"), "market");
    assert_eq!(tier(&gateway, &ann, "weather"), "private");
    let gone = json!({ "id": "uniskill_weather", "tier": "private", "key": ann });
    worker.ok("skills::unregister", gone).await;
    assert_eq!(tier(&gateway, &ann, "weather"), "market");
}

#[tokio::test]
async fn the_tool_may_be_named_in_the_body() {
    let setup = GatewaySetup::new();
    let endpoint = format!("{}/x", setup.upstream.origin);
    setup.tool(&Layer::Official, "uniskill_weather", &weather(&endpoint)).await;
    let ann = setup.key("ann");
    let gateway = setup.serve();
    for body in [
        json!({"skill_name": "weather", "payload": {"location": "x"}}),
        json!({"skill": "weather", "params": {"location": "x"}, "user_uid": "ann"}),
        json!({"skill": "weather", "location": "x"}),
    ] {
        let answer = gateway.post(Some(&ann), "/v1/execute", &body);
        assert_eq!(answer.json()["data"]["target"], "/x?location=x", "{body}");
    }
    // The scheme `Bearer` may be omitted.
    let request = skills_testkit::Request::new("POST", "/v1/execute/weather")
        .header("Authorization", &ann)
        .header("Content-Type", "application/json");
    let answer = gateway.send(None, request.body(r#"{"location":"y"}"#));
    assert_eq!(answer.json()["data"]["target"], "/x?location=y");
}

#[tokio::test]
async fn a_legacy_manifest_is_executed() {
    let setup = GatewaySetup::new();
    let origin = &setup.upstream.origin;
    let manifest = format!(
        "# Old\n\n## Description\nAn old tool.\n\n## Parameters\n```json\n{{\"type\":\"object\",\"properties\":\
         {{\"q\":{{\"type\":\"string\"}}}},\"required\":[\"q\"]}}\n```\n\n## Implementation\n```yaml\ntype: api\n\
         endpoint: {origin}/old/{{{{q}}}}\nmethod: GET\n```\n"
    );
    setup.tool(&Layer::Market, "old", &manifest).await;
    let ann = setup.key("ann");
    let gateway = setup.serve();
    let answer = gateway.execute(Some(&ann), "old", json!({ "q": "a/b" }));
    assert_eq!(outcome(&answer), (200, String::new()));
    assert_eq!(answer.json()["data"]["target"], "/old/a%2Fb");
}

/// An upstream allowance for one tier does not hold for others: market tools do not reach servers allowed for
/// official tools.
#[tokio::test]
async fn an_upstream_allowance_can_be_limited_to_one_tier() {
    for tier in ["official", "private", "market"] {
        let setup = GatewaySetup::new();
        let origin = setup.upstream.origin.clone();
        for layer in [private("ann"), Layer::Official, Layer::Market] {
            let id = format!("of_{}", layer.tier());
            setup.tool(&layer, &id, &tool(&id, &origin, json!({}))).await;
        }
        let ann = setup.key("ann");
        let gateway = setup.serve_allowing(&format!("{tier}={origin}"), "", None);
        for other in ["official", "private", "market"] {
            let answer = gateway.execute(Some(&ann), &format!("of_{other}"), json!({}));
            let expected = if other == tier { (200, "") } else { (403, "not_https") };
            assert_eq!(outcome(&answer), (expected.0, expected.1.to_owned()), "{tier} {other}");
        }
    }
}
