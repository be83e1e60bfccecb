//! Versions on the bus: `skills::history`, `diff`, `label`, `rollback`, `yank`, `log` and `gc`, and addresses.

use std::fs;

use serde_json::{Value, json};
use skills_testkit::{ServerProcess, Worker, next};

use crate::support::{BINARY, TestServer, keys, read, read_error, wait::eventually};

/// Root document of a version, with the author's own version in its frontmatter.
fn body(number: u64) -> String {
    format!(
        "---\nname: alpha\ndescription: Skill number {number}.\nmetadata:\n  version: 1.{number}.0\n---\n# Alpha {number}\n"
    )
}

/// Registers a version of `alpha` with a file and a message.
async fn publish(worker: &Worker, number: u64) -> Value {
    let data = json!({
        "id": "alpha", "skill": body(number), "files": { "notes.txt": format!("note {number}\n") },
        "message": format!("change {number}"),
    });
    worker.ok("skills::register", data).await
}

async fn publish_five(worker: &Worker) {
    for number in 1..=5 {
        let answer = publish(worker, number).await;
        assert_eq!(answer["version"], number, "{answer}");
        assert_eq!((&answer["created"], &answer["served"]), (&json!(true), &json!(number)));
    }
}

/// Returns the versions of an entry, newest first.
async fn history(worker: &Worker, function: &str, entry: Value) -> Vec<Value> {
    worker.ok(function, entry).await["data"].as_array().unwrap().clone()
}

async fn label(worker: &Worker, name: &str, version: impl Into<Value>) -> Value {
    let data = json!({ "id": "alpha", "label": name, "version": version.into() });
    worker.ok("skills::label", data).await
}

async fn yank(worker: &Worker, version: u64, more: Value) -> Value {
    let mut data = json!({ "id": "alpha", "version": version, "reason": "broken" });
    data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    worker.ok("skills::yank", data).await
}

async fn fails_with(worker: &Worker, function: &str, data: Value, code: &str) -> String {
    let failure = worker.fails(function, data.clone()).await;
    assert_eq!(failure.code, code, "{function} {data}: {}", failure.message);
    failure.message
}

async fn reads(worker: &Worker, uri: &str, number: u64) {
    assert_eq!(read(worker, uri).await, body(number), "{uri}");
}

#[tokio::test]
async fn a_version_is_read_by_every_form_of_its_address() {
    let server = TestServer::new();
    let worker = server.worker().await;
    publish_five(&worker).await;
    let versions = history(&worker, "skills::history", json!({ "id": "alpha" })).await;
    let digest = versions[2]["digest"].as_str().unwrap();
    label(&worker, "canary", 3).await;
    for selector in ["3", "canary", "1.3.0", &format!("sha256:{}", &digest[..12])] {
        for address in [format!("alpha@{selector}"), format!("alpha%40{selector}")] {
            reads(&worker, &format!("iii://{address}"), 3).await;
            reads(&worker, &format!("skill://official/{address}"), 3).await;
            assert_eq!(read(&worker, &format!("iii://{address}/notes.txt")).await, "note 3\n");
            let found = worker.ok("skills::resolve", json!({ "id": address })).await;
            assert_eq!((&found["id"], &found["version"]), (&json!("alpha"), &json!(3)), "{found}");
            assert_eq!(found["uri"], "iii://alpha@3");
            let page = worker.ok("skills::catalog", json!({ "ids": [address] })).await;
            assert_eq!(page["skills"][0]["version"], 3, "{page}");
            assert_eq!(page["skills"].as_array().unwrap().len(), 1);
            let files = worker.ok("skills::files", json!({ "id": address })).await;
            assert_eq!(files["files"][1]["size"], "note 3\n".len());
            let one = history(&worker, "skills::history", json!({ "id": address })).await;
            assert_eq!(
                one,
                [versions[2].clone()].map(|mut version| {
                    version["labels"] = json!(["canary"]);
                    version
                })
            );
        }
    }
    let contents = worker.ok("skills::resources-read", json!({ "uri": "iii://alpha@3" })).await;
    assert_eq!(keys(&contents["contents"][0]), ["mimeType", "text", "uri", "version"]);
    let contents = worker.ok("skills::resources-read", json!({ "uri": "iii://alpha" })).await;
    assert_eq!(keys(&contents["contents"][0]), ["mimeType", "text", "uri"], "as published");
    reads(&worker, "iii://alpha", 5).await;
    reads(&worker, "iii://alpha@latest", 5).await;
    assert_eq!(worker.ok("skills::resolve", json!({ "id": "alpha" })).await["version"], 5);
}

