//! `skills::*` with valid input: shapes, order and timestamps.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use skills_testkit::published_schema;

use crate::support::{TestServer, ids, is_timestamp, keys, read, register};

#[tokio::test]
async fn registering_returns_only_id_and_timestamp() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let answer = worker.ok("skills::register", json!({ "id": "a", "skill": "# A" })).await;
    assert_eq!(keys(&answer), ["id", "registered_at"]);
    assert_eq!(answer["id"], "a");
    assert!(is_timestamp(&answer["registered_at"]), "{answer}");
}

#[tokio::test]
async fn unregistering_reports_whether_the_skill_existed() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "a", "# A").await;
    let gone = worker.ok("skills::unregister", json!({ "id": "a" })).await;
    assert_eq!(gone, json!({ "id": "a", "removed": true }));
    let again = worker.ok("skills::unregister", json!({ "id": "a" })).await;
    assert_eq!(again, json!({ "id": "a", "removed": false }));
    assert!(ids(&worker).await.is_empty());
}

#[tokio::test]
async fn a_list_has_three_fields_per_row_and_is_sorted() {
    let server = TestServer::new();
    let worker = server.worker().await;
    assert_eq!(worker.ok("skills::list", json!({})).await, json!({ "skills": [] }));
    let mut rows = Vec::new();
    for (id, body) in [("b", "é"), ("a-1", "xyz"), ("_", "12"), ("a", "1"), ("0", "1")] {
        let registered_at = register(&worker, id, body).await;
        rows.push(json!({ "id": id, "bytes": body.len(), "registered_at": registered_at }));
    }
    rows.sort_by_key(|row| row["id"].as_str().unwrap().to_owned());
    assert_eq!(worker.ok("skills::list", json!({})).await, json!({ "skills": rows }));
}

#[tokio::test]
async fn resources_are_the_index_and_one_for_each_skill() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "b", "# Bee\n\nMakes honey.\n").await;
    register(&worker, "a", "only text").await;
    let list = worker.ok("skills::resources-list", json!({})).await;
    assert_eq!(keys(&list), ["resources"]);
    let resources = list["resources"].as_array().unwrap();
    assert_eq!(resources.len(), 3);
    assert_eq!(resources[0]["uri"], "iii://skills");
    assert_eq!(resources[0]["mimeType"], "text/markdown");
    assert!(resources[0]["name"].is_string() && resources[0]["description"].is_string());
    let skill = |id: &str, title: &str, description: &str, size: usize| {
        json!({
            "uri": format!("iii://{id}"), "name": id, "title": title, "description": description,
            "mimeType": "text/markdown", "size": size,
        })
    };
    assert_eq!(resources[1], skill("a", "a", "only text", 9));
    assert_eq!(resources[2], skill("b", "Bee", "Makes honey.", 20));
}

#[tokio::test]
async fn the_two_uri_templates_are_listed() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let answer = worker.ok("skills::resources-templates", json!({})).await;
    assert_eq!(keys(&answer), ["resourceTemplates"]);
    let templates = answer["resourceTemplates"].as_array().unwrap();
    let uris: Vec<&Value> = templates.iter().map(|template| &template["uriTemplate"]).collect();
    assert_eq!(uris, ["iii://{id}", "iii://{id}/{function_id}"]);
    for template in templates {
        assert_eq!(keys(template), ["description", "mimeType", "name", "uriTemplate"]);
    }
}

#[tokio::test]
async fn reading_returns_one_content() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "a", "# A\n").await;
    let answer = worker.ok("skills::resources-read", json!({ "uri": "iii://a" })).await;
    let content = json!({ "uri": "iii://a", "mimeType": "text/markdown", "text": "# A\n" });
    assert_eq!(answer, json!({ "contents": [content] }));
}

#[tokio::test]
async fn the_index_has_a_line_for_each_skill() {
    let server = TestServer::new();
    let worker = server.worker().await;
    assert!(read(&worker, "iii://skills").await.contains("No skills are registered"));
    register(&worker, "zoo", "# The Zoo\n\nAnimals,\nmany of them.\n\nMore.\n").await;
    register(&worker, "long", &format!("# Long\n\n{}\n", "é".repeat(141))).await;
    register(&worker, "code", "```\n# no title\n```\n\n# Code\n\n## Sub\n\nText.\n").await;
    register(&worker, "plain", "---\nname: x\n---\nJust text.\n").await;
    register(&worker, "bare", "# Bare\n").await;
    assert_eq!(
        read(&worker, "iii://skills").await,
        format!(
            "# Skills\n\n\
             - [Bare](iii://bare)\n\
             - [Code](iii://code): Text.\n\
             - [Long](iii://long): {}...\n\
             - [plain](iii://plain): Just text.\n\
             - [The Zoo](iii://zoo): Animals, many of them.\n",
            "é".repeat(140)
        )
    );
    worker.ok("skills::unregister", json!({ "id": "zoo" })).await;
    assert!(!read(&worker, "iii://skills").await.contains("zoo"));
}

