//! Live entries over the bus and on the command line.

use serde_json::{Value, json};
use skills_testkit::{
    mdp::{Client, skill},
    next, program, run,
};

use crate::{
    live_clients::fixture::{REVIEW, connect, wait_until_listed},
    support::{BINARY, TestServer, ids, read, read_error, register, wait::eventually},
};

#[tokio::test]
async fn live_entries_are_listed_and_readable_until_disconnect() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "zoo", "# Zoo\n").await;
    let mut notified = worker.collect("test::notified").await;
    worker.subscribe("skills::on-change", "test::notified", json!({})).await;
    let desk = connect(&server, "desk").await;

    let listed = ["desk/skill.md", "desk/workspace/review/files/skill.md", REVIEW, "zoo"];
    assert_eq!(ids(&worker).await, listed, "a pattern is no document");
    let index = read(&worker, "iii://skills").await;
    for line in [
        "- [Zoo](iii://zoo)",
        "## desk (live)",
        "- [desk/skill.md](iii://desk/skill.md): What the desk is for. (live: desk)",
        "- [Files](iii://desk/workspace/review/files/skill.md) (live: desk)",
        &format!("- [{REVIEW}](iii://{REVIEW}): Review a change. (live: desk)"),
    ] {
        assert!(index.lines().any(|one| one == line), "{line}: {index}");
    }
    let review = read(&worker, &format!("iii://{REVIEW}")).await;
    assert!(review.starts_with("# /workspace/review/skill.md\n"), "{review}");
    assert!(read(&worker, "iii://desk").await.starts_with("# /skill.md\n"));
    // A path pattern is readable with its parameters filled in.
    assert!(read(&worker, "iii://desk/goods/a-1/skill.md").await.contains(r#"{"sku":"a-1"}"#));
    let page = worker.ok("skills::catalog", json!({ "ids": [REVIEW, "zoo"] })).await;
    assert_eq!(
        (&page["skills"][0]["live"], &page["skills"][1]["live"]),
        (&json!("desk"), &Value::Null)
    );
    assert_eq!(
        (&page["skills"][0]["tier"], &page["skills"][1]["tier"]),
        (&Value::Null, &json!("official"))
    );
    let mut received = next(&mut notified).await;
    if received == json!({ "op": "refresh-tools" }) {
        received = next(&mut notified).await;
    }
    assert_eq!(received, json!({ "op": "register", "id": "desk/skill.md" }));

    drop(desk);
    wait_until_listed(&worker, REVIEW, false).await;
    assert_eq!(ids(&worker).await, ["zoo"]);
    assert_eq!(read_error(&worker, "iii://desk").await.code, "not_found");
    loop {
        if next(&mut notified).await == json!({ "op": "unregister", "id": REVIEW }) {
            break;
        }
    }
}

#[tokio::test]
async fn stored_entries_win_over_live_ones() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let _desk = connect(&server, "desk").await;
    let bundle = json!({
        "id": "desk", "skill": "# Stored\n",
        "files": { "workspace/review/skill.md": "# Stored review\n" },
    });
    worker.ok("skills::register", bundle).await;
    assert_eq!(read(&worker, "iii://desk").await, "# Stored\n");
    assert_eq!(read(&worker, &format!("iii://{REVIEW}")).await, "# Stored review\n");
    let files = read(&worker, "iii://desk/workspace/review/files/skill.md").await;
    assert!(files.starts_with("# /workspace/review/files/skill.md\n"), "{files}");
    worker.serve("test::greet", |_| Some(Ok(json!("stored")))).await;
    let prompt = json!({ "name": "desk-greet", "description": "d", "function_id": "test::greet" });
    worker.ok("prompts::register", prompt).await;
    let rendered = worker.ok("prompts::mcp-get", json!({ "name": "desk-greet" })).await;
    assert_eq!(rendered["messages"][0]["content"]["text"], "stored");
}

#[tokio::test]
async fn live_prompts_are_prompts_on_every_surface() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let _desk = connect(&server, "desk").await;
    let listed = worker.ok("prompts::mcp-list", json!({})).await;
    let argument = json!({ "name": "who", "description": "Whom", "required": true });
    assert_eq!(
        listed["prompts"],
        json!([{ "name": "desk-greet", "description": "Greet somebody.", "arguments": [argument] }])
    );
    let payload = json!({ "name": "desk-greet", "arguments": { "who": "Ann" } });
    let rendered = worker.ok("prompts::mcp-get", payload).await;
    let content = json!({ "type": "text", "text": "Say hello to Ann." });
    assert_eq!(rendered["messages"], json!([{ "role": "user", "content": content }]));
}

#[tokio::test]
async fn the_four_client_tools_are_bus_functions() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "zoo", "# Zoo\n").await;
    let _desk = connect(&server, "desk").await;
    let clients = worker.ok("mdp::list-clients", json!({})).await;
    let ids: Vec<&Value> =
        clients["clients"].as_array().unwrap().iter().map(|c| &c["id"]).collect();
    assert_eq!(ids, ["registry", "desk"]);
    let called = json!({ "clientId": "registry", "method": "GET", "path": "/zoo/skill.md" });
    let answer = worker.ok("mdp::call-path", called).await;
    assert_eq!(answer, json!({ "ok": true, "data": "# Zoo\n" }));
    let failed = worker.fails("mdp::list-paths", json!({ "depth": 0 })).await;
    assert_eq!(failed.code, "invalid_input");
    let absent = json!({ "clientId": "nobody", "method": "GET", "path": "/a" });
    let failed = worker.fails("mdp::call-path", absent).await;
    assert_eq!(failed.message, "Client \"nobody\" is not connected");
    let unknown = json!({ "key": "us-nobody" });
    assert_eq!(worker.fails("mdp::list-clients", unknown).await.code, "unknown_key");
    // No section gives access to the functions that call clients.
    let tunnel = read_error(&worker, "iii://zoo/mdp::call-path").await;
    assert_eq!(tunnel.code, "reserved_function");
}

// The client answers on another thread while this one waits for the command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_lists_and_reads_live_entries() {
    let server = TestServer::new();
    let _desk = connect(&server, "desk").await;
    let skills = |arguments: &[&str]| {
        let ran = run(program(BINARY).args(arguments).args(["--url", &server.process.url]));
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        ran.stdout
    };
    let listed: Value = serde_json::from_str(&skills(&["list", "--json"])).unwrap();
    let text = listed.to_string();
    assert!(text.contains(REVIEW) && text.contains(r#""live":"desk""#), "{text}");
    assert!(skills(&["read", "iii://desk"]).starts_with("# /skill.md"));
    assert!(skills(&["search", "review"]).contains(REVIEW));
    assert!(skills(&["prompt", "get", "desk-greet", "who=Ann"]).contains("Say hello to Ann."));
}

#[tokio::test]
async fn a_client_with_an_invalid_skill_id_exposes_no_skills() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let _desk = connect(&server, "desk").await;
    let url = server.process.http.replace("http://", "ws://");
    let _client = Client::connect_registered(&url, "Desk 2", json!([skill("/skill.md")])).await;
    eventually("the client is there", async || {
        let paths = worker.ok("mdp::list-paths", json!({ "clientId": "Desk 2" })).await;
        paths["paths"].as_array().unwrap().len() == 1
    })
    .await;
    assert!(!ids(&worker).await.iter().any(|id| id.starts_with("Desk")));
}
