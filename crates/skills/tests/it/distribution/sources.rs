//! Sources of the configuration: imported by commands and by a server.

use std::fs;

use serde_json::{Value, json};
use skills_testkit::{Request, ServerProcess};

use super::{Project, commit, document};
use crate::support::{BINARY, TestServer, wait::eventually};

/// Writes the configuration of a project with sources.
fn configure(project: &Project, sources: &Value) {
    project.put("project/config.yaml", json!({ "sources": sources }).to_string());
}

fn state(project: &Project, name: &str) -> Value {
    let status = project.json(&["source", "status"]);
    let sources = status["sources"].as_array().unwrap().iter();
    sources.clone().find(|source| source["name"] == name).unwrap().clone()
}

fn ids(project: &Project) -> Vec<String> {
    let listed = project.json(&["list"]);
    let rows = listed["skills"].as_array().unwrap().iter();
    rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_source_is_kept_in_step_and_what_was_edited_stays() {
    let project = Project::new();
    let url = project.repository("host/acme/skills", &["pdf", "xlsx", "docx", "draft-a"]);
    let repository = project.path("host/acme/skills");
    configure(
        &project,
        &json!([{
            "name": "acme", "from": url, "tier": "market", "label": "imported",
            "exclude": ["draft-*"], "interval": "1h",
        }]),
    );
    assert_eq!(state(&project, "acme")["status"], "new");
    let first = project.ok(&["source", "sync"]);
    assert_eq!(first, "acme: added 3, changed 0, unchanged 0, removed 0, skipped 0\n");
    assert_eq!(ids(&project), ["docx", "pdf", "xlsx"]);
    let shown = project.json(&["show", "pdf"]);
    assert_eq!(shown["tier"], "market");
    let history = project.json(&["history", "pdf"]);
    let version = &history["data"][0];
    assert_eq!(version["message"], "source acme");
    assert_eq!(version["labels"], json!(["imported"]));
    assert_eq!(version["source"]["path"], "skills/pdf");
    assert_eq!(version["source"]["commit"].as_str().map(str::len), Some(40));
    let table = project.ok(&["history", "pdf"]);
    assert!(table.contains("SOURCE") && table.contains("acme/skills skills/pdf ("), "{table}");
    let again = project.ok(&["source", "sync", "acme"]);
    assert_eq!(again, "acme: added 0, changed 0, unchanged 3, removed 0, skipped 0\n");

    // One skill is edited here, one is removed here, and the source changes and drops others.
    project.put("own/pdf/SKILL.md", document("pdf", "Mine."));
    let own = project.path("own");
    project.ok(&["add", own.to_str().unwrap(), "--tier", "market", "--replace"]);
    project.ok(&["remove", "docx", "--yes"]);
    project.put("host/acme/skills/skills/pdf/SKILL.md", document("pdf", "Theirs."));
    fs::remove_dir_all(repository.join("skills/xlsx")).unwrap();
    commit(&repository, "second");
    let second = project.ok(&["source", "sync"]);
    assert_eq!(second, "acme: added 0, changed 0, unchanged 0, removed 1, skipped 2\n");
    assert_eq!(ids(&project), ["pdf"]);
    assert!(project.json(&["show", "pdf"])["skill"].as_str().unwrap().contains("Mine."));
    let skipped = &state(&project, "acme")["skipped"];
    assert!(skipped["pdf"].as_str().unwrap().contains("edited here"), "{skipped}");
    assert!(skipped["docx"].as_str().unwrap().contains("removed here"), "{skipped}");
    // What was edited here also stays when the source drops it.
    fs::remove_dir_all(repository.join("skills/pdf")).unwrap();
    commit(&repository, "third");
    project.ok(&["source", "sync"]);
    assert_eq!(ids(&project), ["pdf"]);
}

#[test]
fn a_failure_keeps_the_last_state_and_is_shown() {
    let project = Project::new();
    let url = project.repository("host/acme/skills", &["pdf"]);
    configure(&project, &json!([{ "name": "acme", "from": url, "tier": "official" }]));
    project.ok(&["source", "sync"]);
    let success = state(&project, "acme")["last_success"].clone();
    fs::rename(project.path("host"), project.path("gone")).unwrap();
    assert_eq!(project.error_code(&["source", "sync"]), "fetch_failed");
    let failed = state(&project, "acme");
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["last_success"], success, "the last good state is kept");
    assert!(failed["error"].as_str().unwrap().contains("cannot fetch"), "{failed}");
    assert_eq!(ids(&project), ["pdf"]);
    let status = project.json(&["status"]);
    assert_eq!(status["failed_sources"][0]["name"], "acme", "{status}");
    fs::rename(project.path("gone"), project.path("host")).unwrap();
    project.ok(&["source", "sync"]);
    assert_eq!(state(&project, "acme")["status"], "ok");
}

#[test]
fn unusable_sources_are_refused() {
    let project = Project::new();
    let good = || json!({ "name": "a", "from": "acme/skills", "tier": "market" });
    let with = |field: &str, value: Value| {
        let mut source = good();
        source[field] = value;
        json!([source])
    };
    for sources in [
        json!("acme/skills"),
        json!([{ "name": "a", "tier": "market" }]),
        json!([{ "name": "a", "from": "acme/skills" }]),
        json!([good(), good()]),
        with("tier", json!("private")),
        with("name", json!("../x")),
        with("ref", json!("--upload-pack=x")),
        with("interval", json!("soon")),
        with("interval", json!("0s")),
        with("include", json!(["["])),
        with("label", json!("latest")),
        with("other", json!(1)),
    ] {
        configure(&project, &sources);
        assert_eq!(
            project.error_code(&["--config", "config.yaml", "source", "list"]),
            "bad_setting",
            "{sources}"
        );
    }
    configure(&project, &with("from", json!("http://example.com/x.git")));
    assert_eq!(project.error_code(&["source", "sync"]), "bad_argument");
    assert_eq!(project.error_code(&["source", "sync", "absent"]), "not_found");
}

