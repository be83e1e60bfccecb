//! Stored tools over MCP and on the bus.

use serde_json::{Value, json};
use skills_core::Layer;

use crate::{
    gateway::fixture::{GatewaySetup, TestGateway, private, tool, weather},
    support::{
        mcp_clients::{Client, OWN_TOOLS as OWN, Session, pipe_with_catalog},
        wait::eventually,
    },
};

pub(crate) const VERSION: &str = "2025-11-25";
pub(crate) const CHANGED: &str = "notifications/tools/list_changed";

pub(crate) async fn over_http(gateway: &TestGateway, key: Option<&str>) -> Client {
    Client::Session(Session::open_as(&gateway.server.process.http, VERSION, key).await)
}

pub(crate) async fn over_pipe(gateway: &TestGateway, key: Option<&str>) -> Client {
    let mut arguments = vec!["--url", &gateway.server.process.url];
    arguments.extend(key.into_iter().flat_map(|key| ["--key", key]));
    pipe_with_catalog(&arguments, VERSION).await
}

pub(crate) async fn setup() -> GatewaySetup {
    let setup = GatewaySetup::new();
    let origin = setup.upstream.origin.clone();
    setup.tool(&Layer::Official, "uniskill_weather", &weather(&format!("{origin}/official"))).await;
    setup.tool(&private("ann"), "mine", &tool("mine", &format!("{origin}/mine"), json!({}))).await;
    let needy = tool("needy", &origin, json!({ "X-Key": "{{SECRETS.TOKEN}}" }));
    setup.tool(&Layer::Official, "needy", &needy).await;
    // It has the name of a built-in tool.
    let twin = tool("list_skills", &format!("{origin}/twin"), json!({}));
    setup.tool(&Layer::Market, "list_skills", &twin).await;
    setup.document("notes").await;
    setup
}

#[tokio::test]
async fn stored_tools_are_mcp_tools_for_callers_that_see_them() {
    let setup = setup().await;
    let (ann, bob) = (setup.key("ann"), setup.key("bob"));
    let gateway = setup.serve();
    for (what, mut ann, mut others) in [
        (
            "HTTP",
            over_http(&gateway, Some(&ann)).await,
            [over_http(&gateway, Some(&bob)).await, over_http(&gateway, None).await],
        ),
        (
            "stdio",
            over_pipe(&gateway, Some(&ann)).await,
            [over_pipe(&gateway, Some(&bob)).await, over_pipe(&gateway, None).await],
        ),
    ] {
        let all = ["list_skills-X", "mine", "needy", "uniskill_weather"];
        assert_eq!(ann.tools().await, [&OWN[..], &all].concat(), "{what}");
        let listed = ann.all("tools/list", "tools").await;
        let weather = listed.iter().find(|tool| tool["name"] == "uniskill_weather").unwrap();
        assert_eq!(weather["inputSchema"]["required"], json!(["location"]), "{what}");
        assert_eq!(weather["title"], "Global Weather", "{what}");
        for tool in ["mine", "list_skills-X"] {
            let result = ann.call(tool, json!({})).await;
            assert_ne!(result["isError"], true, "{what} {tool}: {result}");
            let target = if tool == "mine" { "/mine" } else { "/twin" };
            assert_eq!(result["structuredContent"]["data"]["target"], target, "{what:?}");
        }
        for other in &mut others {
            let names = other.tools().await;
            assert!(!names.contains(&"mine".to_owned()), "{what}: {names:?}");
            // A tool of another user does not exist for the caller.
            let called = |name: &str| json!({ "name": name, "arguments": {} });
            let theirs = other.fails("tools/call", called("mine")).await;
            let nobodys = other.fails("tools/call", called("nope")).await;
            assert_eq!(theirs.message.replace("mine", "nope"), nobodys.message, "{what}");
            let without_id = |mut data: Value| {
                data.as_object_mut().map(|data| data.remove("request_id"));
                data
            };
            let [theirs, nobodys] =
                [theirs, nobodys].map(|failure| (failure.code, without_id(failure.data)));
            assert_eq!(theirs, nobodys, "{what}");
            let result = other.call("uniskill_weather", json!({ "location": "x" })).await;
            let target = &result["structuredContent"]["data"]["target"];
            assert_eq!(target, "/official?location=x", "{what}: {result}");
        }
        // The name without the prefix works too, as on every other path.
        let result = ann.call("weather", json!({ "location": "y" })).await;
        let target = &result["structuredContent"]["data"]["target"];
        assert_eq!(target, "/official?location=y", "{what}: {result}");
        let [_, nobody] = &mut others;
        for (tool, code) in [("needy", "key_needed"), ("uniskill_weather", "invalid_arguments")] {
            let result = nobody.call(tool, json!({})).await;
            assert_eq!(result["isError"], true, "{what}: {result}");
            assert!(result["content"][0]["text"].as_str().unwrap().contains(code), "{result}");
        }
    }
}

