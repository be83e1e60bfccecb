//! Collections on the command line, over HTTP and on the bus.

use serde_json::{Value, json};
use skills_testkit::{Request, Response};

use super::{Project, document};
use crate::support::TestServer;

#[test]
fn a_collection_is_created_changed_and_deleted() {
    let project = Project::new();
    project.put("own/pdf/SKILL.md", document("pdf", "Text."));
    project.put("own/xlsx/SKILL.md", document("xlsx", "Text."));
    project.ok(&["add", project.path("own").to_str().unwrap()]);
    let created = project.run(&[
        "collection",
        "create",
        "office",
        "pdf",
        "absent",
        "--title",
        "Office",
        "--description",
        "For documents.",
    ]);
    assert_eq!(created.code, Some(0), "{}", created.stderr);
    assert_eq!(created.stdout, "stored office (2 skills)\n");
    assert!(created.stderr.contains("absent is in the collection"), "{}", created.stderr);
    project.ok(&["collection", "add", "office", "xlsx@1"]);
    project.ok(&["collection", "remove", "office", "absent"]);
    let shown = project.json(&["collection", "show", "office"]);
    assert_eq!(shown["title"], "Office");
    assert_eq!(shown["skills"], json!(["pdf", "xlsx@1"]));
    assert_eq!((&shown["version"], &shown["tier"]), (&json!(3), &json!("official")));
    let listed = project.json(&["collection", "list"]);
    assert_eq!(listed["collections"][0]["name"], "office");
    // Versioned and logged like everything that is stored.
    let log = project.json(&["log"]);
    let puts = log["data"].as_array().unwrap().iter();
    let puts = puts.filter(|row| row["action"] == "collection.put");
    assert_eq!(puts.count(), 3, "{log}");
    versions_are_read_and_restored(&|arguments| project.json(arguments));
    project.ok(&["collection", "delete", "office"]);
    assert_eq!(project.error_code(&["collection", "show", "office"]), "not_found");
    assert_eq!(project.error_code(&["collection", "delete", "office"]), "not_found");
    for arguments in [
        &["collection", "create", "Office"][..],
        &["collection", "create", "office", "../x"],
        &["collection", "create", "office", "pdf@"],
        &["collection", "create", "office", "--title", " "],
    ] {
        assert_eq!(project.error_code(arguments), "invalid_input", "{arguments:?}");
    }
    assert_eq!(project.error_code(&["collection", "add", "office", "pdf"]), "not_found");
}

/// Checks the commands about versions on a collection with three versions.
fn versions_are_read_and_restored(run: &dyn Fn(&[&str]) -> Value) {
    let history = run(&["collection", "history", "office"]);
    let numbers: Vec<_> =
        history["data"].as_array().unwrap().iter().map(|it| &it["version"]).collect();
    assert_eq!(numbers, [3, 2, 1], "{history}");
    let diff = run(&["collection", "diff", "office@1", "office@3"]);
    assert!(diff.to_string().contains("xlsx@1"), "{diff}");
    run(&["collection", "label", "office@2", "stable"]);
    let shown = run(&["collection", "show", "office"]);
    assert_eq!(
        shown["skills"],
        json!(["pdf", "absent", "xlsx@1"]),
        "the labelled version is served"
    );
    run(&["collection", "label", "office", "stable", "--remove"]);
    let restored = run(&["collection", "rollback", "office@1", "-m", "Back."]);
    assert_eq!(restored["version"], 4, "{restored}");
    let shown = run(&["collection", "show", "office"]);
    assert_eq!(shown["skills"], json!(["pdf", "absent"]));
    run(&["collection", "yank", "office@4", "--reason", "Wrong."]);
    let shown = run(&["collection", "show", "office"]);
    assert_eq!((&shown["version"], &shown["skills"]), (&json!(3), &json!(["pdf", "xlsx@1"])));
}