#[tokio::test]
async fn registering_a_skill_again_replaces_it_with_a_later_timestamp() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let first = register(&worker, "a", "one").await;
    let second = register(&worker, "a", "three").await;
    assert!(first < second, "{first} {second}");
    let row = json!({ "id": "a", "bytes": 5, "registered_at": second });
    assert_eq!(worker.ok("skills::list", json!({})).await, json!({ "skills": [row] }));
    let same = register(&worker, "a", "three").await;
    assert!(second < same, "the same body again is still later");
}

#[tokio::test]
async fn rapid_registrations_keep_the_order_of_calls() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let register = |number: usize| {
        worker.start("skills::register", &json!({ "id": "a", "skill": format!("{number}") }))
    };
    let calls: Vec<_> = (0..200).map(register).collect();
    let mut moments = Vec::new();
    for call in calls {
        moments.push(call.await.unwrap()["registered_at"].as_str().unwrap().to_owned());
    }
    assert!(moments.is_sorted_by(|earlier, later| earlier < later), "{moments:?}");
    assert_eq!(read(&worker, "iii://a").await, "199");
    let list = worker.ok("skills::list", json!({})).await;
    assert_eq!(list["skills"][0]["registered_at"].as_str(), moments.last().map(String::as_str));
}

#[tokio::test]
async fn a_thousand_concurrent_registrations_are_all_stored() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let id = |number: usize| format!("skill-{number:04}");
    let register = |number: usize| {
        let body = format!("# Skill {number}\n\nNumber {number}.\n");
        worker.start("skills::register", &json!({ "id": id(number), "skill": body }))
    };
    let calls: Vec<_> = (0..1000).rev().map(register).collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(ids(&worker).await, (0..1000).map(id).collect::<Vec<_>>());
    assert_eq!(read(&worker, "iii://skill-0500").await, "# Skill 500\n\nNumber 500.\n");
}

#[tokio::test]
async fn an_acknowledged_write_is_readable_by_every_worker() {
    let server = TestServer::new();
    let (writer, reader) = (server.worker().await, server.worker().await);
    for number in 0..100 {
        let body = format!("version {number}");
        register(&writer, "a", &body).await;
        let asked = if number % 2 == 0 { &writer } else { &reader };
        assert_eq!(read(asked, "iii://a").await, body);
        let list = asked.ok("skills::list", json!({})).await;
        assert_eq!(list["skills"][0]["bytes"], body.len());
    }
}

#[tokio::test]
async fn concurrent_writers_lose_nothing() {
    let server = TestServer::new();
    let mut expected = BTreeSet::new();
    let mut writers = Vec::new();
    for writer in 0..8 {
        expected.extend((0..50).map(|number| format!("w{writer}-{number}")));
        let worker = server.worker().await;
        writers.push(tokio::spawn(async move {
            for number in 0..50 {
                let id = format!("w{writer}-{number}");
                register(&worker, "shared", &id).await;
                register(&worker, &id, &id).await;
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let worker = server.worker().await;
    expected.insert("shared".to_owned());
    assert_eq!(ids(&worker).await, Vec::from_iter(expected));
    assert!(read(&worker, "iii://shared").await.ends_with("-49"));
}

#[tokio::test]
async fn unknown_fields_are_ignored() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let extra = json!({
        "id": "a", "skill": "# A", "uri": "iii://a", "name": "p", "description": "d",
        "function_id": "x::y", "_caller_worker_id": "someone", "futures": [{ "deep": null }],
    });
    for function_id in [
        "skills::register",
        "skills::list",
        "skills::resources-list",
        "skills::resources-read",
        "skills::resources-templates",
        "prompts::register",
        "prompts::list",
        "prompts::mcp-list",
        "prompts::unregister",
        "skills::unregister",
    ] {
        worker.ok(function_id, extra.clone()).await;
    }
    assert!(ids(&worker).await.is_empty());
}

#[tokio::test]
async fn a_void_registration_is_carried_out() {
    let server = TestServer::new();
    let worker = server.worker().await;
    worker.send(&json!({
        "type": "invokefunction", "function_id": "skills::register", "action": { "type": "void" },
        "data": { "id": "void", "skill": "x" },
    }));
    // Queued behind the void call, so answered after it.
    register(&worker, "a", "x").await;
    assert_eq!(ids(&worker).await, ["a", "void"]);
}

#[tokio::test]
async fn workers_see_the_published_schemas() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let reference: Value =
        serde_json::from_str(include_str!("../../../../worker/tests/api-reference.json")).unwrap();
    let list = worker.ok("engine::functions::list", json!({})).await;
    let rows = list["functions"].as_array().unwrap();
    for function in reference["functions"].as_array().unwrap() {
        let row = rows.iter().find(|row| row["function_id"] == function["name"]).unwrap();
        assert_eq!(row["description"], function["description"]);
        let request = published_schema(row["request_format"].clone());
        assert_eq!(request, function["request_schema"], "{row}");
        assert_eq!(row["response_format"], function["response_schema"], "{row}");
    }
    let types = worker.ok("engine::trigger-types::list", json!({})).await;
    for trigger in reference["triggers"].as_array().unwrap() {
        let mut types = types["trigger_types"].as_array().unwrap().iter();
        let row = types.find(|row| row["id"] == trigger["name"]).unwrap();
        assert_eq!(row["description"], trigger["description"]);
    }
}
