//! A tool that cannot be read any more: it is said where it is, on every path, and nothing below it answers instead.

use serde_json::{Value, json};
use skills_core::Layer;
use skills_testkit::Worker;

use crate::{
    house::{House, Plan, outcome, tool},
    tools::{over_http, over_pipe},
};

/// A damaged official tool with one of the market below it, and one that can be read.
async fn house() -> House {
    let mut plan = Plan::new();
    let origin = plan.upstream.origin.clone();
    for layer in [Layer::Official, Layer::Market] {
        plan.tool(&layer, "uniskill_broken", &tool("uniskill_broken", &origin, json!({}))).await;
    }
    plan.tool(&Layer::Official, "whole", &tool("whole", &origin, json!({}))).await;
    plan.damage("uniskill_broken");
    plan.serve()
}

/// What is said everywhere.
fn names_its_place(said: &str) {
    assert!(said.contains("corrupt_entry"), "{said}");
    assert!(said.contains("uniskill_broken (official)"), "{said}");
}

#[tokio::test]
async fn over_http_it_is_a_failure_of_the_server() {
    let house = house().await;
    for name in ["uniskill_broken", "broken"] {
        for answer in [
            house.get(None, &format!("/v1/skills/{name}")),
            house.get(None, &format!("/v1/skills/{name}?tier=official")),
            house.get(None, &format!("/v1/skills/{name}?explain=1")),
        ] {
            assert_eq!(outcome(&answer), (500, "corrupt_entry".to_owned()));
            names_its_place(&answer.json().to_string());
        }
        let below = house.get(None, &format!("/v1/skills/{name}?tier=market"));
        assert_eq!(outcome(&below).0, 200, "every copy has an address");
    }
    let listed = house.get(None, "/v1/skills").json();
    let ids: Vec<&Value> =
        listed["data"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
    assert_eq!(ids, ["uniskill_broken", "whole"], "it is listed, since it answers");
    let tools = house.get(None, "/v1/skills/schema").json();
    assert_eq!(tools["tools"].as_array().unwrap().len(), 1, "{tools}");
}

#[tokio::test]
async fn it_is_not_executed_and_neither_is_what_it_shadows() {
    let mut plan = Plan::new();
    let origin = plan.upstream.origin.clone();
    for layer in [Layer::Official, Layer::Market] {
        plan.tool(&layer, "broken", &tool("broken", &origin, json!({}))).await;
    }
    plan.damage("broken");
    let ann = plan.key("ann");
    let house = plan.serve();
    let answer = house.execute(Some(&ann), "broken", json!({}));
    assert_eq!(outcome(&answer), (500, "corrupt_entry".to_owned()));
    assert_eq!(answer.header("X-RateLimit-Remaining").as_deref(), Some("30"), "nothing was sent");
}

#[tokio::test]
async fn over_mcp_and_on_the_bus() {
    let house = house().await;
    for (what, mut client) in
        [("HTTP", over_http(&house, None).await), ("stdio", over_pipe(&house, None).await)]
    {
        let tools = client.tools().await;
        assert!(!tools.iter().any(|name| name.contains("broken")), "{what}: {tools:?}");
        for name in ["uniskill_broken", "broken"] {
            let result = client.call(name, json!({})).await;
            assert_eq!(result["isError"], true, "{what} {name}: {result}");
            assert_eq!(result["structuredContent"]["code"], "corrupt_entry", "{what} {name}");
            names_its_place(&result.to_string());
        }
        let uri = json!({ "uri": "iii://uniskill_broken" });
        let refused = client.fails("resources/read", uri).await;
        assert_eq!(refused.data["code"], "corrupt_entry", "{what}: {refused:?}");
        let result = client.call("whole", json!({})).await;
        assert_ne!(result["isError"], true, "{what}: others are unharmed: {result}");
    }
    let worker = Worker::connect(&house.server.url).await;
    for (function, input) in [
        ("skills::execute", json!({ "id": "broken", "arguments": {} })),
        ("skills::resolve", json!({ "id": "broken", "explain": true })),
        ("skills::resources-read", json!({ "uri": "iii://uniskill_broken" })),
    ] {
        let refused = worker.fails(function, input).await;
        assert_eq!(refused.code, "corrupt_entry", "{function}: {}", refused.message);
        assert!(refused.message.contains("uniskill_broken (official)"), "{}", refused.message);
    }
}