#[test]
fn versions_of_a_collection_are_read_through_a_server() {
    let server = TestServer::new();
    let project = Project::new();
    let run = |arguments: &[&str]| {
        project.json(&[&["--url", server.process.url.as_str()], arguments].concat())
    };
    run(&["collection", "create", "office", "pdf", "absent"]);
    run(&["collection", "add", "office", "xlsx@1"]);
    run(&["collection", "remove", "office", "absent"]);
    versions_are_read_and_restored(&run);
}

fn body(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

#[tokio::test]
async fn collections_have_the_views_of_their_callers() {
    let project = Project::new();
    let server = TestServer::new();
    let worker = server.worker().await;
    let put = json!({ "name": "office", "title": "Office", "skills": ["pdf"] });
    let stored = worker.ok("collections::put", put.clone()).await;
    assert_eq!((&stored["version"], &stored["created"]), (&json!(1), &json!(true)));
    let repeated = worker.ok("collections::put", put).await;
    assert_eq!(repeated["created"], false);
    let listed = worker.ok("collections::list", json!({})).await;
    assert_eq!(listed["collections"][0]["skills"], json!(["pdf"]));
    let http = &server.process.http;
    let read = Request::get("/v1/collections/office").send(http);
    assert_eq!((read.status, &body(&read)["title"]), (200, &json!("Office")));

    // A key has private collections, which nobody else sees.
    let data = server.data_dir();
    let key =
        project.json(&["--data-dir", data.to_str().unwrap(), "key", "create", "--uid", "ann"]);
    let key = key["key"].as_str().unwrap();
    let request = |method: &str, path: &str, value: Option<&Value>| {
        let request = Request::new(method, path).header("Authorization", &format!("Bearer {key}"));
        match value {
            Some(value) => request
                .header("Content-Type", "application/json")
                .body(value.to_string())
                .send(http),
            None => request.send(http),
        }
    };
    let own = json!({ "title": "Mine", "skills": ["pdf@stable"] });
    let stored = request("PUT", "/v1/collections/mine", Some(&own));
    assert_eq!((stored.status, &body(&stored)["tier"]), (200, &json!("private")));
    assert_eq!(request("GET", "/v1/collections/mine", None).status, 200);
    assert_eq!(Request::get("/v1/collections/mine").send(http).status, 404);
    let names = |response: &Response| body(response)["data"].as_array().unwrap().len();
    assert_eq!(names(&request("GET", "/v1/collections", None)), 2);
    assert_eq!(names(&Request::get("/v1/collections").send(http)), 1);
    let log = worker.ok("skills::log", json!({})).await;
    assert!(!log.to_string().contains("mine"), "{log}");

    // A key changes no other tier, and an anonymous caller changes nothing.
    let refused = request("PUT", "/v1/collections/office?tier=official", Some(&own));
    assert_eq!(refused.status, 403);
    let anonymous = Request::new("DELETE", "/v1/collections/office").send(http);
    assert_eq!(anonymous.status, 401);
    let broken = json!({ "title": "", "skills": [] });
    assert_eq!(request("PUT", "/v1/collections/mine", Some(&broken)).status, 422);
    let stale = json!({ "title": "Mine", "expected_version": 7 });
    assert_eq!(request("PUT", "/v1/collections/mine", Some(&stale)).status, 409);
    let removed = request("DELETE", "/v1/collections/mine", None);
    assert_eq!(body(&removed)["removed"], true);
    let removed = worker.ok("collections::remove", json!({ "name": "office" })).await;
    assert_eq!(removed["removed"], true);
}

#[tokio::test]
async fn collections_survive_a_restart() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let put = json!({ "name": "office", "title": "Office", "skills": ["pdf", "xlsx"] });
    worker.ok("collections::put", put).await;
    let server = server.crash();
    let worker = server.worker().await;
    let shown = worker.ok("collections::get", json!({ "name": "office" })).await;
    assert_eq!(shown["skills"], json!(["pdf", "xlsx"]));
    let missing = worker.fails("collections::get", json!({ "name": "absent" })).await;
    assert_eq!(missing.code, "not_found");
}