#[tokio::test]
async fn versions_list_newest_first_with_their_authors() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let identity = json!({ "name": "brain", "runtime": "rust", "version": "0.25.0" });
    worker.ok("engine::workers::register", identity).await;
    publish_five(&worker).await;
    let unchanged = publish(&worker, 5).await;
    assert_eq!((&unchanged["version"], &unchanged["created"]), (&json!(5), &json!(false)));
    let versions = history(&worker, "skills::history", json!({ "id": "alpha" })).await;
    let numbers: Vec<u64> = versions.iter().map(|row| row["version"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [5, 4, 3, 2, 1]);
    assert_eq!(
        keys(&versions[0]),
        [
            "author_version",
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
    assert_eq!(versions[1]["author_version"], "1.4.0");
    assert_eq!(versions[1]["message"], "change 4");
    assert_eq!(versions[1]["files"], 2);
    assert_eq!(versions[1]["bytes"], body(4).len() + "note 4\n".len());
    assert!(versions[1]["by"].as_str().unwrap().starts_with("worker:brain/"), "{}", versions[1]);
    assert_eq!((&versions[0]["served"], &versions[1]["served"]), (&json!(true), &json!(false)));
    let mut paged = vec![];
    let mut request = json!({ "id": "alpha", "limit": 2 });
    loop {
        let page = worker.ok("skills::history", request.clone()).await;
        paged.extend(page["data"].as_array().unwrap().clone());
        match page.get("next") {
            Some(next) => request["after"] = next.clone(),
            None => break,
        }
    }
    assert_eq!(paged, versions);
    // A removed skill keeps its history, and counting goes on.
    worker.ok("skills::unregister", json!({ "id": "alpha" })).await;
    assert_eq!(read_error(&worker, "iii://alpha").await.code, "not_found");
    reads(&worker, "iii://alpha@2", 2).await;
    assert_eq!(publish(&worker, 7).await["version"], 6);
}

#[tokio::test]
async fn a_registration_without_a_message_is_answered_as_published() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let answer = worker.ok("skills::register", json!({ "id": "a", "skill": "# A" })).await;
    assert_eq!(keys(&answer), ["id", "registered_at"]);
    let message = json!({ "id": "a", "skill": "# A", "message": "" });
    let answer = worker.ok("skills::register", message).await;
    assert_eq!(keys(&answer), ["created", "id", "registered_at", "served", "version"]);
    assert_eq!(answer["created"], false);
    let conflict = json!({ "id": "a", "skill": "# B", "expected_version": 0 });
    let message = fails_with(&worker, "skills::register", conflict, "version_conflict").await;
    assert!(message.contains("newest version of a is 1, not 0"), "{message}");
}

#[tokio::test]
async fn promotion_rollback_and_yanks_decide_which_version_is_served() {
    let server = TestServer::new();
    let worker = server.worker().await;
    publish_five(&worker).await;
    assert_eq!(label(&worker, "stable", 2).await["served"], 2);
    reads(&worker, "iii://alpha", 2).await;
    reads(&worker, "iii://alpha@latest", 5).await;
    let rolled = json!({ "id": "alpha", "to": 1, "message": "the others break" });
    let rolled = worker.ok("skills::rollback", rolled).await;
    assert_eq!((&rolled["version"], &rolled["served"]), (&json!(6), &json!(2)), "{rolled}");
    reads(&worker, "iii://alpha@6", 1).await;
    let newest = history(&worker, "skills::history", json!({ "id": "alpha@6" })).await;
    let message = newest[0]["message"].as_str().unwrap();
    assert!(message.contains("rollback to 1") && message.contains("the others break"), "{message}");

    // A promoted version that is yanked is replaced by the newest older one.
    assert_eq!(label(&worker, "stable", 4).await["served"], 4);
    let state = yank(&worker, 4, json!({})).await;
    assert_eq!(state, json!({ "id": "alpha", "version": 4, "changed": true, "served": 3 }));
    reads(&worker, "iii://alpha", 3).await;
    reads(&worker, "iii://alpha@stable", 3).await;
    reads(&worker, "iii://alpha@4", 4).await;
    let yanked = worker.ok("skills::resources-read", json!({ "uri": "iii://alpha@4" })).await;
    assert_eq!(yanked["contents"][0]["yanked"], "broken");
    let found = worker.ok("skills::resolve", json!({ "id": "alpha@4" })).await;
    assert_eq!(found["yanked"], "broken");
    for (function, data) in [
        ("skills::label", json!({ "id": "alpha", "label": "stable", "version": 4 })),
        ("skills::rollback", json!({ "id": "alpha", "to": 4 })),
    ] {
        fails_with(&worker, function, data, "yanked").await;
    }
    assert_eq!(yank(&worker, 4, json!({ "undo": true })).await["served"], 4);

    // A purge removes the content and leaves the row.
    yank(&worker, 3, json!({ "purge": true, "reason": "a key was in it" })).await;
    let purged = read_error(&worker, "iii://alpha@3").await;
    assert_eq!(purged.code, "purged");
    assert!(purged.message.contains("a key was in it"), "{}", purged.message);
    let row = history(&worker, "skills::history", json!({ "id": "alpha@3" })).await;
    assert_eq!((&row[0]["purged"], &row[0]["yanked"]), (&json!(true), &json!("a key was in it")));
    let undo = json!({ "id": "alpha", "version": 3, "undo": true });
    assert_eq!(worker.fails("skills::yank", undo).await.code, "purged");

    // Without the label the newest version that is not yanked is served.
    let removed = json!({ "id": "alpha", "label": "stable", "version": null });
    assert_eq!(worker.ok("skills::label", removed).await["served"], 6);
    reads(&worker, "iii://alpha", 1).await;
}

#[tokio::test]
async fn all_versions_yanked_is_not_found_and_says_so() {
    let server = TestServer::new();
    let worker = server.worker().await;
    publish(&worker, 1).await;
    publish(&worker, 2).await;
    yank(&worker, 2, json!({})).await;
    let state = yank(&worker, 1, json!({})).await;
    assert_eq!(state["served"], Value::Null);
    for uri in ["iii://alpha", "skill://official/alpha", "iii://alpha@latest"] {
        let failure = read_error(&worker, uri).await;
        assert_eq!(failure.code, "not_found", "{uri}");
        assert!(
            failure.message.contains("all versions of alpha that could be served are yanked"),
            "{failure:?}"
        );
    }
    let message =
        fails_with(&worker, "skills::resolve", json!({ "id": "alpha" }), "not_found").await;
    assert!(message.contains("yanked"), "{message}");
    reads(&worker, "iii://alpha@1", 1).await;
    yank(&worker, 1, json!({ "undo": true })).await;
    reads(&worker, "iii://alpha", 1).await;
}

#[tokio::test]
async fn of_two_writers_that_expect_one_version_exactly_one_wins() {
    let server = TestServer::new();
    let writers = [server.worker().await, server.worker().await];
    for round in 0..25_u64 {
        let publish = |writer: usize| {
            let data = json!({
                "id": "alpha", "skill": format!("# {round} of {writer}"), "expected_version": round,
            });
            writers[writer].start("skills::register", &data)
        };
        let (one, other) = tokio::join!(publish(0), publish(1));
        let (won, lost) = if one.is_ok() { (one, other) } else { (other, one) };
        assert_eq!(won.unwrap()["version"], round + 1, "round {round}");
        let lost = lost.expect_err("both writers won");
        assert_eq!(lost.code, "version_conflict");
        assert!(lost.message.contains(&format!("is {}, not {round}", round + 1)), "{lost:?}");
    }
    // The same for labels.
    let [first, second] = &writers;
    for round in 0..10_u64 {
        let move_label = |writer: &Worker, version: u64| {
            let data = json!({
                "id": "alpha", "label": "canary", "version": version, "expected": round * 2,
            });
            writer.start("skills::label", &data)
        };
        let target = (round + 1) * 2;
        let (one, other) = tokio::join!(move_label(first, target), move_label(second, target));
        let lost = if one.is_ok() { other } else { one };
        assert_eq!(lost.expect_err("both moved the label").code, "label_moved");
    }
}

#[tokio::test]
async fn subscribers_are_notified_once_when_what_is_served_changes() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut received = worker.collect("me::heard").await;
    worker.subscribe("skills::on-change", "me::heard", json!({})).await;
    let event = |op: &str| json!({ "op": op, "id": "alpha" });
    publish(&worker, 1).await;
    publish(&worker, 2).await;
    for _ in 0..2 {
        assert_eq!(next(&mut received).await, event("register"));
    }
    // None of these changes what the plain id reads.
    label(&worker, "canary", 1).await;
    label(&worker, "stable", 2).await;
    publish(&worker, 3).await;
    label(&worker, "canary", 3).await;
    yank(&worker, 1, json!({})).await;
    // Each of these does.
    label(&worker, "stable", 3).await;
    assert_eq!(next(&mut received).await, event("register"));
    yank(&worker, 3, json!({})).await;
    assert_eq!(next(&mut received).await, event("register"));
    yank(&worker, 2, json!({})).await;
    assert_eq!(next(&mut received).await, event("unregister"));
    yank(&worker, 2, json!({ "undo": true })).await;
    assert_eq!(next(&mut received).await, event("register"));
    worker.ok("skills::register", json!({ "id": "last", "skill": "x" })).await;
    assert_eq!(next(&mut received).await, json!({ "op": "register", "id": "last" }));
}

