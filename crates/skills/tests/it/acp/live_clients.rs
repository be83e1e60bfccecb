//! Live entries as commands.

use serde_json::{Value, json};
use skills_testkit::mdp;

use crate::support::{
    TestServer,
    acp_client::{Client, find},
    register,
};

#[tokio::test]
async fn live_entries_are_commands_and_never_shadow_stored_ones() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "pdf", "# PDF\n\nThe stored one.\n").await;
    let url = server.process.http.replace("http://", "ws://");
    let paths = json!([
        { "type": "prompt", "path": "/prompt.md", "description": "Of a client." },
        { "type": "prompt", "path": "/greet/prompt.md", "description": "Greets.",
            "inputSchema": { "properties": { "who": {} }, "required": ["who"] } },
        { "type": "skill", "path": "/review/skill.md", "description": "Reviews." },
    ]);
    let client = mdp::Client::connect_registered(&url, "pdf", paths).await;
    let serving = client.serve_calls(|call| match call["path"].as_str() {
        Some("/review/skill.md") => mdp::ok("# Review\n"),
        _ => mdp::ok(format!("hello {}", call["query"]["who"])),
    });
    let (mut editor, session) = Client::session(&server).await;
    assert_eq!(editor.command("pdf-greet").await["input"]["hint"], "<who>");
    assert_eq!(editor.turn(&session, "/pdf-greet Ann").await, r#"hello "Ann""#);
    assert_eq!(editor.turn(&session, "/pdf-review").await, "# Review\n");
    assert!(editor.turn(&session, "/pdf").await.contains("The stored one."));

    serving.abort();
    let is_alone = |update: &Value| {
        let commands = &update["availableCommands"];
        find(commands, "pdf").is_some() && commands.as_array().unwrap().len() == 1
    };
    editor.update("available_commands_update", is_alone).await;
    assert!(editor.turn(&session, "/pdf").await.contains("The stored one."));
}