#[tokio::test]
async fn removing_a_tool_notifies_listeners_and_removing_a_document_does_not() {
    let gateway = setup().await.serve();
    let session = Session::open(&gateway.server.process.http, VERSION).await;
    let mut events = session.events().await;
    let worker = gateway.server.worker().await;
    worker.ok("skills::unregister", json!({ "id": "notes" })).await;
    let received = events.message().await;
    assert_eq!(received["method"], "notifications/resources/list_changed", "{received}");
    // Replacing a tool by a document removes the tool.
    let document = json!({ "id": "needy", "skill": "# Needy no more" });
    worker.ok("skills::register", document).await;
    loop {
        let received: Value = events.message().await;
        if received["method"] == CHANGED {
            break;
        }
        assert_eq!(received["method"], "notifications/resources/list_changed", "{received}");
    }
    let mut client = over_http(&gateway, None).await;
    assert!(!client.tools().await.contains(&"needy".to_owned()));
}

#[tokio::test]
async fn a_worker_tool_keeps_its_name() {
    let setup = setup().await;
    let endpoint = format!("{}/stored", setup.upstream.origin);
    setup.tool(&Layer::Official, "brain__ask", &tool("brain__ask", &endpoint, json!({}))).await;
    let gateway = setup.serve();
    let worker = gateway.server.worker().await;
    let mut client = over_http(&gateway, None).await;
    let target = |result: Value| result["structuredContent"]["data"]["target"].clone();
    assert_eq!(target(client.call("brain__ask", json!({})).await), "/stored");
    worker.serve("brain::ask", |_| Some(Ok(json!("of the worker")))).await;
    let metadata = json!({ "mcp": { "expose": true } });
    worker.send(&json!({ "type": "registerfunction", "id": "brain::ask", "metadata": metadata }));
    worker.flush().await;
    let expected = ["brain__ask", "brain__ask-X", "list_skills-X", "needy", "uniskill_weather"];
    eventually("both", async || client.tools().await[OWN.len()..] == expected).await;
    let result = client.call("brain__ask", json!({})).await;
    assert_eq!(result["content"][0]["text"], "of the worker");
    assert_eq!(target(client.call("brain__ask-X", json!({})).await), "/stored");
}

#[tokio::test]
async fn on_the_bus_a_key_identifies_the_caller() {
    let setup = setup().await;
    let (ann, bob) = (setup.key("ann"), setup.key("bob"));
    let gateway = setup.serve();
    let worker = gateway.server.worker().await;
    let call = |key: Option<&str>| json!({ "id": "mine", "arguments": {}, "key": key });
    let called = worker.ok("skills::execute", call(Some(&ann))).await;
    assert_eq!(called["data"]["target"], "/mine");
    let unknown = json!({ "id": "nope", "arguments": {} });
    let nothing = worker.fails("skills::execute", unknown).await;
    for key in [Some(bob.as_str()), None] {
        let refused = worker.fails("skills::execute", call(key)).await;
        assert_eq!(refused.code, nothing.code, "{key:?}");
        assert_eq!(refused.message.replace("mine", "nope"), nothing.message, "{key:?}");
    }
    let refused = worker.fails("skills::execute", call(Some("us-made-up"))).await;
    assert_eq!(refused.code, "unknown_key");
}

/// Pages are limited in bytes, and no tool is omitted.
#[tokio::test]
async fn pages_of_tools_are_limited_in_bytes() {
    const TOOLS: usize = 50;
    let setup = GatewaySetup::new();
    let mut wanted = vec![];
    for number in 0..TOOLS {
        let id = format!("large{number:02}");
        let mut manifest: Value =
            serde_json::from_str(&tool(&id, &setup.upstream.origin, json!({}))).unwrap();
        manifest["meta"]["description"] = json!("x".repeat(120_000));
        setup.tool(&Layer::Market, &id, &manifest.to_string()).await;
        wanted.push(id);
    }
    let gateway = setup.serve();
    let names = |rows: &Value, field: &str| -> Vec<String> {
        let name = |row: &Value| row[field].as_str().unwrap().to_owned();
        rows.as_array().unwrap().iter().map(name).collect()
    };
    for (list, rows, field) in [("skills", "data", "id"), ("skills/schema", "tools", "name")] {
        let (mut found, mut pages, mut cursor) = (vec![], 0, String::new());
        loop {
            let page = gateway.get(None, &format!("/v1/{list}?limit=1000{cursor}"));
            assert!(page.body.len() < 5 << 20, "{list}: {}", page.body.len());
            let page = page.json();
            found.extend(names(&page[rows], field));
            pages += 1;
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!((&found, pages), (&wanted, 2), "{list}");
    }
    let worker = gateway.server.worker().await;
    let page = worker.ok("skills::catalog", json!({})).await;
    let next = page["next"].as_str().unwrap();
    assert_eq!(page["skills"].as_array().unwrap().last().unwrap()["id"], next);
    let rest = worker.ok("skills::catalog", json!({ "after": next })).await;
    let both = [names(&page["skills"], "id"), names(&rest["skills"], "id")].concat();
    assert_eq!((both, &rest["next"]), (wanted.clone(), &Value::Null));
    // Queries by id return entries up to the byte limit and name the rest.
    let page = worker.ok("skills::catalog", json!({ "ids": wanted })).await;
    let received = names(&page["skills"], "id");
    assert!(
        received.len() < TOOLS && page["next"] == *received.last().unwrap(),
        "{}",
        received.len()
    );
    // A client over the bus has all of them.
    let mut pipe = over_pipe(&gateway, None).await;
    assert_eq!(pipe.tools().await, [&OWN.map(str::to_owned)[..], &wanted].concat());
}
