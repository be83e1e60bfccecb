//! The four tools, on all kinds of MCP clients.

use serde_json::{Value, json};
use skills_core::schema::Schema;
use skills_testkit::Request;

use crate::{
    clients::{Client, Pipe, every_kind, send, stateless_request},
    desk::{connect, is_listed},
    support::{Home, register},
};

const FOUR: [&str; 4] = ["listClients", "listPaths", "callPath", "callPaths"];

/// What a tool says in words.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn paths(result: &Value) -> Vec<String> {
    let rows = result["structuredContent"]["paths"].as_array().unwrap();
    let row = |row: &Value| format!("{} {}", row["clientId"], row["path"]).replace('"', "");
    rows.iter().map(row).collect()
}

#[tokio::test]
async fn hosts_list_and_call_paths() {
    let home = Home::new();
    register(&home.worker().await, "zoo", "# Zoo\n").await;
    let _desk = connect(&home, "desk").await;
    for (kind, mut client) in every_kind(&home).await {
        let tools = client.all("tools/list", "tools").await;
        for name in FOUR {
            let tool = tools.iter().find(|tool| tool["name"] == name).expect(kind);
            assert_eq!(tool["inputSchema"]["type"], "object", "{kind}");
            assert_eq!(tool["outputSchema"]["type"], "object", "{kind}");
        }
        let listed = client.call("listClients", json!({ "search": "desk" })).await;
        let desk = &listed["structuredContent"]["clients"][0];
        assert_eq!((&desk["id"], &desk["connection"]["mode"]), (&json!("desk"), &json!("ws")));
        assert_eq!(
            serde_json::from_str::<Value>(text(&listed)).unwrap(),
            listed["structuredContent"]
        );

        let listed = client.call("listPaths", json!({ "clientId": "registry" })).await;
        assert_eq!(paths(&listed), ["registry /zoo/skill.md"], "{kind}");
        let deeper = client.call("listPaths", json!({ "clientId": "desk", "depth": 2 })).await;
        assert!(paths(&deeper).contains(&"desk /workspace/review/files/skill.md".to_owned()));
        let listed = client.call("listPaths", json!({ "clientId": "nobody" })).await;
        assert!(paths(&listed).is_empty(), "{kind}");

        let arguments = json!({
            "clientId": "desk", "method": "POST", "path": "/echo", "body": null,
            "headers": { "X-Who": "ann" },
        });
        let called = client.call("callPath", arguments).await;
        let data = json!({ "body": null, "headers": { "x-who": "ann" } });
        assert_eq!(called["structuredContent"], json!({ "ok": true, "data": data }), "{kind}");
    }
}

/// Clients check what a tool gives against what it says to give, and refuse all of it if anything does not fit.
#[tokio::test]
async fn what_the_tools_give_is_what_they_say_whatever_clients_expose() {
    let home = Home::new();
    register(&home.worker().await, "zoo", "# Zoo\n").await;
    let _desk = connect(&home, "desk").await;
    let odd = json!([
        { "type": "skill", "path": "/skill.md", "method": 7, "inputSchema": [], "outputSchema": 1 },
        { "type": "prompt", "path": "/prompt.md", "contentType": 5, "method": {}, "clientId": 1 },
        { "type": "endpoint", "path": "/e", "method": "PUT", "x": null, "clientName": [] },
    ]);
    let mut message = skills_testkit::mdp::registration("odd", odd);
    for name in ["status", "connection", "connectedAt", "nextCursor", "pathCount"] {
        message["client"][name] = json!([7]);
    }
    let url = home.server.http.replace("http://", "ws://");
    let mut client = skills_testkit::mdp::Client::connect(&url).await;
    client.send(&message).await;
    client.is_heard().await;
    let serving = client.serving(|_| skills_testkit::mdp::ok(json!({ "ok": "odd" })));
    for (kind, mut client) in every_kind(&home).await {
        let tools = client.all("tools/list", "tools").await;
        let call = json!({ "method": "GET", "path": "/skill.md" });
        let mut of_odd = call.clone();
        of_odd["clientId"] = json!("odd");
        for (name, arguments) in [
            ("listClients", json!({})),
            ("listPaths", json!({ "depth": 9 })),
            ("listPaths", json!({ "limit": 1 })),
            ("callPath", of_odd),
            ("callPaths", call),
        ] {
            let tool = tools.iter().find(|tool| tool["name"] == name).expect(kind);
            let arguments_fit = Schema::compile(&tool["inputSchema"]).unwrap().check(&arguments);
            assert_eq!(arguments_fit, [], "{kind}: {name}");
            let result = client.call(name, arguments).await;
            let given = &result["structuredContent"];
            let wrong = Schema::compile(&tool["outputSchema"]).unwrap().check(given);
            assert!(given.is_object() && wrong.is_empty(), "{kind}: {name}: {wrong:?} in {given}");
        }
    }
    serving.abort();
}

