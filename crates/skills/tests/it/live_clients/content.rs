//! Resources, prompts and the skills extension of MCP.

use serde_json::{Value, json};

use crate::{
    live_clients::fixture::{REVIEW, connect, wait_until_listed},
    support::{
        TestServer,
        mcp_clients::{Pipe, every_kind},
        register,
    },
};

#[tokio::test]
async fn live_skills_are_resources_and_dynamic_skills() {
    let server = TestServer::new();
    register(&server.worker().await, "zoo", "# Zoo\n").await;
    let _desk = connect(&server, "desk").await;
    for (kind, mut client) in every_kind(&server).await {
        let resources = client.all("resources/list", "resources").await;
        let review = format!("iii://{REVIEW}");
        let row = resources.iter().find(|row| row["uri"] == review.as_str()).expect(kind);
        assert_eq!((&row["description"], &row["size"]), (&json!("Review a change."), &Value::Null));
        assert!(client.read(&review).await.starts_with("# /workspace/review/skill.md\n"), "{kind}");

        let skills = client.all("skills/list", "skills").await;
        let uri = "skill://desk/workspace/review/SKILL.md";
        let entry = skills.iter().find(|entry| entry["uri"] == uri).expect(kind);
        assert_eq!(entry["resources"], "dynamic", "{kind}");
        let fields = json!({ "name": "review", "description": "Review a change." });
        assert_eq!(entry["frontmatter"], fields, "{kind}");
        let document = client.read(uri).await;
        assert!(document.starts_with("---\nname: \"review\"\n"), "{kind}: {document}");
        assert!(document.contains("# /workspace/review/skill.md\n"), "{kind}: {document}");
        let got = client.ok("skills/get", json!({ "uri": uri })).await;
        assert_eq!(got["skill"], *entry, "{kind}");

        let prompts = client.all("prompts/list", "prompts").await;
        assert_eq!(prompts[0]["name"], "desk-greet", "{kind}");
        let arguments = json!({ "name": "desk-greet", "arguments": { "who": "Ann" } });
        let rendered = client.ok("prompts/get", arguments).await;
        assert_eq!(rendered["messages"][0]["content"]["text"], "Say hello to Ann.", "{kind}");
        let found = client.call("search_skills", json!({ "query": "review" })).await;
        let text = found["content"][0]["text"].as_str().unwrap();
        assert!(
            text.contains(&format!("- {review} (live): Review a change.\n")),
            "{kind}: {found}"
        );
    }
}

#[tokio::test]
async fn a_stored_skill_shadows_only_the_live_paths_it_contains() {
    let server = TestServer::new();
    let bundle = json!({
        "id": "desk", "skill": "# Stored\n",
        "files": { "workspace/review/files/SKILL.md": "# Stored files\n" },
    });
    server.worker().await.ok("skills::register", bundle).await;
    let _desk = connect(&server, "desk").await;
    for (kind, mut client) in every_kind(&server).await {
        let uri = "skill://desk/workspace/review/SKILL.md";
        let skills = client.all("skills/list", "skills").await;
        let entry = skills.iter().find(|entry| entry["uri"] == uri).expect(kind);
        let document = client.read(uri).await;
        assert!(document.contains("# /workspace/review/skill.md\n"), "{kind}: {document}");
        let got = client.ok("skills/get", json!({ "uri": uri })).await;
        assert_eq!(got["skill"], *entry, "{kind}");
        let stored = client.read("skill://desk/workspace/review/files/SKILL.md").await;
        assert_eq!(stored, "# Stored files\n", "{kind}");
        let root = client.read("skill://desk/SKILL.md").await;
        assert!(root.ends_with("# Stored\n"), "{kind}: {root}");
    }
}

/// Waits for a notification.
async fn wait_for_notification(pipe: &mut Pipe, method: &str) -> Value {
    loop {
        let received = pipe.message().await;
        if received["method"] == method {
            return received;
        }
    }
}

#[tokio::test]
async fn connecting_and_disconnecting_clients_notify() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut pipe = Pipe::session(&["--url", &server.process.url], "2025-11-25").await;
    // A listing proves that the pipe is connected.
    let listed = pipe.ask("resources/list", &json!({})).await;
    assert!(listed["error"].is_null(), "{listed}");
    let uri = format!("iii://{REVIEW}");
    pipe.ask("resources/subscribe", &json!({ "uri": uri })).await;
    let desk = connect(&server, "desk").await;
    let updated = wait_for_notification(&mut pipe, "notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], uri);
    wait_for_notification(&mut pipe, "notifications/resources/list_changed").await;
    wait_for_notification(&mut pipe, "notifications/prompts/list_changed").await;
    drop(desk);
    wait_until_listed(&worker, REVIEW, false).await;
    wait_for_notification(&mut pipe, "notifications/resources/list_changed").await;
    loop {
        let listed = pipe.ask("resources/list", &json!({})).await;
        if !listed.to_string().contains(REVIEW) {
            break;
        }
        wait_for_notification(&mut pipe, "notifications/resources/list_changed").await;
    }
}
