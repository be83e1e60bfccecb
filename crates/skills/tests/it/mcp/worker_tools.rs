//! Functions of workers as tools, if their metadata asks for it.

use serde_json::{Value, json};
use skills_testkit::{CallFailure, Worker};

use crate::support::{
    TestServer,
    mcp_clients::{Client, Listener, OWN_TOOLS as OWN, every_kind, session},
    register,
    wait::eventually,
};

const CHANGED: &str = "notifications/tools/list_changed";

/// Serves a function with metadata.
async fn serve(
    worker: &Worker,
    id: &str,
    about: Value,
    handler: impl Fn(Value) -> Option<Result<Value, CallFailure>> + Send + Sync + 'static,
) {
    worker.serve(id, handler).await;
    let mut frame = json!({ "type": "registerfunction", "id": id });
    frame.as_object_mut().unwrap().extend(about.as_object().unwrap().clone());
    worker.send(&frame);
    worker.flush().await;
}

fn exposed() -> Value {
    json!({ "metadata": { "mcp": { "expose": true } } })
}

/// Waits until a client lists these tools beside the built-in ones.
async fn wait_for_tools(client: &mut Client, expected: &[&str]) {
    let expected: Vec<_> = OWN.iter().chain(expected).map(ToString::to_string).collect();
    let what = format!("{expected:?}");
    eventually(&what, async || client.tools().await == expected).await;
}

#[tokio::test]
async fn only_functions_that_opt_in_are_tools() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let echo = |data| Some(Ok(data));
    serve(&worker, "a::long", exposed(), echo).await;
    serve(&worker, "b::short", json!({ "metadata": { "mcp.expose": true } }), echo).await;
    serve(&worker, "c::silent", json!({}), echo).await;
    serve(&worker, "d::no", json!({ "metadata": { "mcp": { "expose": false } } }), echo).await;
    serve(&worker, "e::text", json!({ "metadata": { "mcp.expose": "true" } }), echo).await;
    serve(&worker, "mcp::x", exposed(), echo).await;
    serve(&worker, "iii::x", exposed(), echo).await;
    for (kind, mut client) in every_kind(&server).await {
        wait_for_tools(&mut client, &["a__long", "b__short"]).await;
        for name in
            ["c__silent", "c::silent", "skills__register", "engine__functions__list", "mcp__x"]
        {
            let refused = client.fails("tools/call", json!({ "name": name })).await;
            assert_eq!(refused.code, -32602, "{kind} {name}");
        }
    }
    // Reserved functions still work.
    register(&worker, "a", "# A\n").await;
}

#[tokio::test]
async fn worker_tools_carry_their_metadata() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let request = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let response = json!({ "type": "object", "properties": { "twice": { "type": "integer" } } });
    let about = json!({
        "description": "Doubles a number.",
        "request_format": request, "response_format": response,
        "metadata": { "mcp": {
            "expose": true, "title": "Double",
            "annotations": { "readOnlyHint": true, "destructiveHint": false },
        } },
    });
    serve(&worker, "math::double", about, |data| {
        Some(Ok(json!({ "twice": 2 * data["n"].as_i64().unwrap_or_default() })))
    })
    .await;
    serve(&worker, "math::plain", exposed(), |_| Some(Ok(json!("text")))).await;
    for (kind, mut client) in every_kind(&server).await {
        wait_for_tools(&mut client, &["math__double", "math__plain"]).await;
        let tools = client.all("tools/list", "tools").await;
        let double = &tools[OWN.len()];
        assert_eq!(double["title"], "Double", "{kind}");
        assert_eq!(double["description"], "Doubles a number.", "{kind}");
        assert_eq!(double["inputSchema"], request, "{kind}");
        assert_eq!(double["outputSchema"], response, "{kind}");
        assert_eq!(double["annotations"]["readOnlyHint"], true, "{kind}");
        assert_eq!(double["annotations"]["destructiveHint"], false, "{kind}");
        assert_eq!(tools[OWN.len() + 1]["inputSchema"], json!({ "type": "object" }), "{kind}");
        assert!(tools[OWN.len() + 1]["outputSchema"].is_null(), "{kind}");

        let result = client.call("math__double", json!({ "n": 21 })).await;
        assert_eq!(result["structuredContent"], json!({ "twice": 42 }), "{kind}");
        assert_eq!(result["content"][0]["text"], "{\"twice\":42}", "{kind}");
        assert_ne!(result["isError"], true, "{kind}");
        let result = client.call("math__plain", json!({})).await;
        assert_eq!(result["content"], json!([{ "type": "text", "text": "text" }]), "{kind}");
        assert!(result["structuredContent"].is_null(), "{kind}");
    }
}