#[tokio::test]
async fn prompts_have_versions_too() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for number in 1..=2 {
        let text = format!("answer {number}");
        worker.serve(&format!("greet::v{number}"), move |_| Some(Ok(json!(text)))).await;
        let data = json!({
            "name": "greet", "description": format!("Greets {number}"),
            "function_id": format!("greet::v{number}"), "message": "m",
        });
        assert_eq!(worker.ok("prompts::register", data).await["version"], number);
    }
    let text = async |name: &str| {
        let rendered = worker.ok("prompts::mcp-get", json!({ "name": name })).await;
        rendered["messages"][0]["content"]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(text("greet").await, "answer 2");
    assert_eq!(text("greet@1").await, "answer 1");
    let stable = json!({ "name": "greet", "label": "stable", "version": 1 });
    assert_eq!(worker.ok("prompts::label", stable).await["served"], 1);
    assert_eq!(text("greet").await, "answer 1");
    let rolled = worker.ok("prompts::rollback", json!({ "name": "greet", "to": 1 })).await;
    assert_eq!(rolled["version"], 3);
    let yank = json!({ "name": "greet", "version": 1, "reason": "old" });
    assert_eq!(worker.ok("prompts::yank", yank).await["served"], Value::Null);
    let versions = history(&worker, "prompts::history", json!({ "name": "greet" })).await;
    assert_eq!(versions.len(), 3);
    assert_eq!(
        (&versions[2]["yanked"], &versions[2]["labels"]),
        (&json!("old"), &json!(["stable"]))
    );
    let diff = json!({ "name": "greet", "from": 1, "to": 2 });
    let diff = worker.ok("prompts::diff", diff).await;
    let fields: Vec<&str> = diff["frontmatter"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["field"].as_str().unwrap())
        .collect();
    assert!(fields.contains(&"function_id") && fields.contains(&"description"), "{diff}");
}

