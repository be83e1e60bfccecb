//! Resources: the index, skills, and sections.

use serde_json::{Value, json};

use crate::support::{
    TestServer, is_timestamp, keys,
    mcp_clients::{every_kind, session},
    register,
};

const BRAIN: &str = "# Brain\n\nThinks about things.\n\nSee iii://brain/brain::notes, iii://brain/brain::facts and iii://brain/brain::nobody.\n";

#[tokio::test]
async fn a_list_has_the_index_and_every_skill_with_metadata() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "brain", BRAIN).await;
    register(&worker, "apple", "no heading, ünïcode").await;
    for (kind, mut client) in every_kind(&server).await {
        let list = client.ok("resources/list", json!({})).await;
        let rows = list["resources"].as_array().unwrap();
        let uris: Vec<_> = rows.iter().map(|row| row["uri"].as_str().unwrap()).collect();
        assert_eq!(uris, ["iii://skills", "iii://apple", "iii://brain"], "{kind}");
        for row in rows {
            assert_eq!(row["mimeType"], "text/markdown", "{kind}");
            assert!(row["name"].is_string() && row["title"].is_string(), "{kind}: {row}");
        }
        assert!(rows[0]["description"].is_string(), "{kind}");
        let brain = &rows[2];
        assert_eq!(
            keys(brain),
            ["annotations", "description", "mimeType", "name", "size", "title", "uri"],
            "{kind}"
        );
        assert_eq!(brain["name"], "brain");
        assert_eq!(brain["title"], "Brain");
        assert_eq!(brain["description"], "Thinks about things.");
        assert_eq!(brain["size"], BRAIN.len());
        assert!(is_timestamp(&brain["annotations"]["lastModified"]), "{kind}: {brain}");
        assert_eq!(rows[1]["size"], "no heading, ünïcode".len(), "{kind}: bytes");
        assert!(list["nextCursor"].is_null());
    }
}

#[tokio::test]
async fn two_uri_templates_are_listed() {
    let server = TestServer::new();
    for (kind, mut client) in every_kind(&server).await {
        let answer = client.ok("resources/templates/list", json!({})).await;
        let templates = answer["resourceTemplates"].as_array().unwrap();
        let uris: Vec<_> = templates.iter().map(|row| &row["uriTemplate"]).collect();
        assert_eq!(uris, ["iii://{id}", "iii://{id}/{function_id}"], "{kind}");
        for template in templates {
            assert!(template["name"].is_string() && template["description"].is_string());
        }
    }
}

#[tokio::test]
async fn the_index_a_skill_and_a_section_are_read() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "brain", BRAIN).await;
    worker.serve("brain::notes", |_| Some(Ok(json!("# Notes\n")))).await;
    worker.serve("brain::facts", |_| Some(Ok(json!({ "a": 1 })))).await;
    for (kind, mut client) in every_kind(&server).await {
        let index = client.read("iii://skills").await;
        assert!(index.contains("iii://brain") && index.contains("Thinks about things."), "{kind}");
        for (uri, mime_type, text) in [
            ("iii://brain", "text/markdown", BRAIN),
            ("iii://brain/brain::notes", "text/markdown", "# Notes\n"),
            ("iii://brain/brain::facts", "application/json", "{\n  \"a\": 1\n}"),
        ] {
            let answer = client.ok("resources/read", json!({ "uri": uri })).await;
            let contents = json!([{ "uri": uri, "mimeType": mime_type, "text": text }]);
            assert_eq!(answer["contents"], contents, "{kind} {uri}");
        }
    }
}

#[tokio::test]
async fn a_missing_resource_has_the_error_code_of_the_revision() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "brain", BRAIN).await;
    for (kind, mut client) in every_kind(&server).await {
        let not_found = if client.is_stateless() { -32602 } else { -32002 };
        for uri in ["iii://nobody", "skill://nobody/SKILL.md", "skill://brain/other.md"] {
            let refused = client.fails("resources/read", json!({ "uri": uri })).await;
            assert_eq!(refused.code, not_found, "{kind} {uri}: {refused:?}");
        }
        // An unregistered function is not the client's mistake.
        let section = json!({ "uri": "iii://brain/brain::nobody" });
        let refused = client.fails("resources/read", section).await;
        assert_eq!(refused.code, -32603, "{kind}");
        assert!(refused.message.contains("brain::nobody is not registered"), "{refused:?}");
    }
}

