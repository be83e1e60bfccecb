//! Updates sent to an idle client.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{
    TestServer,
    acp_client::{Client, find, opted_in},
    register,
};

const PDF: &str = "---\nname: pdf\ndescription: Reads PDF.\nlicense: MIT\ncompatibility: poppler\n\
                   allowed-tools: Bash(pdftotext:*) Read\nmetadata:\n  author: ann\n---\n# PDF\n";

#[tokio::test]
async fn changes_on_the_bus_reach_an_open_session() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let (mut client, _) = Client::session(&server).await;
    let none = |update: &Value| update["availableCommands"] == json!([]);
    client.update("available_commands_update", none).await;

    register(&worker, "pdf", PDF).await;
    let command = client.command("pdf").await;
    assert_eq!(command["description"], "Reads PDF.");
    assert_eq!(command["_meta"]["agentskills.io/skill"]["license"], "MIT");

    let prompt = json!({ "name": "ask", "description": "Asks.", "function_id": "t::ask",
        "arguments": [{ "name": "what", "required": true }] });
    worker.ok("prompts::register", prompt).await;
    assert_eq!(client.command("ask").await["input"]["hint"], "<what>");

    // The body changed but not the description: the list shows the new timestamp.
    let before = command["_meta"].clone();
    register(&worker, "pdf", &format!("{PDF}\nMore.\n")).await;
    client
        .update("available_commands_update", |update| {
            find(&update["availableCommands"], "pdf").is_some_and(|pdf| pdf["_meta"] != before)
        })
        .await;

    worker.ok("skills::unregister", json!({ "id": "pdf" })).await;
    worker.ok("prompts::unregister", json!({ "name": "ask" })).await;
    client.update("available_commands_update", none).await;
    assert!(!client.kinds().contains(&"available_skills_update"));
    assert!(client.end().await.1);
}

#[tokio::test]
async fn a_burst_of_changes_is_sent_in_few_updates() {
    const SKILLS: usize = 300;
    let server = TestServer::new();
    let worker = server.worker().await;
    let (mut client, _) = Client::session(&server).await;
    client.update("available_commands_update", |_| true).await;
    let begun = Instant::now();
    let calls = (0..SKILLS).map(|number| {
        let skill = json!({ "id": format!("s{number}"), "skill": "# S\n\nText.\n" });
        worker.start("skills::register", &skill)
    });
    for answer in futures_util::future::join_all(calls).await {
        answer.unwrap();
    }
    let all = |update: &Value| update["availableCommands"].as_array().unwrap().len() == SKILLS;
    client.update("available_commands_update", all).await;
    // Ten updates a second, the first at once, and one more for a list in flight.
    let most = usize::try_from(begun.elapsed().as_millis()).unwrap() / 100 + 2;
    assert!(client.kinds().len() < most, "{} updates", client.kinds().len() + 1);
}

#[tokio::test]
async fn a_client_that_opts_in_gets_the_skill_list() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "not_a_name", "# N\n\nText.\n").await;
    let long = format!("---\nname: long\ndescription: {}\n---\n# L\n", "d".repeat(1025));
    register(&worker, "long", &long).await;
    let mut client = Client::initialized(&["--url", &server.process.url], opted_in()).await;
    client.open().await;
    let kind = "available_skills_update";
    let first = client.update(kind, |_| true).await;
    // A description that is too long is truncated; a name that Agent Skills may not have excludes a skill.
    let first = first["availableSkills"].as_array().unwrap();
    assert_eq!((first.len(), &first[0]["name"]), (1, &json!("long")));
    assert_eq!(first[0]["description"], format!("{}...", "d".repeat(1021)));

    register(&worker, "pdf", PDF).await;
    let is_there = |update: &Value| find(&update["availableSkills"], "pdf").is_some();
    let update = client.update(kind, is_there).await;
    let mut skill = find(&update["availableSkills"], "pdf").unwrap();
    let meta = skill.as_object_mut().unwrap().remove("_meta").unwrap();
    assert_eq!(
        skill,
        json!({
            "name": "pdf", "description": "Reads PDF.", "license": "MIT",
            "compatibility": "poppler", "allowedTools": ["Bash(pdftotext:*)", "Read"],
        })
    );
    assert_eq!(meta["agentskills.io/metadata"], json!({ "author": "ann" }));
    assert_eq!(meta["agentskills.io/uri"], "iii://pdf");
    assert_eq!(update["availableSkills"].as_array().unwrap().len(), 2, "{update}");
}

#[tokio::test]
async fn the_skill_list_can_be_always_or_never_sent() {
    let server = TestServer::new();
    register(&server.worker().await, "pdf", PDF).await;
    let url = ["--url", &server.process.url];
    let place = [&url[..], &["--skills-update", "always"]].concat();
    let mut client = Client::initialized(&place, json!({})).await;
    client.open().await;
    client.update("available_skills_update", |_| true).await;

    let place = [&url[..], &["--skills-update=never"]].concat();
    let mut client = Client::spawn(&place);
    let params = json!({ "protocolVersion": 1, "clientCapabilities": opted_in() });
    let greeting = client.ok("initialize", params).await;
    assert!(greeting["agentCapabilities"]["_meta"].is_null(), "{greeting}");
    let session = client.open().await;
    client.command("pdf").await;
    // An update of the skill list would have arrived before this.
    client.turn(&session, "/pdf").await;
    assert!(client.kinds().is_empty(), "{:?}", client.kinds());
}

#[tokio::test]
async fn changes_in_a_data_directory_reach_the_session() {
    let dir = tempfile::tempdir().unwrap();
    let place = ["--data-dir", dir.path().to_str().unwrap()];
    let mut client = Client::initialized(&place, json!({})).await;
    client.open().await;
    let update = client.update("available_commands_update", |_| true).await;
    assert_eq!(update["availableCommands"], json!([]));
}

#[tokio::test]
async fn a_lost_registry_is_reported_in_the_chat() {
    let server = TestServer::new();
    register(&server.worker().await, "pdf", PDF).await;
    let (mut client, session) = Client::session(&server).await;
    client.command("pdf").await;
    drop(server);
    let output = client.turn(&session, "/pdf").await;
    assert!(output.contains("failed"), "{output}");
}
