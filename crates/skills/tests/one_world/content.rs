//! Resources, prompts and the skills extension of MCP.

use serde_json::{Value, json};

use crate::{
    clients::{Pipe, every_kind},
    desk::{REVIEW, connect, is_listed},
    support::{Home, register},
};

#[tokio::test]
async fn live_skills_are_resources_and_dynamic_skills() {
    let home = Home::new();
    register(&home.worker().await, "zoo", "# Zoo\n").await;
    let _desk = connect(&home, "desk").await;
    for (kind, mut client) in every_kind(&home).await {
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
        let ids = found["structuredContent"]["skills"].as_array().unwrap();
        assert!(ids.iter().any(|row| row["id"] == REVIEW), "{kind}: {found}");
    }
}

#[tokio::test]
async fn a_stored_skill_of_the_clients_id_hides_only_what_it_has() {
    let home = Home::new();
    let bundle = json!({
        "id": "desk", "skill": "# Stored\n",
        "files": { "workspace/review/files/SKILL.md": "# Stored files\n" },
    });
    home.worker().await.ok("skills::register", bundle).await;
    let _desk = connect(&home, "desk").await;
    for (kind, mut client) in every_kind(&home).await {
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
async fn hears(pipe: &mut Pipe, method: &str) -> Value {
    loop {
        let heard = pipe.message().await;
        if heard["method"] == method {
            return heard;
        }
    }
}

#[tokio::test]
async fn clients_that_come_and_go_are_news() {
    let home = Home::new();
    let worker = home.worker().await;
    let mut pipe = Pipe::session(&["--url", &home.server.url], "2025-11-25").await;
    // It is connected when it has listed something.
    let listed = pipe.ask("resources/list", &json!({})).await;
    assert!(listed["error"].is_null(), "{listed}");
    let uri = format!("iii://{REVIEW}");
    pipe.ask("resources/subscribe", &json!({ "uri": uri })).await;
    let desk = connect(&home, "desk").await;
    let updated = hears(&mut pipe, "notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], uri);
    hears(&mut pipe, "notifications/resources/list_changed").await;
    hears(&mut pipe, "notifications/prompts/list_changed").await;
    drop(desk);
    is_listed(&worker, REVIEW, false).await;
    hears(&mut pipe, "notifications/resources/list_changed").await;
    loop {
        let listed = pipe.ask("resources/list", &json!({})).await;
        if !listed.to_string().contains(REVIEW) {
            break;
        }
        hears(&mut pipe, "notifications/resources/list_changed").await;
    }
}
