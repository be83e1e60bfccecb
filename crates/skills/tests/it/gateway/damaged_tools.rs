//! A damaged tool is an error with its tier on every path, and no lower tier answers instead.

use serde_json::{Value, json};
use skills_core::Layer;

use crate::gateway::{
    fixture::{GatewaySetup, TestGateway, outcome, tool},
    tools::{over_http, over_pipe},
};

/// Starts a server with a damaged official tool, a market tool of the same name, and an intact one.
async fn damaged_gateway() -> TestGateway {
    let mut setup = GatewaySetup::new();
    let origin = setup.upstream.origin.clone();
    for layer in [Layer::Official, Layer::Market] {
        setup.tool(&layer, "uniskill_broken", &tool("uniskill_broken", &origin, json!({}))).await;
    }
    setup.tool(&Layer::Official, "whole", &tool("whole", &origin, json!({}))).await;
    setup.damage("uniskill_broken");
    setup.serve()
}

/// Checks that a message names the tier and the tool.
fn check_names_tier_and_tool(output: &str) {
    assert!(output.contains("corrupt_entry"), "{output}");
    assert!(output.contains("uniskill_broken (official)"), "{output}");
}

#[tokio::test]
async fn a_damaged_tool_is_a_server_error_over_http() {
    if skills_testkit::needs_embedded_store("damages a row of the file") {
        return;
    }
    let gateway = damaged_gateway().await;
    for name in ["uniskill_broken", "broken"] {
        for answer in [
            gateway.get(None, &format!("/v1/skills/{name}")),
            gateway.get(None, &format!("/v1/skills/{name}?tier=official")),
            gateway.get(None, &format!("/v1/skills/{name}?explain=1")),
        ] {
            assert_eq!(outcome(&answer), (500, "corrupt_entry".to_owned()), "{name:?}");
            check_names_tier_and_tool(&answer.json().to_string());
        }
        let below = gateway.get(None, &format!("/v1/skills/{name}?tier=market"));
        assert_eq!(outcome(&below).0, 200, "every copy has an address");
    }
    let listed = gateway.get(None, "/v1/skills").json();
    let ids: Vec<&Value> =
        listed["data"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
    assert_eq!(ids, ["uniskill_broken", "whole"], "it is listed, since it answers");
    let tools = gateway.get(None, "/v1/skills/schema").json();
    assert_eq!(tools["tools"].as_array().unwrap().len(), 1, "{tools}");
}

#[tokio::test]
async fn neither_a_damaged_tool_nor_the_one_it_shadows_is_executed() {
    if skills_testkit::needs_embedded_store("damages a row of the file") {
        return;
    }
    let mut setup = GatewaySetup::new();
    let origin = setup.upstream.origin.clone();
    for layer in [Layer::Official, Layer::Market] {
        setup.tool(&layer, "broken", &tool("broken", &origin, json!({}))).await;
    }
    setup.damage("broken");
    let ann = setup.key("ann");
    let gateway = setup.serve();
    let answer = gateway.execute(Some(&ann), "broken", json!({}));
    assert_eq!(outcome(&answer), (500, "corrupt_entry".to_owned()));
    assert_eq!(answer.header("X-RateLimit-Remaining").as_deref(), Some("30"), "nothing was sent");
}

#[tokio::test]
async fn a_damaged_tool_is_reported_over_mcp_and_the_bus() {
    if skills_testkit::needs_embedded_store("damages a row of the file") {
        return;
    }
    let gateway = damaged_gateway().await;
    for (what, mut client) in
        [("HTTP", over_http(&gateway, None).await), ("stdio", over_pipe(&gateway, None).await)]
    {
        let tools = client.tools().await;
        assert!(!tools.iter().any(|name| name.contains("broken")), "{what}: {tools:?}");
        for name in ["uniskill_broken", "broken"] {
            let result = client.call(name, json!({})).await;
            assert_eq!(result["isError"], true, "{what} {name}: {result}");
            assert_eq!(result["structuredContent"]["code"], "corrupt_entry", "{what} {name}");
            check_names_tier_and_tool(&result.to_string());
        }
        let uri = json!({ "uri": "iii://uniskill_broken" });
        let refused = client.fails("resources/read", uri).await;
        assert_eq!(refused.data["code"], "corrupt_entry", "{what}: {refused:?}");
        let result = client.call("whole", json!({})).await;
        assert_ne!(result["isError"], true, "{what}: others are unharmed: {result}");
    }
    let worker = gateway.server.worker().await;
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
