//! Content of turns.

use serde_json::json;
use skills_testkit::{CallFailure, Worker};

use crate::support::{
    TestServer,
    acp_client::{Client, find},
    register,
};

async fn prompt(worker: &Worker, name: &str, arguments: serde_json::Value) {
    let definition = json!({
        "name": name, "description": "Greets.", "arguments": arguments, "function_id": "t::greet",
    });
    worker.ok("prompts::register", definition).await;
}

async fn greeter(worker: &Worker) {
    let arguments = json!([
        { "name": "who", "description": "Who to greet", "required": true },
        { "name": "tone" },
    ]);
    let greet = |data: serde_json::Value| {
        let who = data["who"].as_str().unwrap_or("nobody");
        let tone = data["tone"].as_str().unwrap_or("plain");
        Some(Ok(json!({ "content": format!("Greet {who}, {tone}.") })))
    };
    worker.serve("t::greet", greet).await;
    prompt(worker, "greet", arguments).await;
}

#[tokio::test]
async fn a_prompt_is_rendered() {
    let server = TestServer::new();
    let worker = server.worker().await;
    greeter(&worker).await;
    let (mut client, session) = Client::session(&server).await;
    assert_eq!(client.command("greet").await["input"]["hint"], "<who> [tone]");
    for (typed, output) in [
        ("/greet Ada Lovelace", "Greet Ada Lovelace, plain."),
        ("/greet who='Ada Lovelace' tone=dry", "Greet Ada Lovelace, dry."),
        ("/greet tone=dry Ada", "Greet Ada, dry."),
        ("  /GREET Ada", "Greet Ada, plain."),
    ] {
        assert_eq!(client.turn(&session, typed).await, output, "{typed}");
    }
    let missing = client.turn(&session, "/greet").await;
    assert!(missing.contains("needs this argument: `who`"), "{missing}");
    assert!(missing.contains("Who to greet"), "{missing}");
}

#[tokio::test]
async fn a_handler_failure_is_reported_in_the_chat() {
    let server = TestServer::new();
    let worker = server.worker().await;
    prompt(&worker, "greet", json!([])).await;
    let (mut client, session) = Client::session(&server).await;
    let output = client.turn(&session, "/greet").await;
    assert!(output.contains("t::greet is not registered on the bus"), "{output}");
    let fail = |_| Some(Err(CallFailure { code: "bad".into(), message: "No luck today".into() }));
    worker.serve("t::greet", fail).await;
    let output = client.turn(&session, "/greet").await;
    assert!(output.contains("No luck today"), "{output}");
    assert!(client.turn(&session, "/greet some text").await.contains("no argument for this"));
}

#[tokio::test]
async fn a_skill_is_shown_without_its_frontmatter() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let long = "A line that repeats itself.\n".repeat(2_000);
    let body = format!("---\nname: pdf\ndescription: Reads PDF.\n---\n\n# PDF\n\n{long}");
    register(&worker, "pdf-tools", &body).await;
    let hidden = "---\nname: hidden\ndescription: d\nuser-invocable: false\n---\n# H\n";
    register(&worker, "hidden", hidden).await;
    // A skill without a name is named by its id.
    register(&worker, "nameless", "---\ndescription: d\nuser-invocable: false\n---\n# N\n").await;
    register(&worker, "odd_name", "# Odd\n\nStill readable.\n").await;
    let (mut client, session) = Client::session(&server).await;
    let listed = client.update("available_commands_update", |_| true).await;
    let commands = &listed["availableCommands"];
    assert!(find(commands, "hidden").is_none() && find(commands, "nameless").is_none(), "{listed}");
    let pdf = find(commands, "pdf").unwrap();
    assert_eq!(pdf["_meta"]["agentskills.io/skill"]["name"], "pdf");
    assert_eq!(client.turn(&session, "/pdf").await, format!("# PDF\n\n{long}"));
    let output = client.turn(&session, "/pdf in.pdf 'page 2'").await;
    assert!(
        output.ends_with("\n\nARGUMENTS: in.pdf 'page 2'\n"),
        "{}",
        &output[output.len() - 100..]
    );
    assert!(client.turn(&session, "/hidden").await.contains("for agents"));
    assert!(client.turn(&session, "/nameless").await.contains("for agents"));
    assert_eq!(client.turn(&session, "/odd_name").await, "# Odd\n\nStill readable.\n");
    assert!(client.turn(&session, "/pfd").await.contains("`/pdf`"));
}

#[tokio::test]
async fn a_prompt_wins_over_a_skill_of_its_name() {
    let server = TestServer::new();
    let worker = server.worker().await;
    greeter(&worker).await;
    register(&worker, "greet", "# Greeting\n\nText.\n").await;
    let (mut client, session) = Client::session(&server).await;
    let both = client.update("available_commands_update", |_| true).await;
    assert_eq!(both["availableCommands"].as_array().unwrap().len(), 1, "{both}");
    assert!(find(&both["availableCommands"], "greet").unwrap()["_meta"].is_null());
    assert_eq!(client.turn(&session, "/greet Ada").await, "Greet Ada, plain.");
}

#[tokio::test]
async fn other_text_gets_a_short_answer() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for number in 0..50 {
        register(&worker, &format!("s{number}"), "# S\n\nText.\n").await;
    }
    let (mut client, session) = Client::session(&server).await;
    for text in ["What can you do?", "", "/", "look at /s1"] {
        let output = client.turn(&session, text).await;
        assert!(
            output.contains("`/s0`") && output.contains("40 more") && output.len() < 2_000,
            "{output}"
        );
    }
}

#[tokio::test]
async fn sessions_are_independent_and_can_be_closed() {
    let server = TestServer::new();
    register(&server.worker().await, "a", "# A\n\nText.\n").await;
    let (mut client, first) = Client::session(&server).await;
    let second = client.open().await;
    assert_ne!(first, second);
    client.command("a").await;
    client.command("a").await;
    client.ok("session/close", json!({ "sessionId": first })).await;
    let prompt = json!({ "sessionId": first, "prompt": [] });
    assert_eq!(client.fails("session/prompt", prompt).await, -32002);
    assert_eq!(client.fails("session/close", json!({ "sessionId": first })).await, -32002);
    assert_eq!(client.turn(&second, "/a").await, "# A\n\nText.\n");
    assert_eq!(client.end().await, (vec![], true));
}
