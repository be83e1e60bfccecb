//! One title and one description of a skill on every surface.

use serde_json::{Value, json};
use skills_testkit::{Request, program, run};

use crate::support::{
    BINARY, TestServer,
    mcp_clients::{send, session},
    read, register,
};

/// First paragraph that must not be taken for a description.
const PARAGRAPH: &str = "Unless otherwise stated by the user, follow these rules.";

/// Title and description of a skill on a surface.
type Shown = (String, String);

fn shown(row: &Value, title: &str) -> Shown {
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    (text(title), text("description"))
}

fn find<'a>(rows: &'a Value, key: &str, id: &str) -> &'a Value {
    let rows = rows.as_array().unwrap();
    rows.iter().find(|row| row[key] == id).unwrap_or_else(|| panic!("{id} in {rows:?}"))
}

/// Lists a skill on every surface that has descriptions in full.
async fn full(server: &TestServer, id: &str) -> Vec<(&'static str, Shown)> {
    let command = |arguments: &[&str]| -> Value {
        let output =
            run(program(BINARY).args(arguments).args(["--json", "--url", &server.process.url]));
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    };
    let mut client = session(server).await;
    let resources = client.ok("resources/list", json!({})).await;
    let uri = format!("iii://{id}");
    let skills = send(&server.process.http, &Request::get("/v1/skills")).await.json();
    let detail =
        send(&server.process.http, &Request::get(&format!("/v1/skills/{id}"))).await.json();
    let resolved = server.worker().await.ok("skills::resolve", json!({ "id": id })).await;
    vec![
        ("list", shown(find(&command(&["list"])["skills"], "id", id), "title")),
        ("search", shown(find(&command(&["search", id])["results"], "id", id), "title")),
        ("show", shown(&command(&["show", id]), "title")),
        ("resources/list", shown(find(&resources["resources"], "uri", &uri), "title")),
        ("/v1/skills", shown(find(&skills["data"], "id", id), "name")),
        ("/v1/skills/ID", shown(&detail["spec"], "display_name")),
        ("skills::resolve", shown(&resolved, "title")),
    ]
}

#[tokio::test]
async fn every_surface_shows_the_description_of_the_frontmatter() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let long = format!("Read and write spreadsheets. {}", "Use for tables. ".repeat(20));
    let long = long.trim_end();
    // Folded over lines, as many real skills have it.
    let folded = long.replace(" Use", "\n  Use");
    let named = format!("---\nname: xlsx\ndescription: >\n  {folded}\n---\n{PARAGRAPH}\n");
    let plain = format!("# Plain\n\n{long}\n");
    for (id, body, title) in [("xlsx", &named, "xlsx"), ("plain", &plain, "Plain")] {
        register(&worker, id, body).await;
        for (surface, found) in full(&server, id).await {
            assert_eq!(found, (title.to_owned(), long.to_owned()), "{surface}");
        }
        // The published contract has the first 140 characters.
        let short = format!("{}...", long[..140].trim_end());
        let listed = worker.ok("skills::resources-list", json!({})).await;
        let row = find(&listed["resources"], "uri", &format!("iii://{id}")).clone();
        assert_eq!(shown(&row, "title"), (title.to_owned(), short.clone()), "{id:?}");
        let index = read(&worker, "iii://skills").await;
        assert!(index.contains(&format!("- [{title}](iii://{id}): {short}\n")), "{index}");
    }
    let mut client = session(&server).await;
    let found = client.call("search_skills", json!({ "query": "spreadsheets" })).await;
    let text = found["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(&format!("- iii://xlsx: {long}\n")), "{text}");
    assert!(!text.contains("Unless"), "{text}");
}

#[tokio::test]
async fn a_title_is_the_heading_or_else_the_name_or_else_the_id() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for (id, body, title) in [
        ("a", "---\nname: named\ndescription: D.\n---\n# Heading\n", "Heading"),
        ("b", "---\nname: named\ndescription: D.\n---\nText.\n", "named"),
        ("c", "---\ndescription: D.\n---\nText.\n", "c"),
    ] {
        register(&worker, id, body).await;
        for (surface, found) in full(&server, id).await {
            assert_eq!(found, (title.to_owned(), "D.".to_owned()), "{id} {surface}");
        }
    }
}

#[tokio::test]
async fn the_server_warns_about_a_description_that_is_shown_truncated() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let document =
        |characters| format!("---\nname: a\ndescription: {}\n---\n# A\n", "é".repeat(characters));
    register(&worker, "fits", &document(1024)).await;
    register(&worker, "plain", &format!("# P\n\n{}\n", "p".repeat(2000))).await;
    register(&worker, "long", &document(1025)).await;
    let (code, _, log) = server.process.stop();
    assert_eq!(code, Some(0), "{log}");
    let lines = log.lines().filter(|line| line.contains("description too long"));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].contains("long") && lines[0].contains("1025"), "{log}");
}

/// A description that is too long is a reason for a warning, never for a missing skill.
#[tokio::test]
async fn a_skill_whose_description_is_too_long_is_on_every_surface() {
    let server = TestServer::new();
    let folder = server.dir().join("long");
    std::fs::create_dir(&folder).unwrap();
    let document = format!("---\nname: long\ndescription: {}\n---\n# L\n", "d".repeat(9000));
    std::fs::write(folder.join("SKILL.md"), document).unwrap();
    let mut add = program(BINARY);
    add.args(["add", folder.to_str().unwrap(), "--url", &server.process.url]);
    let output = run(&mut add);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(said.contains("at most 1024 are allowed"), "{said}");
    let truncated = format!("{}...", "d".repeat(1021));
    for (surface, found) in full(&server, "long").await {
        assert_eq!(found, ("L".to_owned(), truncated.clone()), "{surface}");
    }
    let index = "/.well-known/agent-skills/index.json";
    let index = send(&server.process.http, &Request::get(index)).await.json();
    assert_eq!(find(&index["skills"], "name", "long")["description"], truncated);
    let available = server.worker().await.ok("skills::available", json!({})).await;
    assert_eq!(find(&available["skills"], "id", "long")["description"], truncated);
}
