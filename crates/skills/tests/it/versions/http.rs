//! Versions over HTTP: routes under `/v1/skills/{id}`, addresses, access, the log of administrators, and discovery.

use std::fs;

use serde_json::{Value, json};
use skills_testkit::{Request, Response, ServerProcess, Worker};

use crate::support::{
    BINARY, TestServer,
    admin::{ADMIN_KEY, INTERNAL_SECRET, MASTER_KEY, json_request},
    keys,
};

fn body(number: u64) -> String {
    format!("---\nname: alpha\ndescription: Skill number {number}.\n---\n# Alpha {number}\n")
}

/// Registers versions 1 to `count` of `alpha`; in the private layer of a key's user if there is a key.
async fn publish(server: &TestServer, count: u64, key: Option<&str>) {
    let worker = Worker::connect(&server.process.url).await;
    for number in 1..=count {
        let mut data = json!({ "id": "alpha", "skill": body(number), "message": "m" });
        if let Some(key) = key {
            data["key"] = json!(key);
            data["tier"] = json!("private");
        }
        assert_eq!(worker.ok("skills::register", data).await["version"], number);
    }
}

/// Starts a server with administrators on which the label `stable` is protected.
fn with_protected_label() -> TestServer {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.yaml");
    fs::write(&config, "labels: {protected: [stable]}\n").unwrap();
    let mut command = ServerProcess::command(BINARY, &dir.path().join("data"));
    command.arg("--config").arg(config).env("ADMIN_KEY", ADMIN_KEY);
    command.env("INTERNAL_API_SECRET", INTERNAL_SECRET).env("MASTER_ENCRYPTION_KEY", MASTER_KEY);
    TestServer::from_parts(ServerProcess::spawn(&mut command), dir)
}

fn get(server: &TestServer, target: &str) -> Response {
    server.ask(None, "GET", target, &Value::Null)
}

/// Returns the heading of the skill that an address reads.
fn heading(server: &TestServer, address: &str) -> String {
    let answer = get(server, &format!("/v1/skills/{address}"));
    assert_eq!(answer.status, 200, "{address}: {}", answer.json());
    answer.json()["spec"]["display_name"].as_str().unwrap().to_owned()
}

