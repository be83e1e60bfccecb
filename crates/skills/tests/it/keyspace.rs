//! `skills import FILE` and `skills export --kv`: the keyspace of a layered gateway.

use std::{fs, path::Path};

use serde_json::{Value, json};
use skills_testkit::{CommandOutput, ServerProcess, Worker, program, run, shared_store};
use tempfile::TempDir;

use crate::support::{BINARY, TestServer, admin::ADMIN_KEY, read, wait::eventually};

const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
/// "hello" encrypted with that key, in the legacy format.
const LEGACY: &str = "000102030405060708090a0b.41c43c4c932efc0c18e08262fb642111.7e7dd95a2f";
/// SHA-256 of "us-test-key-1" and of "us-abc".
const HASH: &str = "1ac7f2dbf6a3aa2b8c4c0ff95325882101df62151e861cf94f2a8ef01187e1d0";
const OLD_HASH: &str = "15d6354290b017ae135247fb8d7a1c1e133738bca02c02e38fc0c5c1046d2206";

const MARKDOWN_TOOL: &str = "# Echo\n\n## Description\n\nSays it again.\n\n## Parameters\n\n```json\n{\"type\":\"object\",\"properties\":{}}\n```\n\n## Implementation\n\n```yaml\ntype: api\nendpoint: https://echo.example/say\n```\n";

fn skills(data: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = program(BINARY);
    command.arg("--data-dir").arg(data).args(arguments).env("MASTER_ENCRYPTION_KEY", MASTER);
    run(&mut command)
}

fn weather(source: &str) -> Value {
    json!({
        "id": "uniskill_weather", "source": source,
        "meta": { "name": "Global Weather", "description": format!("of {source}"), "emoji": "🌤",
            "tags": ["weather"],
            "parameters": { "type": "object", "properties": { "location": { "type": "string" } } } },
        "config": { "endpoint": "https://api.example/v1/forecast", "method": "GET",
            "plugin_hook": "weather" },
        "credits_per_call": 1
    })
}

fn everything() -> Vec<Value> {
    let line = |key: &str, value: Value| json!({ "key": key, "value": value });
    vec![
        line("skill:official:uniskill_weather", weather("official").to_string().into()),
        line("skill:market:uniskill_weather", weather("market")),
        line("skill:private:ann:uniskill_weather", weather("private").to_string().into()),
        line("skill:market:echo", MARKDOWN_TOOL.into()),
        line("skill:official:notes", "# Notes\n\nOnly a document.\n".into()),
        json!({ "key": format!("auth:hash:{HASH}"), "value": "ann", "ttl": 2_592_000 }),
        line("profile:ann", json!({ "credits": 5, "tier": "PRO", "username": "ann" })),
        line("skill:secrets:ann", json!({ "API_KEY": LEGACY })),
        line("skill:secrets:ann:uniskill_weather", json!([{ "key": "TOKEN", "value": LEGACY }])),
        line("mcp_registry:tools_cache", json!([])),
        line("mcp_broadcast:tools_changed", "1775000000000".into()),
        line(&format!("user:uid:{OLD_HASH}"), "bob".into()),
        line("tier:bob", "STARTER".into()),
        line("credits:bob", "7".into()),
    ]
}