#[tokio::test]
async fn what_goes_wrong_is_said_in_the_words_of_the_protocol() {
    let home = Home::new();
    let _desk = connect(&home, "desk").await;
    for (kind, mut client) in every_kind(&home).await {
        for (tool, arguments, words) in [
            (
                "callPath",
                json!({ "clientId": "zzz", "method": "GET", "path": "/a" }),
                "Client \"zzz\" is not connected",
            ),
            (
                "callPath",
                json!({ "clientId": "desk", "method": "GET", "path": "/nope" }),
                "Path \"/nope\" with method \"GET\" was not found on client \"desk\"",
            ),
            (
                "callPaths",
                json!({ "method": "PUT", "path": "/a" }),
                "No matching MDP clients were found",
            ),
            (
                "listPaths",
                json!({ "depth": 0 }),
                "MCP error -32602: Input validation error: Invalid arguments for tool listPaths: ",
            ),
        ] {
            let result = client.call(tool, arguments).await;
            assert_eq!(result["isError"], true, "{kind}: {result}");
            assert!(text(&result).starts_with(words), "{kind}: {result}");
            assert!(result["structuredContent"].is_null(), "{kind}: {result}");
        }
        let arguments = json!({ "clientId": "desk", "method": "GET", "path": "/fail" });
        let result = client.call("callPath", arguments).await;
        assert_eq!(result["isError"], true, "{kind}");
        let error = json!({ "code": "handler_error", "message": "it broke" });
        assert_eq!(result["structuredContent"], json!({ "ok": false, "error": error }), "{kind}");

        // Part of an answer is better than none.
        let arguments =
            json!({ "clientIds": ["desk", "nobody"], "method": "GET", "path": "/skill.md" });
        let result = client.call("callPaths", arguments).await;
        assert_ne!(result["isError"], true, "{kind}");
        let results = &result["structuredContent"]["results"];
        assert_eq!((&results[0]["clientId"], &results[0]["ok"]), (&json!("desk"), &json!(true)));
        assert_eq!(results[1]["error"]["code"], "not_found", "{kind}: {result}");
    }
}

#[tokio::test]
async fn a_profile_has_the_four_and_nothing_else() {
    let home = Home::new();
    let _desk = connect(&home, "desk").await;
    let arguments = ["--url", &home.server.url, "--profile", "mdp"];
    let mut client = Client::Pipe(Pipe::session(&arguments, "2025-11-25").await);
    assert_eq!(client.tools().await, FOUR);
    assert_eq!(client.fails("resources/list", json!({})).await.code, -32601);
    assert_eq!(client.fails("prompts/list", json!({})).await.code, -32601);
    let uri = json!({ "uri": "iii://desk" });
    assert_eq!(client.fails("resources/subscribe", uri.clone()).await.code, -32601);
    assert_eq!(client.fails("resources/unsubscribe", uri).await.code, -32601);
    let completion = json!({
        "ref": { "type": "ref/prompt", "name": "desk-greet" },
        "argument": { "name": "who", "value": "A" },
    });
    assert_eq!(client.fails("completion/complete", completion).await.code, -32601);
    let mut pipe = Pipe::stateless(&arguments);
    let filter = json!({ "resourcesListChanged": true, "toolsListChanged": true,
        "promptsListChanged": true, "resourceSubscriptions": ["iii://desk"] });
    let listen = json!({ "notifications": filter });
    pipe.send(&stateless_request(7, "subscriptions/listen", &listen)).await;
    let accepted = pipe.message().await;
    assert_eq!(accepted["params"]["notifications"], json!({ "toolsListChanged": true }));
    let result = client.call("list_skills", json!({})).await;
    assert_eq!(text(&result), "MCP error -32602: Tool list_skills not found");
    let arguments = json!({ "clientId": "desk", "method": "GET", "path": "/skill.md" });
    let result = client.call("callPath", arguments).await;
    assert_eq!(result["structuredContent"]["data"], "# /skill.md\n\n{}\n");

    let request = Request::new("POST", "/mcp/mdp")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2026-07-28")
        .header("Mcp-Method", "tools/list")
        .body(stateless_request(1, "tools/list", &json!({})).to_string());
    let answer = send(&home.server.http, &request).await.json();
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(tools.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(), FOUR);
}

#[tokio::test]
async fn a_client_with_many_skills_crowds_out_nothing_that_is_stored() {
    let home = Home::new();
    register(&home.worker().await, "zoo", "# Zoo\n\nAnimals.\n").await;
    let _desk = connect(&home, "desk").await;
    let many: Value = (0..500)
        .map(|n| skills_testkit::mdp::skill(&format!("/animals-{n}/skill.md")))
        .chain([skills_testkit::mdp::skill("/skill.md")])
        .collect();
    let url = home.server.http.replace("http://", "ws://");
    let _client = skills_testkit::mdp::Client::registered(&url, "0", many).await;
    is_listed(&home.worker().await, "0/skill.md", true).await;
    for (kind, mut client) in every_kind(&home).await {
        for (tool, arguments) in [
            ("list_skills", json!({ "budget_tokens": 300 })),
            ("search_skills", json!({ "query": "", "limit": 1 })),
        ] {
            let listed = client.call(tool, arguments).await;
            let first = &listed["structuredContent"]["skills"][0]["id"];
            assert_eq!(first, "zoo", "{kind}: {tool}");
        }
    }
}

#[tokio::test]
async fn a_registry_without_clients_offers_no_tools_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (code, _, said) = skills_testkit::Server::start(crate::support::BINARY, &data).stop();
    assert_eq!(code, Some(0), "{said}");
    let arguments = ["--data-dir", data.to_str().unwrap()];
    let mut client = Client::Pipe(Pipe::session(&arguments, "2025-11-25").await);
    let tools = client.tools().await;
    assert!(!tools.iter().any(|tool| FOUR.contains(&tool.as_str())), "{tools:?}");
}