fn assert_refused(answer: &Response, status: u16, code: &str) {
    let json = answer.json();
    assert_eq!((answer.status, json["code"].as_str()), (status, Some(code)), "{json}");
    assert_eq!(json["success"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_are_listed_compared_promoted_rolled_back_and_yanked() {
    let server = TestServer::with_admin();
    publish(&server, 5, None).await;
    let page = get(&server, "/v1/skills/alpha/versions?limit=2").json();
    assert_eq!(keys(&page), ["data", "next", "success"]);
    let (mut numbers, mut next) = (vec![], String::new());
    loop {
        let page = get(&server, &format!("/v1/skills/alpha/versions?limit=2{next}")).json();
        for row in page["data"].as_array().unwrap() {
            assert_eq!(
                keys(row),
                [
                    "by",
                    "bytes",
                    "created_at",
                    "digest",
                    "files",
                    "labels",
                    "message",
                    "served",
                    "version",
                ]
            );
            numbers.push(row["version"].as_u64().unwrap());
        }
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(numbers, [5, 4, 3, 2, 1]);
    let one = get(&server, "/v1/skills/alpha@2/versions").json();
    assert_eq!(one["data"][0]["version"], 2);

    let set = json!({ "version": 2, "expected": 0 });
    let set = server.administer("PUT", "/v1/skills/alpha/labels/stable", &set);
    assert_eq!(
        set,
        json!({
            "success": true, "id": "alpha", "version": 2, "changed": true, "served": 2,
        })
    );
    assert_eq!(heading(&server, "alpha"), "Alpha 2");
    assert_eq!(heading(&server, "alpha@latest"), "Alpha 5");
    assert_eq!(heading(&server, "alpha@stable"), "Alpha 2");
    let digest = one["data"][0]["digest"].as_str().unwrap();
    assert_eq!(heading(&server, &format!("alpha@sha256:{}", &digest[..12])), "Alpha 2");
    assert_eq!(heading(&server, "alpha%403?tier=official"), "Alpha 3");

    let rolled = json!({ "to": 1, "message": "why" });
    let rolled = server.administer("POST", "/v1/skills/alpha/rollback", &rolled);
    assert_eq!((&rolled["version"], &rolled["served"]), (&json!(6), &json!(2)), "{rolled}");
    let yank = server.administer(
        "POST",
        "/v1/skills/alpha/versions/2/yank",
        &json!({ "reason": "leaks a naïve key\n50 %" }),
    );
    assert_eq!((&yank["changed"], &yank["served"]), (&json!(true), &json!(1)));
    let yanked = get(&server, "/v1/skills/alpha@2");
    assert_eq!(yanked.json()["yanked"], "leaks a naïve key\n50 %");
    assert_eq!(
        yanked.header("x-skill-yanked").as_deref(),
        Some("leaks%20a%20na%C3%AFve%20key%0A50%20%25")
    );
    assert_eq!(get(&server, "/v1/skills/alpha").header("x-skill-yanked"), None);
    let removed = server.administer("DELETE", "/v1/skills/alpha/labels/stable", &Value::Null);
    assert_eq!(removed["served"], 6);

    let purge = json!({ "reason": "secret", "purge": true });
    server.administer("POST", "/v1/skills/alpha/versions/3/yank", &purge);
    assert_refused(&get(&server, "/v1/skills/alpha@3"), 410, "purged");
    assert_refused(&get(&server, "/v1/skills/alpha/diff?from=1&to=3"), 410, "purged");

    let diff = get(&server, "/v1/skills/alpha/diff?from=1&to=5");
    let short = get(&server, "/v1/skills/alpha@1/diff?to=5");
    assert_eq!(short.json(), diff.json(), "the earlier version may be in the address");
    let diff = diff.json();
    assert_eq!((&diff["success"], &diff["to"]["version"]), (&json!(true), &json!(5)), "{diff}");
    assert_eq!(diff["files"][0]["status"], "changed");
    assert!(diff["files"][0]["diff"].as_str().unwrap().contains("+# Alpha 5"), "{diff}");
    assert_eq!(diff["frontmatter"][0]["field"], "description");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entity_tags_are_those_of_the_version() {
    let server = TestServer::with_admin();
    publish(&server, 2, None).await;
    let tag =
        |address: &str| get(&server, &format!("/v1/skills/{address}")).header("etag").unwrap();
    let (first, second) = (tag("alpha@1"), tag("alpha@2"));
    assert_ne!(first, second);
    assert_eq!(tag("alpha"), second);
    let known = Request::get("/v1/skills/alpha@1").header("If-None-Match", &first);
    assert_eq!(known.send(&server.process.http).status, 304);
    let changed = Request::get("/v1/skills/alpha").header("If-None-Match", &first);
    assert_eq!(changed.send(&server.process.http).status, 200);
    server.administer("PUT", "/v1/skills/alpha/labels/stable", &json!({ "version": 1 }));
    assert_eq!(tag("alpha"), first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discovery_serves_the_promoted_version() {
    let server = TestServer::with_admin();
    publish(&server, 1, None).await;
    let index = || {
        let index = get(&server, "/.well-known/agent-skills/index.json");
        (index.header("etag").unwrap(), index.json()["skills"][0]["digest"].clone())
    };
    let document = || {
        let document = get(&server, "/.well-known/agent-skills/alpha/SKILL.md");
        (document.header("etag").unwrap(), String::from_utf8(document.body).unwrap())
    };
    let (first, document_1) = (index(), document());
    publish(&server, 1, None).await;
    let worker = Worker::connect(&server.process.url).await;
    worker.ok("skills::register", json!({ "id": "alpha", "skill": body(2) })).await;
    let second = index();
    assert_ne!(first, second);
    assert_eq!(document().1, body(2));
    server.administer("PUT", "/v1/skills/alpha/labels/stable", &json!({ "version": 1 }));
    assert_eq!((index().1, document()), (first.1, document_1));
    worker.ok("skills::register", json!({ "id": "alpha", "skill": body(3) })).await;
    assert_eq!(document().1, body(1), "a new version is not served until it is promoted");
    server.administer("PUT", "/v1/skills/alpha/labels/stable", &json!({ "version": 2 }));
    assert_eq!(index().1, second.1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_changes_private_entries_and_an_administrator_the_others() {
    let server = TestServer::with_admin();
    publish(&server, 2, None).await;
    let ((ann, _), (bob, _)) = (server.create_key("ann"), server.create_key("bob"));
    let requests = [
        ("PUT", "/v1/skills/alpha/labels/canary", json!({ "version": 1 })),
        ("POST", "/v1/skills/alpha/rollback", json!({ "to": 1 })),
        ("POST", "/v1/skills/alpha/versions/1/yank", json!({ "reason": "r" })),
        ("DELETE", "/v1/skills/alpha/labels/canary", Value::Null),
    ];
    for (method, target, body) in &requests {
        for (key, status) in [(None, 401), (Some(&*ann), 403), (Some(INTERNAL_SECRET), 403)] {
            assert_refused(&server.ask(key, method, target, body), status, "admin_needed");
        }
    }
    publish(&server, 2, Some(&ann)).await;
    for (method, target, body) in &requests {
        let answer = server.ask(Some(&ann), method, target, body);
        assert_eq!(answer.status, 200, "{method} {target}: {}", answer.json());
        assert_refused(&server.ask(Some(&bob), method, target, body), 403, "admin_needed");
    }
    // Those were changes of her copy.
    let public = get(&server, "/v1/skills/alpha/versions").json();
    assert_eq!(public["data"].as_array().unwrap().len(), 2);
    let hers = server.ask(Some(&ann), "GET", "/v1/skills/alpha/versions", &Value::Null).json();
    assert_eq!(hers["data"].as_array().unwrap().len(), 3);
    let official = "/v1/skills/alpha/versions?tier=official";
    let official = server.ask(Some(&ann), "GET", official, &Value::Null).json();
    assert_eq!(official["data"], public["data"]);
    for (method, target, body) in &requests {
        server.administer(method, target, body);
    }
    assert_refused(&get(&server, "/v1/skills/alpha/versions?tier=private"), 401, "key_needed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_protected_label_needs_an_administrator() {
    let server = with_protected_label();
    let (ann, _) = server.create_key("ann");
    publish(&server, 2, Some(&ann)).await;
    let version = json!({ "version": 1 });
    let stable = "/v1/skills/alpha/labels/stable";
    assert_refused(&server.ask(Some(&ann), "PUT", stable, &version), 403, "admin_needed");
    assert_refused(&server.ask(Some(&ann), "DELETE", stable, &Value::Null), 403, "admin_needed");
    let other = server.ask(Some(&ann), "PUT", "/v1/skills/alpha/labels/canary", &version);
    assert_eq!(other.status, 200);
    let hers = format!("{stable}?tier=private&uid=ann");
    assert_eq!(server.administer("PUT", &hers, &version)["served"], 1);
    for wrong in [format!("{stable}?tier=private"), format!("{stable}?uid=ann")] {
        assert_refused(&server.ask(Some(ADMIN_KEY), "PUT", &wrong, &version), 400, "invalid_query");
    }
    assert_refused(&server.ask(Some(&ann), "PUT", &hers, &version), 403, "admin_needed");
    // The bus keeps its trust.
    let worker = Worker::connect(&server.process.url).await;
    let label = json!({
        "id": "alpha", "label": "stable", "version": 2, "key": ann, "tier": "private",
    });
    assert_eq!(worker.ok("skills::label", label).await["served"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflicts_name_the_present_version() {
    let server = TestServer::with_admin();
    publish(&server, 3, None).await;
    let ask = |method: &str, target: &str, body: Value| {
        server.ask(Some(ADMIN_KEY), method, target, &body)
    };
    let label = "/v1/skills/alpha/labels/stable";
    assert_eq!(ask("PUT", label, json!({ "version": 2 })).status, 200);
    let moved = ask("PUT", label, json!({ "version": 3, "expected": 1 }));
    assert_refused(&moved, 409, "label_moved");
    assert_eq!(moved.json()["details"], json!({ "current": 2 }));
    assert_refused(&ask("DELETE", label, json!({ "expected": 1 })), 409, "label_moved");
    let rolled = json!({ "to": 1, "expected_version": 2 });
    let rolled = ask("POST", "/v1/skills/alpha/rollback", rolled);
    assert_refused(&rolled, 409, "version_conflict");
    assert_eq!(rolled.json()["details"], json!({ "current": 3 }));
    ask("POST", "/v1/skills/alpha/versions/1/yank", json!({ "reason": "r" }));
    assert_refused(&ask("PUT", label, json!({ "version": 1 })), 409, "yanked");
    assert_eq!(ask("DELETE", label, json!({ "expected": 2 })).status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_is_removed_with_and_without_a_body() {
    let server = TestServer::with_admin();
    publish(&server, 1, None).await;
    let label = "/v1/skills/alpha/labels/canary";
    let bodies = [None, Some("null"), Some("{}"), Some(r#"{"expected": null}"#)];
    for body in bodies.into_iter().chain([Some(r#"{"expected": 1}"#)]) {
        server.administer("PUT", label, &json!({ "version": 1 }));
        let mut request = json_request(Some(ADMIN_KEY), "DELETE", label, &Value::Null);
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body);
        }
        let answer = request.send(&server.process.http);
        assert_eq!(answer.status, 200, "{body:?}: {}", answer.json());
        assert_eq!(answer.json()["changed"], true, "{body:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_requests_are_refused_with_a_code() {
    let server = TestServer::with_admin();
    publish(&server, 2, None).await;
    for (target, status, code) in [
        ("/v1/skills/alpha@9", 404, "not_found"),
        ("/v1/skills/alpha@none", 404, "not_found"),
        ("/v1/skills/nothing@1", 404, "not_found"),
        ("/v1/skills/alpha@", 422, "invalid_input"),
        ("/v1/skills/alpha@0", 422, "invalid_input"),
        ("/v1/skills/alpha@sha256:12", 422, "invalid_input"),
        ("/v1/skills/nothing/versions", 404, "not_found"),
        ("/v1/skills/Not%20An%20Id/versions", 422, "invalid_input"),
        ("/v1/skills/alpha/versions?cursor=x", 400, "invalid_cursor"),
        ("/v1/skills/alpha/versions?limit=501", 400, "invalid_query"),
        ("/v1/skills/alpha/versions?limit=x", 400, "invalid_query"),
        ("/v1/skills/alpha/diff", 400, "invalid_query"),
        ("/v1/skills/alpha/diff?from=1&to=0", 400, "invalid_query"),
        ("/v1/skills/alpha/diff?from=1&to=9", 404, "not_found"),
        ("/v1/skills/alpha/diff?to=2", 422, "invalid_input"),
        ("/v1/skills/alpha@1/diff?from=2&to=2", 422, "invalid_input"),
    ] {
        assert_refused(&get(&server, target), status, code);
    }
    let names = get(&server, "/v1/skills/alpha@9").json()["error"].as_str().unwrap().to_owned();
    assert!(names.contains("it has 2, 1"), "{names}");
    let reason = |text: &str| json!({ "reason": text });
    for (method, target, body, status, code) in [
        ("PUT", "/v1/skills/alpha/labels/7", json!({ "version": 1 }), 400, "invalid_path"),
        ("PUT", "/v1/skills/alpha/labels/latest", json!({ "version": 1 }), 400, "invalid_path"),
        ("PUT", "/v1/skills/alpha/labels/a", json!({}), 422, "invalid_body"),
        ("PUT", "/v1/skills/alpha/labels/a", json!({ "version": null }), 422, "invalid_body"),
        ("PUT", "/v1/skills/alpha/labels/a", json!({ "version": 9 }), 404, "not_found"),
        ("DELETE", "/v1/skills/alpha/labels/a", Value::Null, 404, "not_found"),
        ("DELETE", "/v1/skills/alpha/labels/a", json!({ "expected": "x" }), 422, "invalid_body"),
        ("POST", "/v1/skills/alpha/rollback", json!({ "to": 9 }), 404, "not_found"),
        ("POST", "/v1/skills/alpha/versions/1/yank", json!({}), 422, "invalid_input"),
        ("POST", "/v1/skills/alpha/versions/0/yank", reason("r"), 400, "invalid_path"),
        ("POST", "/v1/skills/alpha/versions/1/yank", reason(&"x".repeat(1025)), 422, "too_large"),
    ] {
        assert_refused(&server.ask(Some(ADMIN_KEY), method, target, &body), status, code);
    }
    let yank = "/v1/skills/alpha/versions/1/yank";
    let answer = server.ask(Some(ADMIN_KEY), "POST", yank, &reason(&"x".repeat(1025))).json();
    assert!(answer["error"].as_str().unwrap().starts_with("reason too large"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_of_administrators_has_people_and_content_in_one_format() {
    let server = TestServer::with_admin();
    let (ann, _) = server.create_key("ann");
    publish(&server, 2, Some(&ann)).await;
    let label =
        server.ask(Some(&ann), "PUT", "/v1/skills/alpha/labels/stable", &json!({ "version": 1 }));
    assert_eq!(label.status, 200);
    server.ask(Some(&ann), "PUT", "/v1/secrets/TOKEN", &json!({ "value": "hush" }));
    server.ask(Some(&ann), "POST", "/v1/skills/alpha/versions/2/yank", &json!({ "reason": "r" }));
    let log = server.administer("GET", "/v1/admin/log?limit=100", &Value::Null);
    let rows = log["data"].as_array().unwrap();
    for row in rows {
        for field in ["at", "by", "action", "subject", "about", "number"] {
            assert!(!row[field].is_null(), "{field} of {row}");
        }
        assert_eq!(row["by"], row["actor"]);
    }
    let of = |action: &str| rows.iter().find(|row| row["action"] == action).expect(action);
    for action in ["key.create", "secret.set"] {
        assert_eq!(of(action)["about"], "people");
    }
    let label = of("skill.label");
    assert_eq!(
        keys(label),
        [
            "about", "action", "actor", "at", "by", "id", "label", "number", "owner", "served",
            "subject", "tier", "version",
        ]
    );
    assert_eq!((&label["subject"], &label["owner"]), (&json!("private/ann/alpha"), &json!("ann")));
    assert!(label["by"].as_str().unwrap().starts_with("key:"), "{label}");
    assert_eq!(
        (&of("skill.yank")["message"], &of("skill.put")["message"]),
        (&json!("r"), &json!("m"))
    );
    assert!(!log.to_string().contains("hush"));
}
