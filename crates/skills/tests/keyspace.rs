//! `skills import FILE` and `skills export --kv`: everything of a layered gateway, in and out again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::{fs, path::Path};

use serde_json::{Value, json};
use skills_testkit::{Ran, program, run};
use support::BINARY;
use tempfile::TempDir;

const MASTER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
/// "hello" under that key, in the form of before.
const LEGACY: &str = "000102030405060708090a0b.41c43c4c932efc0c18e08262fb642111.7e7dd95a2f";
/// The SHA-256 of "us-test-key-1" and of "us-abc".
const HASH: &str = "1ac7f2dbf6a3aa2b8c4c0ff95325882101df62151e861cf94f2a8ef01187e1d0";
const OLD_HASH: &str = "15d6354290b017ae135247fb8d7a1c1e133738bca02c02e38fc0c5c1046d2206";

const MARKDOWN_TOOL: &str = "# Echo\n\n## Description\n\nSays it again.\n\n## Parameters\n\n```json\n{\"type\":\"object\",\"properties\":{}}\n```\n\n## Implementation\n\n```yaml\ntype: api\nendpoint: https://echo.example/say\n```\n";

fn skills(data: &Path, arguments: &[&str]) -> Ran {
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

fn imported(data: &Path, file: &str) -> Value {
    let ran = skills(data, &["import", file, "--json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

fn exported(data: &Path) -> Vec<Value> {
    let ran = skills(data, &["export", "--kv"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Without the moments at which profiles and tools were changed here.
fn timeless(mut lines: Vec<Value>) -> Vec<Value> {
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

/// A moment, which may be a text or a number.
fn milliseconds(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn everything_comes_in_and_goes_out_again() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("first"), dir.path().join("second"));
    let file = write(&dir, "all.jsonl", &everything());
    let report = imported(&first, &file);
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

    let lines = exported(&first);
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
    let told: u64 = milliseconds(value_of(&lines, "mcp_broadcast:tools_changed"));
    assert!(told > 1_775_000_000_000, "when the newest tool came here: {told}");
    let sealed = value_of(&lines, "skill:secrets:ann")["API_KEY"].as_str().unwrap();
    assert!(sealed.starts_with("v1."), "{sealed}");

    let copy = write(&dir, "copy.jsonl", &lines);
    imported(&second, &copy);
    assert_eq!(timeless(exported(&second)), timeless(lines));
    let again = imported(&second, &copy);
    assert_eq!(again["unchanged"], 5, "{again}");
}

#[test]
fn what_cannot_be_used_is_named_and_the_rest_is_taken() {
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
fn the_order_of_lines_matters_only_where_two_are_of_one_key() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // Sorted as a dump is: what a key has comes before whose key it is, and more lines than are taken in together
    // stand between them.
    let mut lines = vec![
        json!({ "key": format!("user:credits:{OLD_HASH}"), "value": "7" }),
        json!({ "key": "user:credits:nobody-s-hash", "value": "1" }),
    ];
    let filler = |number| json!({ "key": format!("tier:u{number}"), "value": "FREE" });
    lines.extend((0..300).map(filler));
    lines.push(json!({ "key": format!("user:uid:{OLD_HASH}"), "value": "bob" }));
    let report = imported(&data, &write(&dir, "sorted.jsonl", &lines));
    assert_eq!(report["skipped"], json!([]), "{report}");
    assert_eq!(report["migrated"][0]["line"], 1, "{report}");
    assert_eq!(value_of(&exported(&data), "profile:bob")["credits"], 7);

    // The last line of a key counts, also if it says what is stored already.
    let notes = |text: &str| json!({ "key": "skill:official:notes", "value": text });
    let tool =
        |source: &str| json!({ "key": "skill:market:uniskill_weather", "value": weather(source) });
    imported(&data, &write(&dir, "first.jsonl", &[notes("# One"), tool("one")]));
    let both = [notes("# Two"), tool("two"), notes("# One"), tool("one")];
    imported(&data, &write(&dir, "both.jsonl", &both));
    let lines = exported(&data);
    assert_eq!(value_of(&lines, "skill:official:notes"), "# One");
    assert_eq!(value_of(&lines, "skill:market:uniskill_weather"), &weather("one"));
}

#[test]
fn secrets_for_a_name_that_leads_to_another_id_are_noted() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let secrets = |skill: &str| json!({ "key": format!("skill:secrets:ann:{skill}"), "value": { "A": LEGACY } });
    let lines = [
        secrets("weather"),
        secrets("uniskill_weather"),
        secrets("later"),
        json!({ "key": "skill:official:uniskill_weather", "value": weather("official") }),
    ];
    let report = imported(&data, &write(&dir, "scoped.jsonl", &lines));
    let notes = report["notes"].as_array().unwrap().iter();
    let notes: Vec<_> =
        notes.filter(|row| row["note"].as_str().unwrap().contains("under its id")).collect();
    assert_eq!(notes.len(), 1, "{report}");
    assert_eq!(
        (&notes[0]["line"], &notes[0]["key"]),
        (&json!(1), &json!("skill:secrets:ann:weather"))
    );
    assert!(notes[0]["note"].as_str().unwrap().ends_with("uniskill_weather"), "{report}");
}

#[test]
fn a_profile_that_names_no_tier_takes_none_away() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let profile = |value: Value| json!({ "key": "profile:ann", "value": value });
    let lines = [
        profile(json!({ "credits": 5, "tier": "PRO", "username": "ann" })),
        profile(json!({ "username": "Ann" })),
        json!({ "key": "profile:bob", "value": { "credits": 1 } }),
    ];
    let report = imported(&data, &write(&dir, "profiles.jsonl", &lines));
    assert_eq!(report["notes"].as_array().unwrap().len(), 2, "{report}");
    let lines = exported(&data);
    let ann = value_of(&lines, "profile:ann");
    assert_eq!(
        (&ann["tier"], &ann["credits"], &ann["username"]),
        (&json!("PRO"), &json!(5), &json!("Ann"))
    );
    assert_eq!(value_of(&lines, "profile:bob")["tier"], "FREE");
}

#[test]
fn it_is_said_where_the_key_space_is() {
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