#[tokio::test]
async fn a_server_imports_its_sources_and_shows_failures() {
    let project = Project::new();
    let url = project.repository("host/acme/skills", &["pdf"]);
    configure(
        &project,
        &json!([
            { "name": "acme", "from": url, "tier": "official", "interval": "1s" },
            { "name": "gone", "from": "file:///nowhere", "tier": "market", "interval": "1s" },
        ]),
    );
    let mut command = ServerProcess::command(BINARY, &project.path("data"));
    command.current_dir(project.path("project")).env("RUST_LOG", "info");
    let server = ServerProcess::spawn(&mut command);
    let reads = |id: &str| Request::get(&format!("/v1/skills/{id}")).send(&server.http).status;
    eventually("the source is imported", async || reads("pdf") == 200).await;
    project.put("host/acme/skills/skills/xlsx/SKILL.md", document("xlsx", "New."));
    commit(&project.path("host/acme/skills"), "second");
    eventually("the next import has the new skill", async || reads("xlsx") == 200).await;
    eventually("the failure is logged", async || {
        server.stderr.contents().contains("source not imported")
    })
    .await;
    let page = Request::get("/ui/live").send(&server.http);
    let page = String::from_utf8_lossy(&page.body).into_owned();
    assert!(page.contains("Imported sources") && page.contains("cannot fetch"), "{page}");
    let status = project.json(&["status"]);
    assert_eq!(status["failed_sources"][0]["name"], "gone", "{status}");
}

#[tokio::test]
async fn two_servers_that_are_the_source_of_each_other_come_to_rest() {
    let (one, other) = (TestServer::new(), TestServer::new());
    let project = Project::new();
    for (server, id) in [(&one, "first"), (&other, "second")] {
        project.put(&format!("{id}/{id}/SKILL.md"), document(id, "Text."));
        let path = project.path(id);
        project.ok(&["--url", &server.process.url, "add", path.to_str().unwrap()]);
    }
    let sync = |to: &TestServer, from: &TestServer| {
        let source = json!([{ "name": "peer", "from": from.process.http, "tier": "official" }]);
        configure(&project, &source);
        let data = to.data_dir();
        project.json(&["--data-dir", data.to_str().unwrap(), "source", "sync"])["sources"][0]
            .clone()
    };
    assert_eq!(sync(&one, &other)["added"], 1);
    assert_eq!(sync(&other, &one)["added"], 1);
    for _ in 0..2 {
        for (to, from) in [(&one, &other), (&other, &one)] {
            let row = sync(to, from);
            assert_eq!(
                (&row["added"], &row["changed"], &row["removed"]),
                (&json!(0), &json!(0), &json!(0)),
                "{row}"
            );
        }
    }
    for server in [&one, &other] {
        for id in ["first", "second"] {
            let history = project.json(&["--url", &server.process.url, "history", id]);
            assert_eq!(history["data"].as_array().map(Vec::len), Some(1), "{history}");
        }
    }
    let has = |server: &TestServer, id: &str| {
        Request::get(&format!("/v1/skills/{id}")).send(&server.process.http).status == 200
    };
    // A skill that the other server drops stays where it comes from.
    project.ok(&["--url", &other.process.url, "remove", "first", "--yes"]);
    assert_eq!(sync(&one, &other)["removed"], 0);
    assert!(has(&one, "first"), "its own skill");
    assert_eq!(sync(&other, &one)["added"], 0, "it was removed there");
    // Where it comes from, it is not brought back by the other server, which then drops it too.
    project.ok(&["--url", &other.process.url, "remove", "second", "--yes"]);
    project.put("third/third/SKILL.md", document("third", "Text."));
    let third = project.path("third");
    project.ok(&["--url", &other.process.url, "add", third.to_str().unwrap()]);
    assert_eq!(sync(&other, &one)["added"], 0);
    assert!(!has(&other, "second"), "it is not brought back");
    assert_eq!(sync(&one, &other)["removed"], 1);
    // On a shared database the server hears of what the command stored a moment later.
    eventually("the server follows the command", async || {
        !has(&one, "second") && has(&one, "third")
    })
    .await;
}

#[test]
fn a_site_without_skills_counts_as_a_failure() {
    let server = TestServer::new();
    let project = Project::new();
    project.put("own/pdf/SKILL.md", document("pdf", "Text."));
    let own = project.path("own");
    project.ok(&["--url", &server.process.url, "add", own.to_str().unwrap()]);
    let from = format!("{}/official", server.process.http);
    configure(&project, &json!([{ "name": "peer", "from": from, "tier": "market" }]));
    project.ok(&["source", "sync"]);
    assert_eq!(ids(&project), ["pdf"]);
    project.ok(&["--url", &server.process.url, "remove", "pdf", "--yes"]);
    assert_eq!(project.error_code(&["source", "sync"]), "no_bundle");
    assert_eq!(state(&project, "peer")["status"], "failed");
    assert_eq!(ids(&project), ["pdf"], "the last good state is kept");
}
