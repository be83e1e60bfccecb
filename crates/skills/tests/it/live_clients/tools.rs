//! The four client tools, with all kinds of MCP clients.

use serde_json::{Value, json};
use skills_manifest::schema::Schema;
use skills_testkit::Request;

use crate::{
    live_clients::fixture::{connect, wait_until_listed},
    support::{
        TestServer, keys,
        mcp_clients::{Client, Listener, OWN_TOOLS, Pipe, every_kind, send, stateless_request},
        register,
    },
};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const FOUR: [&str; 4] = ["listClients", "listPaths", "callPath", "callPaths"];

/// Returns the text of a tool result.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn paths(result: &Value) -> Vec<String> {
    let rows = result["structuredContent"]["paths"].as_array().unwrap();
    let row = |row: &Value| format!("{} {}", row["clientId"], row["path"]).replace('"', "");
    rows.iter().map(row).collect()
}

#[tokio::test]
async fn hosts_can_list_and_call_paths() {
    let server = TestServer::new();
    register(&server.worker().await, "zoo", "# Zoo\n").await;
    let _desk = connect(&server, "desk").await;
    for (kind, mut client) in every_kind(&server).await {
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

/// Clients validate results against the output schema and refuse a result that does not match.
#[tokio::test]
async fn tool_results_match_their_schemas_for_any_client_data() {
    let server = TestServer::new();
    register(&server.worker().await, "zoo", "# Zoo\n").await;
    let _desk = connect(&server, "desk").await;
    let odd = json!([
        { "type": "skill", "path": "/skill.md", "method": 7, "inputSchema": [], "outputSchema": 1 },
        { "type": "prompt", "path": "/prompt.md", "contentType": 5, "method": {}, "clientId": 1 },
        { "type": "endpoint", "path": "/e", "method": "PUT", "x": null, "clientName": [] },
    ]);
    let mut message = skills_testkit::mdp::registration("odd", odd);
    for name in ["status", "connection", "connectedAt", "nextCursor", "pathCount"] {
        message["client"][name] = json!([7]);
    }
    let url = server.process.http.replace("http://", "ws://");
    let mut client = skills_testkit::mdp::Client::connect(&url).await;
    client.send(&message).await;
    client.wait_until_processed().await;
    let serving = client.serve_calls(|_| skills_testkit::mdp::ok(json!({ "ok": "odd" })));
    for (kind, mut client) in every_kind(&server).await {
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
async fn errors_use_the_codes_of_the_protocol() {
    let server = TestServer::new();
    let _desk = connect(&server, "desk").await;
    for (kind, mut client) in every_kind(&server).await {
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

        // A partial result is returned.
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
async fn the_mdp_profile_has_only_the_four_tools() {
    let server = TestServer::new();
    let _desk = connect(&server, "desk").await;
    let arguments = ["--url", &server.process.url, "--profile", "mdp"];
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
    let answer = send(&server.process.http, &request).await.json();
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(tools.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(), FOUR);
}

#[tokio::test]
async fn a_client_with_many_skills_does_not_displace_stored_ones() {
    let server = TestServer::new();
    register(&server.worker().await, "zoo", "# Zoo\n\nAnimals.\n").await;
    let _desk = connect(&server, "desk").await;
    let many: Value = (0..500)
        .map(|n| skills_testkit::mdp::skill(&format!("/animals-{n}/skill.md")))
        .chain([skills_testkit::mdp::skill("/skill.md")])
        .collect();
    let url = server.process.http.replace("http://", "ws://");
    let _client = skills_testkit::mdp::Client::connect_registered(&url, "0", many).await;
    wait_until_listed(&server.worker().await, "0/skill.md", true).await;
    for (kind, mut client) in every_kind(&server).await {
        for (tool, arguments) in [
            ("list_skills", json!({ "budget_tokens": 300 })),
            ("search_skills", json!({ "query": "", "limit": 1 })),
        ] {
            let listed = client.call(tool, arguments).await;
            assert!(text(&listed).starts_with("- iii://zoo: "), "{kind}: {tool}: {listed}");
        }
    }
}

/// The schemas of the four tools would take most of the tokens of `tools/list`.
#[tokio::test]
async fn the_client_tools_are_offered_while_a_client_is_connected() {
    let server = TestServer::new();
    for (kind, mut listener) in Listener::every_kind(&server, &[]).await {
        assert_eq!(listener.client.tools().await, OWN_TOOLS, "{kind}");
        // A client that no listing shows.
        let url = server.process.http.replace("http://", "ws://");
        let endpoint = json!([{ "type": "endpoint", "path": "/echo", "method": "POST" }]);
        let client = skills_testkit::mdp::Client::connect_registered(&url, "desk", endpoint).await;
        listener
            .until(TOOLS_CHANGED, async |client| {
                client.tools().await == [&OWN_TOOLS[..], &FOUR].concat()
            })
            .await;
        drop(client);
        listener.until(TOOLS_CHANGED, async |client| client.tools().await == OWN_TOOLS).await;
    }
}

#[tokio::test]
async fn unknown_arguments_are_ignored() {
    let server = TestServer::new();
    let _desk = connect(&server, "desk").await;
    for (kind, mut client) in every_kind(&server).await {
        for (tool, mut arguments) in [
            ("listClients", json!({})),
            ("listPaths", json!({ "clientId": "desk" })),
            ("callPath", json!({ "clientId": "desk", "method": "GET", "path": "/skill.md" })),
            ("callPaths", json!({ "method": "GET", "path": "/skill.md" })),
        ] {
            let expected = client.call(tool, arguments.clone()).await;
            for unknown in ["key", "clientName", "more"] {
                arguments[unknown] = json!("x");
            }
            let result = client.call(tool, arguments).await;
            assert_ne!(result["isError"], true, "{kind} {tool}: {result}");
            let keys = |result: &Value| keys(&result["structuredContent"]).join(" ");
            assert_eq!(keys(&result), keys(&expected), "{kind} {tool}");
        }
    }
}

#[tokio::test]
async fn the_built_in_client_is_listed_while_it_has_paths() {
    let server = TestServer::new();
    let arguments = ["--url", &server.process.url, "--profile", "mdp"];
    let mut client = Client::Pipe(Pipe::session(&arguments, "2025-11-25").await);
    let listed = client.call("listClients", json!({})).await;
    assert_eq!(listed["structuredContent"]["clients"], json!([]));
    register(&server.worker().await, "zoo", "# Zoo\n").await;
    let listed = client.call("listClients", json!({})).await;
    let registry = &listed["structuredContent"]["clients"][0];
    assert_eq!(
        (&registry["id"], &registry["connection"]["mode"]),
        (&json!("registry"), &json!("ws"))
    );
}

/// Nothing is sent to a client of the profile before the answer to its request: its four tools never change.
#[tokio::test]
async fn the_mdp_profile_sends_no_change_of_tools() {
    let server = TestServer::new();
    let arguments = ["--url", &server.process.url, "--profile", "mdp"];
    let mut pipe = Pipe::session(&arguments, "2025-11-25").await;
    let _desk = connect(&server, "desk").await;
    for round in 0..3 {
        // `ask` fails on a message that is not the answer.
        let request = json!({ "jsonrpc": "2.0", "id": 100 + round, "method": "ping" });
        pipe.send(&request).await;
        let answer = pipe.message().await;
        assert_eq!(answer["id"], 100 + round, "{answer}");
    }
}

#[tokio::test]
async fn a_registry_without_live_clients_offers_no_client_tools() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (code, _, said) =
        skills_testkit::ServerProcess::start(crate::support::BINARY, &data).stop();
    assert_eq!(code, Some(0), "{said}");
    let arguments = ["--data-dir", data.to_str().unwrap()];
    let mut client = Client::Pipe(Pipe::session(&arguments, "2025-11-25").await);
    let tools = client.tools().await;
    assert!(!tools.iter().any(|tool| FOUR.contains(&tool.as_str())), "{tools:?}");
}
