//! `skills log` and `skills gc`.

use std::fs;

use serde_json::{Value, json};

use super::commands::{Commands, SkillFolder, document};
use crate::support::TestServer;

fn records(commands: &Commands, arguments: &[&str]) -> Vec<Value> {
    let answer = commands.json(&[&["log"], arguments].concat());
    answer["data"].as_array().unwrap().clone()
}

fn actions(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["action"].as_str().unwrap()).collect()
}

#[test]
fn one_log_has_content_labels_yanks_and_keys() {
    let dir = tempfile::tempdir().unwrap();
    let commands = Commands::on_data(&dir.path().join("data"));
    let skill = SkillFolder::new("pdf");
    skill.publish(&commands, 1);
    skill.publish(&commands, 2);
    commands.ok(&["label", "pdf@1", "stable"]);
    commands.ok(&["yank", "pdf@2", "--reason", "it is wrong"]);
    commands.ok(&["key", "create", "--uid", "ann"]);
    SkillFolder::new("docx").publish(&commands, 3);

    let all = records(&commands, &[]);
    let found = actions(&all);
    assert!(found.contains(&"key.create"), "{found:?}");
    let content: Vec<&str> =
        found.iter().copied().filter(|action| action.starts_with("skill.")).collect();
    assert_eq!(content, ["skill.put", "skill.yank", "skill.label", "skill.put", "skill.put"]);
    let times: Vec<&str> = all.iter().map(|record| record["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|one, other| one >= other), "newest first: {times:?}");

    let pdf = records(&commands, &["pdf"]);
    assert_eq!(actions(&pdf), ["skill.yank", "skill.label", "skill.put", "skill.put"]);
    assert_eq!((&pdf[0]["version"], &pdf[0]["message"]), (&json!(2), &json!("it is wrong")));
    assert_eq!((&pdf[1]["label"], &pdf[1]["served"]), (&json!("stable"), &json!(1)));
    assert_eq!(pdf[3]["message"], "message 1");
    assert_eq!(records(&commands, &["--limit", "2"]).len(), 2);
    assert_eq!(records(&commands, &["--since", "1h"]).len(), all.len());
    assert_eq!(records(&commands, &["--since", "2999-01-01"]), Vec::<Value>::new());
    assert_eq!(records(&commands, &["--by", "no such actor"]), Vec::<Value>::new());
    let by = pdf[0]["by"].as_str().unwrap();
    assert_eq!(records(&commands, &["pdf", "--by", by]).len(), 4);

    let table = commands.ok(&["log", "pdf"]);
    assert!(table.starts_with("TIME"), "{table}");
    assert!(table.contains("official/pdf@2") && table.contains("it is wrong"), "{table}");
    assert!(commands.ok(&["log", "--since", "2999-01-01"]).contains("No records."));
    assert_eq!(commands.run(&["log", "--since", "yesterday"]).code, Some(2));
}

/// Publishes versions, of which two are protected from a collection.
fn publish(commands: &Commands) {
    let skill = SkillFolder::new("pdf");
    for number in 1..=6 {
        skill.publish(commands, number);
    }
    commands.ok(&["label", "pdf@2", "canary"]);
    commands.ok(&["label", "pdf@3", "stable"]);
}

fn check_collected(commands: &Commands) {
    let numbers = |rows: Vec<Value>| -> Vec<u64> {
        rows.iter().map(|row| row["version"].as_u64().unwrap()).collect()
    };
    for number in [2, 3, 6] {
        let text = commands.ok(&["read", &format!("iii://pdf@{number}")]);
        assert_eq!(text, document("pdf", number));
    }
    for number in [1, 4, 5] {
        let error = commands.error(&["read", &format!("iii://pdf@{number}")]);
        assert_eq!(error["code"], "collected", "{error}");
    }
    let left = numbers(commands.history("pdf"));
    assert!([6, 3, 2].iter().all(|number| left.contains(number)), "{left:?}");
}

#[test]
fn a_collection_keeps_labelled_served_and_newest_versions() {
    let dir = tempfile::tempdir().unwrap();
    let commands = Commands::on_data(&dir.path().join("data"));
    publish(&commands);
    let dry = commands.json(&["gc", "--versions", "1", "--dry-run"]);
    assert_eq!((&dry["versions"], &dry["dry_run"]), (&json!(3), &json!(true)));
    assert!(dry["bytes"].as_u64().unwrap() > 0, "{dry}");
    assert_eq!(commands.ok(&["read", "iii://pdf@1"]), document("pdf", 1), "a dry run keeps all");
    assert_eq!(commands.json(&["gc", "--versions", "1", "--days", "1"])["versions"], 0);
    let line = commands.ok(&["gc", "--versions", "1"]);
    assert!(line.starts_with("removed 3 versions; ") && line.contains("freed"), "{line}");
    check_collected(&commands);
    assert_eq!(commands.json(&["gc", "--versions", "1"])["versions"], 0, "nothing is left to do");
}

#[test]
fn a_collection_runs_beside_a_server_by_the_configured_rule() {
    let server = TestServer::new();
    let commands = Commands::on_server(&server);
    publish(&commands);
    let config = server.dir().join("config.yaml");
    fs::write(&config, "retention: {versions: 1}\n").unwrap();
    let collected = commands.json(&["--config", config.to_str().unwrap(), "gc"]);
    assert_eq!((&collected["versions"], &collected["dry_run"]), (&json!(3), &json!(false)));
    check_collected(&commands);
}