#[tokio::test]
async fn a_failure_is_reported_to_the_model() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let thrown = CallFailure { code: "E42".into(), message: "no such number".into() };
    serve(&worker, "a::throws", exposed(), move |_| Some(Err(thrown.clone()))).await;
    let mut promises = exposed();
    promises["response_format"] = json!({ "type": "object" });
    serve(&worker, "b::breaks", promises, |_| Some(Ok(json!("text")))).await;
    for (kind, mut client) in every_kind(&server).await {
        wait_for_tools(&mut client, &["a__throws", "b__breaks"]).await;
        for (tool, words) in [("a__throws", "no such number"), ("b__breaks", "schema")] {
            let result = client.call(tool, json!({})).await;
            assert_eq!(result["isError"], true, "{kind} {tool}");
            let output = result["content"][0]["text"].as_str().unwrap();
            assert!(output.contains(words), "{kind} {tool}: {output}");
        }
    }
}

#[tokio::test]
async fn added_and_removed_worker_tools_notify_clients() {
    let server = TestServer::new();
    for (kind, mut listener) in Listener::every_kind(&server, &[]).await {
        wait_for_tools(&mut listener.client, &[]).await;
        let worker = server.worker().await;
        serve(&worker, "a::tool", exposed(), |data| Some(Ok(json!({ "got": data["x"] })))).await;
        listener
            .until(CHANGED, async |client| client.tools().await.contains(&"a__tool".to_owned()))
            .await;
        let result = listener.client.call("a__tool", json!({ "x": 1 })).await;
        assert_eq!(result["structuredContent"], json!({ "got": 1 }), "{kind}");
        drop(worker);
        listener.until(CHANGED, async |client| client.tools().await == OWN).await;
        let refused = listener.client.fails("tools/call", json!({ "name": "a__tool" })).await;
        assert_eq!(refused.code, -32602, "{kind}");
    }
}

#[tokio::test]
async fn functions_that_are_no_tools_do_not_notify() {
    let server = TestServer::new();
    let mut listener = Listener::session(&server, &[]).await;
    let worker = server.worker().await;
    worker.serve("a::plain", |data| Some(Ok(data))).await;
    wait_for_tools(&mut listener.client, &[]).await;
    serve(&worker, "b::tool", exposed(), |data| Some(Ok(data))).await;
    wait_for_tools(&mut listener.client, &["b__tool"]).await;
    assert_eq!(listener.next().await["method"], CHANGED);
    register(&worker, "a", "# A\n").await;
    // The next notification is that of the skill: the plain function did not notify.
    assert_eq!(listener.next().await["method"], "notifications/resources/list_changed");
}

#[tokio::test]
async fn worker_tool_names_are_valid_and_never_shadow_built_in_tools() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for id in ["list_skills", "a.b::c-d", "a_b::c-d"] {
        let name = id.to_owned();
        serve(&worker, id, exposed(), move |_| Some(Ok(json!(name.clone())))).await;
    }
    let mut client = session(&server).await;
    eventually("six tools", async || client.tools().await.len() == 6).await;
    let names = client.tools().await;
    assert_eq!(names[..3], OWN);
    let mut called = Vec::new();
    for name in &names[3..] {
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)), "{name}");
        let result = client.call(name, json!({})).await;
        called.push(result["content"][0]["text"].as_str().unwrap().to_owned());
    }
    called.sort();
    assert_eq!(called, ["a.b::c-d", "a_b::c-d", "list_skills"]);
    let ours = client.call("list_skills", json!({})).await;
    assert_eq!(ours["content"][0]["text"], "No skills are registered.", "ours is still ours");
}