fn write(dir: &TempDir, name: &str, lines: &[Value]) -> String {
    let path = dir.path().join(name);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn import(data: &Path, file: &str) -> Value {
    let ran = skills(data, &["import", file, "--json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn export(data: &Path) -> Vec<Value> {
    let ran = skills(data, &["export", "--kv"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Removes the timestamps of profiles and tools.
fn without_timestamps(mut lines: Vec<Value>) -> Vec<Value> {
    lines.retain(|line| line["key"] != "mcp_broadcast:tools_changed");
    for line in &mut lines {
        if line["key"].as_str().unwrap().starts_with("profile:") {
            line["value"].as_object_mut().unwrap().remove("updated_at").unwrap();
        }
    }
    lines
}

fn value_of<'a>(lines: &'a [Value], key: &str) -> &'a Value {
    let line = lines.iter().find(|line| line["key"] == key);
    &line.unwrap_or_else(|| panic!("no {key} in {lines:?}"))["value"]
}

/// Parses a timestamp given as text or number.
fn milliseconds(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn import_and_export_are_inverse() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let file = write(&dir, "all.jsonl", &everything());
    let report = import(&first, &file);
    assert_eq!(report["imported"], 9, "{report}");
    assert_eq!(report["failed"], json!([]), "{report}");
    let moved: Vec<&str> = report["migrated"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["from"].as_str().unwrap())
        .collect();
    assert_eq!(moved, [&*format!("user:uid:{OLD_HASH}"), "tier:bob", "credits:bob"]);
    assert_eq!(report["skipped"][0]["key"], "mcp_registry:tools_cache");
    assert_eq!(report["skipped"][1]["key"], "mcp_broadcast:tools_changed");

    let lines = export(&first);
    assert_eq!(value_of(&lines, "skill:private:ann:uniskill_weather"), &weather("private"));
    assert_eq!(value_of(&lines, "skill:market:uniskill_weather"), &weather("market"));
    assert_eq!(value_of(&lines, "skill:market:echo"), MARKDOWN_TOOL);
    assert_eq!(value_of(&lines, "skill:official:notes"), "# Notes\n\nOnly a document.\n");
    assert_eq!(value_of(&lines, &format!("auth:hash:{HASH}")), "ann");
    assert_eq!(value_of(&lines, &format!("auth:hash:{OLD_HASH}")), "bob");
    assert_eq!(value_of(&lines, "profile:bob")["tier"], "STARTER");
    let tools = value_of(&lines, "mcp_registry:tools_cache").as_array().unwrap();
    let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["echo", "uniskill_weather"]);
    let time: u64 = milliseconds(value_of(&lines, "mcp_broadcast:tools_changed"));
    assert!(time > 1_775_000_000_000, "when the newest tool came here: {time}");
    let sealed = value_of(&lines, "skill:secrets:ann")["API_KEY"].as_str().unwrap();
    assert!(sealed.starts_with("v1."), "{sealed}");

    let copy = write(&dir, "copy.jsonl", &lines);
    import(&second, &copy);
    assert_eq!(without_timestamps(export(&second)), without_timestamps(lines));
    let again = import(&second, &copy);
    assert_eq!(again["unchanged"], 5, "{again}");
}

#[test]
fn unusable_lines_are_reported_and_the_rest_is_imported() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let path = dir.path().join("bad.jsonl");
    let good = json!({ "key": "skill:official:good", "value": "# Good\n" });
    let broken = json!({ "key": "skill:official:broken", "value": "{\"id\":" });
    let text = format!(
        "not json\n{{\"key\":\"what:is:this\",\"value\":\"x\"}}\n\n{broken}\n{{\"key\":\"skill:private:a:b:c\",\"value\":\"x\"}}\n{good}\n"
    );
    fs::write(&path, text).unwrap();
    let ran = skills(&data, &["import", path.to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, Some(1));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let failed: Vec<(u64, &str)> = report["failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["line"].as_u64().unwrap(), row["code"].as_str().unwrap()))
        .collect();
    let expected =
        [(1, "malformed_line"), (2, "unknown_key"), (4, "invalid_manifest"), (5, "invalid_key")];
    assert_eq!(failed, expected, "{report}");
    assert_eq!(report["imported"], 1);
    assert!(ran.stderr.contains("not_all_imported"), "{}", ran.stderr);
    let read = skills(&data, &["read", "iii://good"]);
    assert_eq!(read.stdout, "# Good\n", "{}", read.stderr);
}

#[test]
fn the_order_of_lines_matters_only_for_duplicate_keys() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // Sorted like a dump: entries of a key come before its owner, with more than one batch of lines between them.
    let mut lines = vec![
        json!({ "key": format!("user:credits:{OLD_HASH}"), "value": "7" }),
        json!({ "key": "user:credits:nobody-s-hash", "value": "1" }),
    ];
    let filler = |number| json!({ "key": format!("tier:u{number}"), "value": "FREE" });
    lines.extend((0..300).map(filler));
    lines.push(json!({ "key": format!("user:uid:{OLD_HASH}"), "value": "bob" }));
    let report = import(&data, &write(&dir, "sorted.jsonl", &lines));
    assert_eq!(report["skipped"], json!([]), "{report}");
    assert_eq!(report["migrated"][0]["line"], 1, "{report}");
    assert_eq!(value_of(&export(&data), "profile:bob")["credits"], 7);

    // The last line of a key wins, even if it equals the stored value.
    let notes = |text: &str| json!({ "key": "skill:official:notes", "value": text });
    let tool =
        |source: &str| json!({ "key": "skill:market:uniskill_weather", "value": weather(source) });
    import(&data, &write(&dir, "first.jsonl", &[notes("# One"), tool("one")]));
    let both = [notes("# Two"), tool("two"), notes("# One"), tool("one")];
    import(&data, &write(&dir, "both.jsonl", &both));
    let lines = export(&data);
    assert_eq!(value_of(&lines, "skill:official:notes"), "# One");
    assert_eq!(value_of(&lines, "skill:market:uniskill_weather"), &weather("one"));
}

/// Starts a server with the master key of the secrets.
fn start_server(data: &Path, variables: &[(&str, &str)]) -> ServerProcess {
    let mut command = ServerProcess::command(BINARY, data);
    command.env("MASTER_ENCRYPTION_KEY", MASTER).envs(variables.iter().copied());
    ServerProcess::spawn(&mut command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_server_imports_what_a_closed_store_does() {
    let dir = tempfile::tempdir().unwrap();
    let (closed, open) = (dir.path().join("closed"), dir.path().join("open"));
    let mut lines = everything();
    lines.insert(2, json!({ "key": "skill:official:broken", "value": "{ not json" }));
    lines.push(json!({ "key": "nonsense", "value": 1 }));
    let file = write(&dir, "all.jsonl", &lines);
    let ran = |data: &Path| {
        let ran = skills(data, &["import", &file, "--json"]);
        assert_eq!(ran.code, Some(1), "some lines cannot be read: {}{}", ran.stdout, ran.stderr);
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    let expected = ran(&closed);
    assert_eq!(expected["failed"].as_array().unwrap().len(), 2, "{expected}");
    let server = start_server(&open, &[]);
    assert_eq!(ran(&open), expected);
    let worker = Worker::connect(&server.url).await;
    let has_notes = async || {
        let listed = worker.ok("skills::list", json!({})).await;
        listed.to_string().contains("\"notes\"")
    };
    if shared_store().is_some() {
        // The command writes to the database itself.
        eventually("the server has read it", has_notes).await;
    } else {
        assert!(has_notes().await, "at once");
    }
    let again = ran(&open);
    assert_eq!(again["imported"], expected["imported"].as_u64().unwrap() - 5, "{again}");
    assert_eq!(again["unchanged"], 5, "{again}");
    let (code, _, output) = server.stop();
    assert_eq!(code, Some(0), "{output}");
    // Secrets are encrypted with random nonces, and expiries depend on the time.
    let comparable = |data: &Path| {
        let mut lines = without_timestamps(export(data));
        for line in &mut lines {
            line.as_object_mut().unwrap().remove("expiration");
            if line["key"].as_str().unwrap().starts_with("skill:secrets:") {
                line["value"].take();
            }
        }
        lines
    };
    assert_eq!(comparable(&open), comparable(&closed));
}

/// Texts that both ways accept, by name.
fn skill_texts() -> Vec<(&'static str, String)> {
    let documented = json!({
        "id": "documented", "meta": { "name": "Documented", "description": "With docs.",
            "parameters": { "type": "object", "properties": {} } },
        "config": { "endpoint": "https://api.example/v1", "method": "POST" },
        "docs": { "full_md": "# Documented\n\nRead this first.\n" }
    });
    vec![
        ("uniskill_weather", weather("official").to_string()),
        (
            "pretty",
            serde_json::to_string_pretty(&weather("official"))
                .unwrap()
                .replace("uniskill_weather", "pretty"),
        ),
        ("documented", documented.to_string()),
        ("echo", MARKDOWN_TOOL.to_owned()),
        ("notes", "# Notes\n\nOnly a document.\n".to_owned()),
        ("windows", MARKDOWN_TOOL.replace('\n', "\r\n")),
    ]
}

/// Stops a server and exports its data directory.
fn exported_after_stop(server: TestServer) -> Vec<Value> {
    let (data, mut lines) = (server.data_dir(), Vec::new());
    let restarted = server.restart_after(|| lines = export(&data));
    drop(restarted);
    lines
}

/// Everything that a registry tells about a skill, without times and provenance.
async fn told(server: &TestServer, worker: &Worker, id: &str) -> Value {
    let without_time = |mut value: Value| {
        for field in ["registered_at", "source", "timestamp", "updated_at"] {
            value.as_object_mut().unwrap().remove(field);
        }
        value
    };
    json!({
        "body": read(worker, &format!("iii://{id}")).await,
        "resolved": without_time(worker.ok("skills::resolve", json!({ "id": id })).await),
        "detail": server.ask(None, "GET", &format!("/v1/skills/{id}"), &Value::Null).json(),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_gives_the_same_result_as_sync_skill() {
    let (synced, imported) = (TestServer::with_admin(), TestServer::with_admin());
    let files = tempfile::tempdir().unwrap();
    for (tier, status) in
        [("official", "official"), ("market", "public"), ("private:ann", "private")]
    {
        let texts = skill_texts();
        for (id, text) in &texts {
            let body = json!({
                "user_uid": "ann", "skill_name": id, "status": status, "manifest": text,
            });
            synced.administer("POST", "/v1/admin/sync_skill", &body);
        }
        let line = |(id, text): &(&str, String)| json!({ "key": format!("skill:{tier}:{id}"), "value": text });
        let lines: Vec<Value> = texts.iter().map(line).collect();
        let report = import(&imported.data_dir(), &write(&files, "skills.jsonl", &lines));
        assert_eq!(report["imported"], texts.len(), "{tier}: {report}");
        let again = import(&imported.data_dir(), &write(&files, "again.jsonl", &lines));
        assert_eq!(again["unchanged"], texts.len(), "{tier}: {again}");
    }
    let workers = (synced.worker().await, imported.worker().await);
    for (id, _) in skill_texts() {
        let expected = told(&synced, &workers.0, id).await;
        assert_eq!(told(&imported, &workers.1, id).await, expected, "{id}");
    }
    let skill_lines = |server| {
        let mut lines = exported_after_stop(server);
        lines.retain(|line| line["key"].as_str().unwrap().starts_with("skill:"));
        lines
    };
    let expected = skill_lines(synced);
    assert_eq!(expected.len(), 3 * skill_texts().len());
    assert_eq!(skill_lines(imported), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_json_is_refused_by_import_and_by_sync_skill() {
    let server = TestServer::with_admin();
    let files = tempfile::tempdir().unwrap();
    for text in ["{ not json", "{\"id\": \"x\""] {
        let body = json!({
            "user_uid": "ann", "skill_name": "x", "status": "official", "manifest": text,
        });
        let refused = server.ask(Some(ADMIN_KEY), "POST", "/v1/admin/sync_skill", &body);
        assert_eq!(refused.status, 422, "{text:?}: {}", refused.json());
        let line = json!({ "key": "skill:official:x", "value": text });
        let file = write(&files, "x.jsonl", &[line]);
        let ran = skills(&server.data_dir(), &["import", &file, "--json"]);
        assert_eq!(ran.code, Some(1), "{text:?}: {}", ran.stdout);
    }
    let listed = server.worker().await.ok("skills::list", json!({})).await;
    assert_eq!(listed["skills"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_user_of_a_server_and_administrators_can_import() {
    const ADMIN: &str = "the-secret-of-the-administrator";
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = start_server(&data, &[("ADMIN_KEY", ADMIN)]);
    let file = write(&dir, "all.jsonl", &everything());
    let import = |admin: Option<&str>| {
        let mut command = program(BINARY);
        command.args(["--url", &server.url, "import", &file, "--json"]);
        run(command.envs(admin.map(|admin| ("ADMIN_KEY", admin))))
    };
    for admin in [None, Some("not-the-secret-at-all")] {
        let ran = import(admin);
        assert_eq!(ran.code, Some(1), "{}", ran.stdout);
        let error: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!(error["error"]["code"], "FORBIDDEN", "{error}");
        assert!(error["error"]["hint"].as_str().unwrap().contains("ADMIN_KEY"), "{error}");
    }
    let worker = Worker::connect(&server.url).await;
    let input = json!({ "lines": [[1, "{}"]], "user": "root" });
    assert_eq!(worker.fails("skills::import", input).await.code, "FORBIDDEN");
    assert_eq!(worker.ok("skills::list", json!({})).await["skills"], json!([]));
    let ran = import(Some(ADMIN));
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["imported"], 9, "{report}");
}

#[test]
fn secrets_for_a_name_that_resolves_to_another_id_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let secrets = |skill: &str| json!({ "key": format!("skill:secrets:ann:{skill}"), "value": { "A": LEGACY } });
    let lines = [
        secrets("weather"),
        secrets("uniskill_weather"),
        secrets("later"),
        json!({ "key": "skill:official:uniskill_weather", "value": weather("official") }),
    ];
    let report = import(&data, &write(&dir, "scoped.jsonl", &lines));
    let notes = report["notes"].as_array().unwrap().iter();
    let notes: Vec<_> =
        notes.filter(|row| row["note"].as_str().unwrap().contains("for that id")).collect();
    assert_eq!(notes.len(), 1, "{report}");
    assert_eq!(
        (&notes[0]["line"], &notes[0]["key"]),
        (&json!(1), &json!("skill:secrets:ann:weather"))
    );
    assert!(
        notes[0]["note"].as_str().unwrap().contains("resolves to the skill uniskill_weather;"),
        "{report}"
    );
}

#[test]
fn a_profile_without_a_tier_keeps_the_stored_tier() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let profile = |value: Value| json!({ "key": "profile:ann", "value": value });
    let lines = [
        profile(json!({ "credits": 5, "tier": "PRO", "username": "ann" })),
        profile(json!({ "username": "Ann" })),
        json!({ "key": "profile:bob", "value": { "credits": 1 } }),
    ];
    let report = import(&data, &write(&dir, "profiles.jsonl", &lines));
    assert_eq!(report["notes"].as_array().unwrap().len(), 2, "{report}");
    let lines = export(&data);
    let ann = value_of(&lines, "profile:ann");
    assert_eq!(
        (&ann["tier"], &ann["credits"], &ann["username"]),
        (&json!("PRO"), &json!(5), &json!("Ann"))
    );
    assert_eq!(value_of(&lines, "profile:bob")["tier"], "FREE");
}

#[test]
fn keyspace_commands_need_a_data_directory_and_an_existing_file() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let ran = skills(&data, &["--url", "ws://127.0.0.1:1", "export", "--kv"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("--data-dir"), "{}", ran.stderr);
    let ran = skills(&data, &["import", "/nowhere/at-all.jsonl"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("/nowhere/at-all.jsonl") && ran.stderr.contains("hint:"),
        "{}",
        ran.stderr
    );
    assert!(!data.exists());
}
