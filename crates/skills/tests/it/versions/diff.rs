//! `skills diff`.

use std::fs;

use serde_json::{Value, json};

use super::commands::{Commands, SkillFolder};
use crate::support::terminal::on_terminal;

/// Writes the files of a version.
fn write(skill: &SkillFolder, description: &str, tools: &str, text: &str, script: Option<&str>) {
    fs::create_dir_all(skill.path().join("scripts")).unwrap();
    let document = format!(
        "---\nname: pdf\ndescription: {description}\nallowed-tools: {tools}\n---\n# PDF\n\n{text}\n"
    );
    fs::write(skill.path().join("SKILL.md"), document).unwrap();
    if let Some(script) = script {
        fs::write(skill.path().join("scripts/run.sh"), script).unwrap();
    }
}

fn add(commands: &Commands, skill: &SkillFolder) {
    commands.ok(&["add", skill.path().to_str().unwrap()]);
}

fn files(diff: &Value) -> Vec<(&str, &str)> {
    let rows = diff["files"].as_array().unwrap();
    rows.iter()
        .map(|row| (row["path"].as_str().unwrap(), row["status"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_difference_shows_fields_permissions_and_files() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let commands = Commands::on_data(&data);
    let skill = SkillFolder::new("pdf");
    write(&skill, "Reads PDF files.", "Read", "Text.", None);
    add(&commands, &skill);
    let url = "https://files.example/tool";
    write(
        &skill,
        "Reads and writes.",
        "Read Bash",
        &format!("See {url}."),
        Some("#!/bin/sh\ncurl x\n"),
    );
    add(&commands, &skill);

    let diff = commands.json(&["diff", "pdf"]);
    assert_eq!((&diff["from"]["version"], &diff["to"]["version"]), (&json!(1), &json!(2)));
    let fields = diff["frontmatter"].as_array().unwrap();
    let fields: Vec<&str> = fields.iter().map(|row| row["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["allowed-tools", "description"]);
    assert_eq!(files(&diff), [("SKILL.md", "changed"), ("scripts/run.sh", "added")]);
    let allows = diff["allows"].as_array().unwrap();
    for (kind, value) in [("allowed-tool", "Bash"), ("script", "scripts/run.sh"), ("url", url)] {
        let is_named =
            |row: &&Value| row["kind"] == kind && row["value"].as_str().unwrap().contains(value);
        assert!(allows.iter().any(|row| is_named(&row)), "{kind}: {allows:?}");
    }

    let text = commands.ok(&["diff", "pdf@1", "pdf@2"]);
    assert!(text.starts_with("pdf@1 -> pdf@2\nfrontmatter\n"), "{text}");
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("no {words:?}: {text}"));
    assert!(at("+ description: Reads and writes.") < at("new permissions"), "{text}");
    assert!(at("new permissions") < at("changed SKILL.md"), "{text}");
    assert!(at("-Text.") > at("changed SKILL.md") && !text.contains('\u{1b}'), "{text}");
    let coloured = on_terminal(&["--data-dir", data.to_str().unwrap(), "diff", "pdf"]);
    assert!(coloured.contains("\u{1b}[32m+") && coloured.contains("\u{1b}[31m-"), "{coloured:?}");

    let backwards = commands.json(&["diff", "pdf@2", "pdf@1"]);
    assert_eq!(files(&backwards), [("SKILL.md", "changed"), ("scripts/run.sh", "removed")]);
    assert_eq!(backwards["allows"], json!([]), "what is taken away is not called out");
    let same = commands.ok(&["diff", "pdf@2", "pdf@2"]);
    assert!(same.contains("no difference"), "{same}");
}

#[test]
fn a_version_is_compared_with_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let commands = Commands::on_data(&dir.path().join("data"));
    let skill = SkillFolder::new("pdf");
    skill.publish(&commands, 1);
    skill.publish(&commands, 2);
    commands.ok(&["label", "pdf@1", "stable"]);
    let folder = skill.path();
    let folder = folder.to_str().unwrap();
    let diff = commands.json(&["diff", "pdf", folder]);
    assert_eq!((&diff["from"]["version"], &diff["to"]["version"]), (&json!(1), &Value::Null));
    assert_eq!(files(&diff), [("SKILL.md", "changed"), ("data/raw.bin", "changed")]);
    assert_eq!(diff["files"][1]["binary"], true);
    assert!(diff["files"][1]["diff"].is_null());
    let diff = commands.json(&["diff", "pdf@2", folder]);
    assert_eq!(files(&diff), []);
    assert_eq!(diff["from"]["digest"], diff["to"]["digest"]);
    fs::rename(skill.path().join("data/raw.bin"), skill.path().join("moved.bin")).unwrap();
    let diff = commands.json(&["diff", "pdf@latest", folder]);
    assert_eq!(files(&diff), [("moved.bin", "renamed")]);
    assert_eq!(diff["files"][0]["before"]["path"], "data/raw.bin");

    let missing = dir.path().join("missing");
    let error = commands.error(&["diff", "pdf", missing.to_str().unwrap()]);
    assert!(error["message"].as_str().unwrap().contains("missing"), "{error}");
    let two = dir.path().join("two");
    for name in ["a", "b"] {
        fs::create_dir_all(two.join(name)).unwrap();
        fs::write(two.join(name).join("SKILL.md"), "# A\n").unwrap();
    }
    assert_eq!(commands.code(&["diff", "pdf", two.to_str().unwrap()]), "bad_argument");
}
