//! Stored tools over MCP and on the bus.

use serde_json::{Value, json};
use skills_core::Layer;
use skills_testkit::Worker;

use crate::{
    clients::{Client, OWN_TOOLS as OWN, Pipe, Session, eventually},
    house::{House, Plan, private, tool, weather},
};

pub(crate) const VERSION: &str = "2025-11-25";
pub(crate) const CHANGED: &str = "notifications/tools/list_changed";

pub(crate) async fn over_http(house: &House, key: Option<&str>) -> Client {
    Client::Session(Session::open_as(&house.server.http, VERSION, key).await)
}

pub(crate) async fn over_pipe(house: &House, key: Option<&str>) -> Client {
    let mut arguments = vec!["--url", &house.server.url];
    arguments.extend(key.into_iter().flat_map(|key| ["--key", key]));
    Client::Pipe(Pipe::session(&arguments, VERSION).await)
}

pub(crate) async fn plan() -> Plan {
    let plan = Plan::new();
    let origin = plan.upstream.origin.clone();
    plan.tool(&Layer::Official, "uniskill_weather", &weather(&format!("{origin}/official"))).await;
    plan.tool(&private("ann"), "mine", &tool("mine", &format!("{origin}/mine"), json!({}))).await;
    let needy = tool("needy", &origin, json!({ "X-Key": "{{SECRETS.TOKEN}}" }));
    plan.tool(&Layer::Official, "needy", &needy).await;
    // It has the name of a tool that is always there.
    let twin = tool("list_skills", &format!("{origin}/twin"), json!({}));
    plan.tool(&Layer::Market, "list_skills", &twin).await;
    plan.document("notes").await;
    plan
}

