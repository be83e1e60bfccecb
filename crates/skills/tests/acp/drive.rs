//! What live clients have, as commands.

use serde_json::{Value, json};
use skills_testkit::mdp;

use crate::{
    client::{Client, find},
    support::{Home, register},
};

#[tokio::test]
async fn live_prompts_and_skills_are_commands_and_take_no_stored_ones_name() {
    let home = Home::new();
    let worker = home.worker().await;
    register(&worker, "pdf", "# PDF\n\nThe stored one.\n").await;
    let url = home.server.http.replace("http://", "ws://");
    let paths = json!([
        { "type": "prompt", "path": "/prompt.md", "description": "Of a client." },
        { "type": "prompt", "path": "/greet/prompt.md", "description": "Greets.",
            "inputSchema": { "properties": { "who": {} }, "required": ["who"] } },
        { "type": "skill", "path": "/review/skill.md", "description": "Reviews." },
    ]);
    let client = mdp::Client::registered(&url, "pdf", paths).await;
    let serving = client.serving(|call| match call["path"].as_str() {
        Some("/review/skill.md") => mdp::ok("# Review\n"),
        _ => mdp::ok(format!("hello {}", call["query"]["who"])),
    });
    let (mut editor, session) = Client::session(&home).await;
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