#[tokio::test]
async fn an_invalid_uri_is_invalid_params() {
    let server = TestServer::new();
    for (kind, mut client) in every_kind(&server).await {
        for uri in ["", "nonsense", "https://example.com/", "iii://", "iii://A B", "iii://a/b/c"] {
            let refused = client.fails("resources/read", json!({ "uri": uri })).await;
            assert_eq!(refused.code, -32602, "{kind} {uri:?}: {refused:?}");
            let code = refused.data["code"].as_str().unwrap();
            assert!(["invalid_uri", "invalid_input"].contains(&code), "{kind} {uri:?}: {code}");
        }
    }
}

#[tokio::test]
async fn reserved_functions_cannot_be_sections() {
    let server = TestServer::new();
    register(&server.worker().await, "brain", BRAIN).await;
    for (kind, mut client) in every_kind(&server).await {
        for function in [
            "engine::functions::list",
            "state::get",
            "skills::unregister",
            "prompts::register",
            "iii::x",
            "mcp::x",
        ] {
            let uri = format!("iii://brain/{function}");
            let refused = client.fails("resources/read", json!({ "uri": uri })).await;
            assert_eq!(refused.code, -32602, "{kind} {uri}: {refused:?}");
            assert_eq!(refused.data["code"], "reserved_function", "{kind} {uri}");
        }
    }
}

#[tokio::test]
async fn a_section_is_called_once_per_read() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "brain", BRAIN).await;
    let mut calls = worker.collect("brain::notes").await;
    let mut client = session(&server).await;
    for _ in 0..3 {
        client.ok("resources/read", json!({ "uri": "iii://brain/brain::notes" })).await;
        assert_eq!(skills_testkit::next(&mut calls).await, json!({}));
    }
    assert!(calls.try_recv().is_err());
}

#[tokio::test]
async fn a_large_body_arrives_complete() {
    let server = TestServer::new();
    let worker = server.worker().await;
    worker.identify().await;
    let body = format!("# Large\n\n{}\n", "ü".repeat(100_000));
    register(&worker, "large", &body).await;
    for (kind, mut client) in every_kind(&server).await {
        assert!(client.read("iii://large").await == body, "{kind}");
        let list = client.ok("resources/list", json!({})).await;
        assert_eq!(list["resources"][1]["size"], Value::from(body.len()), "{kind}");
    }
}

#[tokio::test]
async fn an_imported_skill_has_its_provenance() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let register = async |id: &str, source: Value| {
        let input = json!({ "id": id, "skill": "# A\n", "source": source });
        worker.call("skills::register", input).await.unwrap();
    };
    let commit = "0123456789012345678901234567890123456789";
    let location = "https://example.com/acme/skills.git";
    let source = json!({
        "kind": "git", "location": location, "path": "skills/a", "ref": "main", "commit": commit,
    });
    register("imported", source).await;
    register("local", json!({ "kind": "path", "location": "/home/ann/skills" })).await;
    for (kind, mut client) in every_kind(&server).await {
        let list = client.ok("resources/list", json!({})).await;
        let rows = list["resources"].as_array().unwrap();
        let listed = &rows[1]["_meta"]["imported"];
        let read = client.ok("resources/read", json!({ "uri": "iii://imported@1" })).await;
        let read = &read["contents"][0]["_meta"];
        assert_eq!(read["version"], 1, "{kind}");
        for imported in [listed, &read["imported"]] {
            assert_eq!(imported["location"], location, "{kind}: {imported}");
            assert_eq!(imported["commit"], commit, "{kind}");
            assert_eq!((&imported["path"], &imported["ref"]), (&json!("skills/a"), &json!("main")));
            assert_eq!(imported["digest"].as_str().map(str::len), Some(64), "{kind}: {imported}");
            assert!(is_timestamp(&imported["registered_at"]), "{kind}: {imported}");
        }
        // Paths of the machine are for its own users.
        assert!(rows[2]["_meta"].is_null(), "{kind}: {}", rows[2]);
        let local = client.ok("resources/read", json!({ "uri": "iii://local@1" })).await;
        assert!(local["contents"][0]["_meta"]["imported"].is_null(), "{kind}: {local}");
    }
}
