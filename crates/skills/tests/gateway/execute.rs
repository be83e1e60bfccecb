//! What is executed is what the name leads to.

use serde_json::json;
use skills_core::Layer;

use crate::house::{House, Plan, outcome, private, tool, weather};

/// The tier that answers, as the upstream knows it.
fn tier(house: &House, key: &str, name: &str) -> String {
    let answer = house.execute(Some(key), name, json!({ "location": "Köln" }));
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
async fn the_example_in_all_three_tiers_shadowed_and_not() {
    let plan = Plan::new();
    for layer in [private("ann"), Layer::Official, Layer::Market] {
        let endpoint = format!("{}/{}", plan.upstream.origin, layer.tier());
        plan.tool(&layer, "uniskill_weather", &weather(&endpoint)).await;
    }
    let (ann, bob) = (plan.key("ann"), plan.key("bob"));
    let house = plan.serve();
    let shown = |key: &str| {
        let body = house.get(Some(key), "/v1/skills/weather").json();
        (body["source"].clone(), body["is_official"].clone())
    };
    for name in ["weather", "uniskill_weather"] {
        assert_eq!(tier(&house, &ann, name), "private");
        assert_eq!(tier(&house, &bob, name), "official");
    }
    assert_eq!(shown(&ann), (json!("private"), json!(false)));
    assert_eq!(shown(&bob), (json!("official"), json!(true)));
    let listed = house.get(Some(&ann), "/v1/skills?layers=all").json();
    let sources: Vec<_> =
        listed["data"].as_array().unwrap().iter().map(|row| &row["source"]).collect();
    assert_eq!(sources, ["private", "official", "market"]);
    let tools = house.get(None, "/v1/skills/schema").json();
    assert_eq!(tools["tools"][0]["name"], "uniskill_weather");
    assert_eq!(tools["tools"][0]["parameters"]["required"], json!(["location"]));

    let worker = skills_testkit::Worker::connect(&house.server.url).await;
    worker.ok("skills::unregister", json!({ "id": "uniskill_weather" })).await;
    assert_eq!(tier(&house, &bob, "weather"), "market");
    assert_eq!(tier(&house, &ann, "weather"), "private");
    let gone = json!({ "id": "uniskill_weather", "tier": "private", "key": ann });
    worker.ok("skills::unregister", gone).await;
    assert_eq!(tier(&house, &ann, "weather"), "market");
}

#[tokio::test]
async fn the_name_may_be_in_the_body() {
    let plan = Plan::new();
    let endpoint = format!("{}/x", plan.upstream.origin);
    plan.tool(&Layer::Official, "uniskill_weather", &weather(&endpoint)).await;
    let ann = plan.key("ann");
    let house = plan.serve();
    for body in [
        json!({"skill_name": "weather", "payload": {"location": "x"}}),
        json!({"skill": "weather", "params": {"location": "x"}, "user_uid": "ann"}),
        json!({"skill": "weather", "location": "x"}),
    ] {
        let answer = house.post(Some(&ann), "/v1/execute", &body);
        assert_eq!(answer.json()["data"]["target"], "/x?location=x", "{body}");
    }
    // The word Bearer may be left out.
    let request = skills_testkit::Request::new("POST", "/v1/execute/weather")
        .header("Authorization", &ann)
        .header("Content-Type", "application/json");
    let answer = house.ask(None, request.body(r#"{"location":"y"}"#));
    assert_eq!(answer.json()["data"]["target"], "/x?location=y");
}

#[tokio::test]
async fn a_legacy_manifest_is_executed() {
    let plan = Plan::new();
    let origin = &plan.upstream.origin;
    let manifest = format!(
        "# Old\n\n## Description\nAn old tool.\n\n## Parameters\n```json\n{{\"type\":\"object\",\"properties\":\
         {{\"q\":{{\"type\":\"string\"}}}},\"required\":[\"q\"]}}\n```\n\n## Implementation\n```yaml\ntype: api\n\
         endpoint: {origin}/old/{{{{q}}}}\nmethod: GET\n```\n"
    );
    plan.tool(&Layer::Market, "old", &manifest).await;
    let ann = plan.key("ann");
    let house = plan.serve();
    let answer = house.execute(Some(&ann), "old", json!({ "q": "a/b" }));
    assert_eq!(outcome(&answer), (200, String::new()));
    assert_eq!(answer.json()["data"]["target"], "/old/a%2Fb");
}

/// An origin that is exempt for one tier is not for the others: who publishes in the market does not reach what
/// is there for official tools.
#[tokio::test]
async fn an_origin_may_be_exempt_for_one_tier() {
    for tier in ["official", "private", "market"] {
        let plan = Plan::new();
        let origin = plan.upstream.origin.clone();
        for layer in [private("ann"), Layer::Official, Layer::Market] {
            let id = format!("of_{}", layer.tier());
            plan.tool(&layer, &id, &tool(&id, &origin, json!({}))).await;
        }
        let ann = plan.key("ann");
        let house = plan.serve_allowing(&format!("{tier}={origin}"), "", None);
        for other in ["official", "private", "market"] {
            let answer = house.execute(Some(&ann), &format!("of_{other}"), json!({}));
            let expected = if other == tier { (200, "") } else { (403, "not_https") };
            assert_eq!(outcome(&answer), (expected.0, expected.1.to_owned()), "{tier} {other}");
        }
    }
}