#[tokio::test]
async fn the_log_has_content_labels_and_yanks_in_one_format() {
    let server = TestServer::new();
    let worker = server.worker().await;
    publish(&worker, 1).await;
    publish(&worker, 2).await;
    label(&worker, "stable", 1).await;
    yank(&worker, 2, json!({})).await;
    worker.ok("skills::register", json!({ "id": "other", "skill": "x" })).await;
    worker.ok("skills::unregister", json!({ "id": "alpha" })).await;
    let page = worker.ok("skills::log", json!({ "id": "alpha" })).await;
    let rows = page["data"].as_array().unwrap();
    let actions: Vec<&str> = rows.iter().map(|row| row["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["skill.remove", "skill.yank", "skill.label", "skill.put", "skill.put"]);
    assert_eq!(
        keys(&rows[1]),
        ["action", "at", "by", "id", "message", "number", "served", "tier", "version"]
    );
    assert_eq!((&rows[1]["version"], &rows[1]["message"]), (&json!(2), &json!("broken")));
    assert_eq!((&rows[2]["label"], &rows[2]["served"]), (&json!("stable"), &json!(1)));
    assert_eq!(rows[3]["message"], "change 2");
    let since = rows[2]["at"].clone();
    let recent = worker.ok("skills::log", json!({ "id": "alpha", "since": since })).await;
    assert_eq!(recent["data"].as_array().unwrap().len(), 3);
    let nobody = worker.ok("skills::log", json!({ "by": "nobody at all" })).await;
    assert_eq!(nobody["data"], json!([]));
    let first = worker.ok("skills::log", json!({ "limit": 1 })).await;
    let after = json!({ "limit": 1, "after": first["next"] });
    let second = worker.ok("skills::log", after).await;
    assert_eq!(second["data"][0]["id"], "other");
}

#[tokio::test]
async fn retention_takes_old_versions_when_a_server_starts() {
    let dir = tempfile::tempdir().unwrap();
    let (data, config) = (dir.path().join("data"), dir.path().join("config.yaml"));
    fs::write(&config, "retention: {versions: 2}\n").unwrap();
    let server = ServerProcess::start(BINARY, &data);
    let worker = Worker::connect(&server.url).await;
    publish_five(&worker).await;
    label(&worker, "keep", 2).await;
    let dry = worker.ok("skills::gc", json!({ "versions": 2, "dry_run": true })).await;
    assert_eq!((&dry["versions"], &dry["dry_run"]), (&json!(2), &json!(true)), "{dry}");
    assert!(dry["bytes"].as_u64().unwrap() > 0);
    let none = worker.ok("skills::gc", json!({})).await;
    assert_eq!(none["versions"], 0, "the configuration keeps all: {none}");
    reads(&worker, "iii://alpha@1", 1).await;
    drop(worker);
    let (code, _, stderr) = server.stop();
    assert_eq!(code, Some(0), "{stderr}");

    let arguments = ["--config", config.to_str().unwrap()];
    let server = ServerProcess::start_with(BINARY, &data, &arguments);
    let worker = Worker::connect(&server.url).await;
    let collected = async |version: u64| {
        let data = json!({ "uri": format!("iii://alpha@{version}") });
        worker.call("skills::resources-read", data).await.is_err_and(|it| it.code == "collected")
    };
    eventually("the old versions are removed", async || collected(1).await && collected(3).await)
        .await;
    for (uri, number) in [("@2", 2), ("@keep", 2), ("@4", 4), ("@5", 5), ("", 5)] {
        reads(&worker, &format!("iii://alpha{uri}"), number).await;
    }
    // The rule of the configuration is that of calls without one.
    publish(&worker, 6).await;
    let removed = worker.ok("skills::gc", json!({})).await;
    assert_eq!(removed["versions"], 1, "{removed}");
    assert!(collected(4).await);
    let log = worker.ok("skills::log", json!({ "by": "retention" })).await;
    assert!(log["data"].as_array().unwrap().iter().all(|row| row["action"] == "skill.collect"));
}

#[tokio::test]
async fn requests_that_break_a_rule_are_refused_with_a_code() {
    let server = TestServer::new();
    let worker = server.worker().await;
    publish(&worker, 1).await;
    publish(&worker, 2).await;
    for uri in [
        "iii://alpha@",
        "iii://alpha@0",
        "iii://alpha@a b",
        "iii://alpha@sha256:abc",
        "iii://alpha@1@2",
    ] {
        let failure = read_error(&worker, uri).await;
        assert!(["invalid_uri", "invalid_input"].contains(&&*failure.code), "{uri}: {failure:?}");
    }
    for uri in ["iii://alpha@9", "iii://alpha@canary", "iii://alpha@sha256:000000000000"] {
        let failure = read_error(&worker, uri).await;
        assert_eq!(failure.code, "not_found", "{uri}");
        assert!(failure.message.contains("it has 2, 1"), "{uri}: {failure:?}");
    }
    assert_eq!(read_error(&worker, "iii://nothing@1").await.code, "not_found");
    let long = "x".repeat(1025);
    for (function, data, code) in [
        ("skills::history", json!({ "id": "nothing" }), "not_found"),
        ("skills::history", json!({ "id": "Not An Id" }), "invalid_input"),
        ("skills::history", json!({ "id": "alpha", "after": "x" }), "invalid_input"),
        ("skills::history", json!({ "id": "alpha", "tier": "private" }), "key_needed"),
        ("skills::history", json!({ "id": "alpha", "key": "us-made-up" }), "unknown_key"),
        ("skills::diff", json!({ "id": "alpha", "from": 1 }), "invalid_input"),
        ("skills::diff", json!({ "id": "alpha", "to": 1 }), "invalid_input"),
        ("skills::diff", json!({ "id": "alpha@1", "from": 2, "to": 2 }), "invalid_input"),
        ("skills::diff", json!({ "id": "alpha", "from": 1, "to": 9 }), "not_found"),
        ("skills::label", json!({ "id": "alpha", "label": "stable" }), "invalid_input"),
        ("skills::label", json!({ "id": "alpha", "label": "7", "version": 1 }), "invalid_input"),
        (
            "skills::label",
            json!({ "id": "alpha", "label": "latest", "version": 1 }),
            "invalid_input",
        ),
        ("skills::label", json!({ "id": "alpha", "label": "none", "version": null }), "not_found"),
        ("skills::label", json!({ "id": "alpha", "label": "a", "version": "b" }), "not_found"),
        ("skills::label", json!({ "id": "alpha@1", "label": "a", "version": 1 }), "invalid_input"),
        ("skills::rollback", json!({ "id": "alpha", "to": 7 }), "not_found"),
        (
            "skills::rollback",
            json!({ "id": "alpha", "to": 1, "expected_version": 1 }),
            "version_conflict",
        ),
        ("skills::yank", json!({ "id": "alpha", "version": 1 }), "invalid_input"),
        ("skills::yank", json!({ "id": "alpha", "version": 1, "reason": long }), "too_large"),
        (
            "skills::yank",
            json!({ "id": "alpha", "version": 1, "undo": true, "purge": true }),
            "invalid_input",
        ),
        ("skills::register", json!({ "id": "alpha", "skill": "x", "message": long }), "too_large"),
        ("skills::register", json!({ "id": "alpha@3", "skill": "x" }), "invalid_input"),
        ("skills::catalog", json!({ "ids": ["alpha@9"] }), "not_found"),
        ("skills::log", json!({ "since": "yesterday" }), "invalid_input"),
        ("skills::log", json!({ "tier": "private" }), "key_needed"),
    ] {
        fails_with(&worker, function, data, code).await;
    }
    let versions = history(&worker, "skills::history", json!({ "id": "alpha" })).await;
    assert_eq!(versions.len(), 2, "none of these changed anything");
    assert!(versions.iter().all(|version| version["labels"] == json!([])));
}

/// Text of many different lines.
fn large_text(seed: usize) -> String {
    (0..60_000).map(|line| format!("line {} of {seed}\n", line * seed)).collect()
}

#[tokio::test]
async fn the_difference_of_large_bundles_is_bounded_and_says_what_it_left_out() {
    let server = TestServer::new();
    let worker = server.worker().await;
    worker.identify().await;
    for seed in [3, 7] {
        let files: serde_json::Map<String, Value> =
            (0..12).map(|file| (format!("f{file}.txt"), json!(large_text(seed + file)))).collect();
        let data = json!({ "id": "alpha", "skill": body(1), "files": files });
        worker.ok("skills::register", data).await;
    }
    let diff = worker.ok("skills::diff", json!({ "id": "alpha@1", "to": 2 })).await;
    assert!(diff.to_string().len() < 4 << 20, "{} bytes", diff.to_string().len());
    assert_eq!(diff["files"].as_array().unwrap().len(), 12);
    let is_cut = |file: &Value| file["truncated"] == true;
    assert!(diff["files"].as_array().unwrap().iter().any(is_cut) || diff["truncated"] == true);
}
