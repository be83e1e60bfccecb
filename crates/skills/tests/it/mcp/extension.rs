//! Skills over MCP: `skills/list`, `skills/get`, `resources/directory/read`, and `skill://` URIs.

use serde_json::{Value, json};
use skills_core::Digest;

use crate::support::{
    TestServer,
    mcp_clients::{Client, every_kind, stateless},
    register,
};

/// Body that is a valid Agent Skill.
const OWN: &str = "---\nname: own\ndescription: Has frontmatter.\nlicense: MIT\nx-more: [1, {a: b}]\n---\n# Own\n";
const OWN_DIGEST: &str = "sha256:f6e124a3f0710ff745b751e9cd46cec6d8f2e42f067a5cad618bf858bd2252fa";

async fn skill(client: &mut Client, uri: &str) -> Value {
    client.ok("skills/get", json!({ "uri": uri })).await["skill"].take()
}

#[tokio::test]
async fn frontmatter_is_returned_unchanged() {
    let server = TestServer::new();
    register(&server.worker().await, "own", OWN).await;
    for (kind, mut client) in every_kind(&server).await {
        let list = client.ok("skills/list", json!({})).await;
        let expected = json!({
            "uri": "skill://own/SKILL.md",
            "frontmatter": {
                "name": "own", "description": "Has frontmatter.", "license": "MIT",
                "x-more": [1, { "a": "b" }],
            },
            "resources": [
                { "uri": "skill://own/SKILL.md", "digest": OWN_DIGEST, "size": OWN.len() },
            ],
        });
        assert_eq!(list["skills"], json!([expected]), "{kind}");
        assert_eq!(skill(&mut client, "skill://own/SKILL.md").await, expected, "{kind}");
        assert_eq!(client.read("skill://own/SKILL.md").await, OWN, "{kind}");
    }
}

#[tokio::test]
async fn missing_frontmatter_is_built_from_title_and_description() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "plain", "# Plain: \"thing\"\n\nDoes: it \"well\".\n").await;
    register(&worker, "titled", "# Only a title\n").await;
    register(&worker, "half", "---\nname: half\n---\n# Half\n\nNo description there.\n").await;
    for (kind, mut client) in every_kind(&server).await {
        for (id, description, body) in [
            ("plain", "Does: it \"well\".", "# Plain: \"thing\"\n\nDoes: it \"well\".\n"),
            ("titled", "Only a title", "# Only a title\n"),
            ("half", "No description there.", "# Half\n\nNo description there.\n"),
        ] {
            let uri = format!("skill://{id}/SKILL.md");
            let entry = skill(&mut client, &uri).await;
            let frontmatter = json!({ "name": id, "description": description });
            assert_eq!(entry["frontmatter"], frontmatter, "{kind} {id}");
            let text = client.read(&uri).await;
            // The content begins with the reported frontmatter.
            let yaml = text.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap().0;
            let parsed: Value = serde_saphyr::from_str(yaml).unwrap();
            assert_eq!(parsed, frontmatter, "{kind} {id}");
            assert!(text.ends_with(body), "{kind} {id}: {text}");
        }
        let bare = client.read("iii://plain").await;
        assert!(bare.starts_with("# Plain"), "{kind}: iii:// is what was registered");
    }
}

#[tokio::test]
async fn an_id_that_is_no_valid_name_gets_one_appended() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "a_b", "# A B\n").await;
    register(&worker, "c", "---\nname: other\ndescription: Named.\n---\n# C\n").await;
    let mut client = stateless(&server);
    let list = client.ok("skills/list", json!({})).await;
    let uris: Vec<_> = list["skills"].as_array().unwrap().iter().map(|row| &row["uri"]).collect();
    assert_eq!(uris, ["skill://a_b/a-b/SKILL.md", "skill://c/other/SKILL.md"]);
    for (uri, name) in [("skill://a_b/a-b/SKILL.md", "a-b"), ("skill://c/other/SKILL.md", "other")]
    {
        let entry = skill(&mut client, uri).await;
        assert_eq!(entry["frontmatter"]["name"], name, "{uri}");
        assert!(client.read(uri).await.contains("name: "), "{uri}");
    }
    for wrong in ["skill://a_b/SKILL.md", "skill://a_b/b/SKILL.md", "skill://c/SKILL.md"] {
        assert_eq!(
            client.fails("skills/get", json!({ "uri": wrong })).await.code,
            -32602,
            "{wrong}"
        );
        let refused = client.fails("resources/read", json!({ "uri": wrong })).await;
        assert_eq!(refused.code, -32602, "{wrong}");
    }
}