#[tokio::test]
async fn stored_tools_are_tools_for_who_sees_them() {
    let plan = plan().await;
    let (ann, bob) = (plan.key("ann"), plan.key("bob"));
    let house = plan.serve();
    for (what, mut ann, mut others) in [
        (
            "HTTP",
            over_http(&house, Some(&ann)).await,
            [over_http(&house, Some(&bob)).await, over_http(&house, None).await],
        ),
        (
            "stdio",
            over_pipe(&house, Some(&ann)).await,
            [over_pipe(&house, Some(&bob)).await, over_pipe(&house, None).await],
        ),
    ] {
        let all = ["list_skills-X", "mine", "needy", "uniskill_weather"];
        assert_eq!(ann.tools().await, [&OWN[..], &all].concat(), "{what}");
        let listed = ann.all("tools/list", "tools").await;
        let weather = listed.iter().find(|tool| tool["name"] == "uniskill_weather").unwrap();
        assert_eq!(weather["inputSchema"]["required"], json!(["location"]));
        assert_eq!(weather["title"], "Global Weather");
        for tool in ["mine", "list_skills-X"] {
            let result = ann.call(tool, json!({})).await;
            assert_ne!(result["isError"], true, "{what} {tool}: {result}");
            let target = if tool == "mine" { "/mine" } else { "/twin" };
            assert_eq!(result["structuredContent"]["data"]["target"], target);
        }
        for other in &mut others {
            let names = other.tools().await;
            assert!(!names.contains(&"mine".to_owned()), "{what}: {names:?}");
            // Somebody else's tool is a tool that does not exist.
            let called = |name: &str| json!({ "name": name, "arguments": {} });
            let theirs = other.fails("tools/call", called("mine")).await;
            let nobodys = other.fails("tools/call", called("nope")).await;
            assert_eq!(theirs.message.replace("mine", "nope"), nobodys.message);
            assert_eq!((theirs.code, &theirs.data), (nobodys.code, &nobodys.data));
            let result = other.call("uniskill_weather", json!({ "location": "x" })).await;
            let target = &result["structuredContent"]["data"]["target"];
            assert_eq!(target, "/official?location=x", "{what}: {result}");
        }
        // By the shorter name too, as on every other path.
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
async fn who_listens_hears_when_a_tool_goes_and_not_when_a_document_does() {
    let house = plan().await.serve();
    let session = Session::open(&house.server.http, VERSION).await;
    let mut events = session.events().await;
    let worker = Worker::connect(&house.server.url).await;
    worker.ok("skills::unregister", json!({ "id": "notes" })).await;
    let told = events.message().await;
    assert_eq!(told["method"], "notifications/resources/list_changed", "{told}");
    // A tool that becomes a document is one less.
    let document = json!({ "id": "needy", "skill": "# Needy no more" });
    worker.ok("skills::register", document).await;
    loop {
        let told: Value = events.message().await;
        if told["method"] == CHANGED {
            break;
        }
        assert_eq!(told["method"], "notifications/resources/list_changed", "{told}");
    }
    let mut client = over_http(&house, None).await;
    assert!(!client.tools().await.contains(&"needy".to_owned()));
}

#[tokio::test]
async fn a_tool_of_a_worker_keeps_its_name() {
    let plan = plan().await;
    let endpoint = format!("{}/stored", plan.upstream.origin);
    plan.tool(&Layer::Official, "brain__ask", &tool("brain__ask", &endpoint, json!({}))).await;
    let house = plan.serve();
    let worker = Worker::connect(&house.server.url).await;
    let mut client = over_http(&house, None).await;
    let target = |result: Value| result["structuredContent"]["data"]["target"].clone();
    assert_eq!(target(client.call("brain__ask", json!({})).await), "/stored");
    worker.serve("brain::ask", |_| Some(Ok(json!("of the worker")))).await;
    let metadata = json!({ "mcp": { "expose": true } });
    worker.send(&json!({ "type": "registerfunction", "id": "brain::ask", "metadata": metadata }));
    worker.settle().await;
    let expected = ["brain__ask", "brain__ask-X", "list_skills-X", "needy", "uniskill_weather"];
    eventually("both", async || client.tools().await[OWN.len()..] == expected).await;
    let result = client.call("brain__ask", json!({})).await;
    assert_eq!(result["content"][0]["text"], "of the worker");
    assert_eq!(target(client.call("brain__ask-X", json!({})).await), "/stored");
}

#[tokio::test]
async fn on_the_bus_a_key_says_who_calls() {
    let plan = plan().await;
    let (ann, bob) = (plan.key("ann"), plan.key("bob"));
    let house = plan.serve();
    let worker = Worker::connect(&house.server.url).await;
    let call = |key: Option<&str>| json!({ "id": "mine", "arguments": {}, "key": key });
    let called = worker.ok("skills::execute", call(Some(&ann))).await;
    assert_eq!(called["data"]["target"], "/mine");
    let unknown = json!({ "id": "nope", "arguments": {} });
    let nothing = worker.fails("skills::execute", unknown).await;
    for key in [Some(bob.as_str()), None] {
        let refused = worker.fails("skills::execute", call(key)).await;
        assert_eq!(refused.code, nothing.code);
        assert_eq!(refused.message.replace("mine", "nope"), nothing.message);
    }
    let refused = worker.fails("skills::execute", call(Some("us-made-up"))).await;
    assert_eq!(refused.code, "unknown_key");
}

/// What is told at once is bounded in bytes, and nothing is left out for it.
#[tokio::test]
async fn pages_of_large_tools_are_short() {
    const TOOLS: usize = 50;
    let plan = Plan::new();
    let mut wanted = vec![];
    for number in 0..TOOLS {
        let id = format!("large{number:02}");
        let mut manifest: Value =
            serde_json::from_str(&tool(&id, &plan.upstream.origin, json!({}))).unwrap();
        manifest["meta"]["description"] = json!("x".repeat(120_000));
        plan.tool(&Layer::Market, &id, &manifest.to_string()).await;
        wanted.push(id);
    }
    let house = plan.serve();
    let names = |rows: &Value, field: &str| -> Vec<String> {
        let name = |row: &Value| row[field].as_str().unwrap().to_owned();
        rows.as_array().unwrap().iter().map(name).collect()
    };
    for (list, rows, field) in [("skills", "data", "id"), ("skills/schema", "tools", "name")] {
        let (mut found, mut pages, mut cursor) = (vec![], 0, String::new());
        loop {
            let page = house.get(None, &format!("/v1/{list}?limit=1000{cursor}"));
            assert!(page.body.len() < 5 << 20, "{list}: {}", page.body.len());
            let page = page.json();
            found.extend(names(&page[rows], field));
            pages += 1;
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!((&found, pages), (&wanted, 2), "{list}");
    }
    let worker = Worker::connect(&house.server.url).await;
    let page = worker.ok("skills::catalog", json!({})).await;
    let next = page["next"].as_str().unwrap();
    assert_eq!(page["skills"].as_array().unwrap().last().unwrap()["id"], next);
    let rest = worker.ok("skills::catalog", json!({ "after": next })).await;
    let both = [names(&page["skills"], "id"), names(&rest["skills"], "id")].concat();
    assert_eq!((both, &rest["next"]), (wanted.clone(), &Value::Null));
    // By their ids they are told of up to one that it names.
    let page = worker.ok("skills::catalog", json!({ "ids": wanted })).await;
    let told = names(&page["skills"], "id");
    assert!(told.len() < TOOLS && page["next"] == *told.last().unwrap(), "{}", told.len());
    // A client behind the bus has them all.
    let mut pipe = over_pipe(&house, None).await;
    assert_eq!(pipe.tools().await, [&OWN.map(str::to_owned)[..], &wanted].concat());
}