#[tokio::test]
async fn digest_and_size_match_the_read_content() {
    let server = TestServer::new();
    let worker = server.worker().await;
    register(&worker, "own", OWN).await;
    register(&worker, "plain", "# Plain\n\nGrüße.\n").await;
    register(&worker, "a_b", "text").await;
    for (kind, mut client) in every_kind(&server).await {
        let entries = client.all("skills/list", "skills").await;
        assert_eq!(entries.len(), 3, "{kind}");
        for entry in entries {
            let file = &entry["resources"][0];
            assert_eq!(entry["resources"].as_array().unwrap().len(), 1);
            assert_eq!(file["uri"], entry["uri"]);
            let text = client.read(file["uri"].as_str().unwrap()).await;
            assert_eq!(file["size"], text.len(), "{kind} {entry}");
            let digest = format!("sha256:{}", Digest::of(text.as_bytes()));
            assert_eq!(file["digest"], digest, "{kind} {entry}");
        }
    }
}

#[tokio::test]
async fn a_new_body_has_a_new_digest() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut client = stateless(&server);
    let mut digests = Vec::new();
    for body in ["# One\n", "# Two\n"] {
        register(&worker, "a", body).await;
        let entry = skill(&mut client, "skill://a/SKILL.md").await;
        assert_eq!(
            entry["frontmatter"]["description"],
            body.trim_matches(['#', ' ', '\n']),
            "{body}"
        );
        digests.push(entry["resources"][0]["digest"].clone());
    }
    assert_ne!(digests[0], digests[1]);
    worker.ok("skills::unregister", json!({ "id": "a" })).await;
    let gone = client.fails("skills/get", json!({ "uri": "skill://a/SKILL.md" })).await;
    assert_eq!(gone.code, -32602);
}

#[tokio::test]
async fn a_skill_with_sections_is_dynamic() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let body =
        "# Brain\n\nSee [b](iii://brain/brain::b), iii://brain/brain::a and iii://other/o::p.\n";
    register(&worker, "brain", body).await;
    worker.serve("brain::a", |_| Some(Ok(json!("# A\n")))).await;
    for (kind, mut client) in every_kind(&server).await {
        let entry = skill(&mut client, "skill://brain/SKILL.md").await;
        assert_eq!(entry["resources"], "dynamic", "{kind}");
        let read = |uri: &str| json!({ "uri": uri });
        let top = client.ok("resources/directory/read", read("skill://brain")).await;
        let rows = top["resources"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "{kind}: {top}");
        assert_eq!(rows[0]["uri"], "skill://brain/SKILL.md");
        assert_eq!(
            (&rows[0]["mimeType"], &rows[0]["name"]),
            (&json!("text/markdown"), &json!("brain"))
        );
        assert_eq!(rows[1]["uri"], "skill://brain/sections");
        assert_eq!(rows[1]["mimeType"], "inode/directory");
        let inner = client.ok("resources/directory/read", read("skill://brain/sections")).await;
        let uris: Vec<_> =
            inner["resources"].as_array().unwrap().iter().map(|row| &row["uri"]).collect();
        assert_eq!(
            uris,
            ["skill://brain/sections/brain::a", "skill://brain/sections/brain::b"],
            "{kind}"
        );
        assert_eq!(client.read("skill://brain/sections/brain::a").await, "# A\n", "{kind}");
        for wrong in [
            "skill://brain/SKILL.md",
            "skill://brain/",
            "skill://brain/nothing",
            "skill://brain/sections/brain::a",
            "skill://nobody",
            "iii://brain",
            "nonsense",
        ] {
            let code = client.fails("resources/directory/read", read(wrong)).await.code;
            assert_eq!(code, -32602, "{kind} {wrong}");
        }
        for wrong in ["skill://brain/sections/o::p", "skill://brain/sections/state::get"] {
            let refused = client.fails("resources/read", read(wrong)).await;
            assert!([-32602, -32002].contains(&refused.code), "{kind} {wrong}: {refused:?}");
        }
    }
}

#[tokio::test]
async fn unknown_skills_are_invalid_params_on_every_revision() {
    let server = TestServer::new();
    for (kind, mut client) in every_kind(&server).await {
        for uri in ["skill://nobody/SKILL.md", "skill://", "skill:///SKILL.md", "iii://a", ""] {
            let refused = client.fails("skills/get", json!({ "uri": uri })).await;
            assert_eq!(refused.code, -32602, "{kind} {uri}: {refused:?}");
        }
    }
}
