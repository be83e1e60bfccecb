//! `search`, `index`, `validate --routing` and `doctor search`.

use std::fs;

use serde_json::Value;
use skills_testkit::{CommandOutput, program, run};

use super::SKILLS;
use crate::support::{BINARY, terminal::on_terminal};

/// Runs a command on a data directory.
fn skills(data: &str, arguments: &[&str]) -> CommandOutput {
    run(program(BINARY).args(["--data-dir", data]).args(arguments))
}

/// Creates a data directory with the skills.
fn data_dir(dir: &std::path::Path) -> String {
    let folder = dir.join("skills");
    for (id, body) in SKILLS {
        fs::create_dir_all(folder.join(id)).unwrap();
        fs::write(folder.join(id).join("SKILL.md"), body).unwrap();
    }
    let data = dir.join("data").to_str().unwrap().to_owned();
    let added = skills(&data, &["add", folder.to_str().unwrap()]);
    assert_eq!(added.code, Some(0), "{added:?}");
    data
}

#[test]
fn a_search_needs_no_server() {
    let dir = tempfile::tempdir().unwrap();
    let data = data_dir(dir.path());
    let found = skills(&data, &["search", "camelot", "tables"]);
    let expected = "pdf-tables  official\n  Extracts tables from PDF files. Use when a user has a PDF with tables.\n  \
                    > PDF tables Runs camelot on each page.\n";
    assert!(found.stdout.starts_with(expected), "{found:?}");
    let found = skills(&data, &["search", "pdf", "--limit", "2"]);
    assert!(found.stderr.contains("--cursor 2."), "{found:?}");
    let excluded = skills(&data, &["search", "pdf -tables", "--json"]);
    let page: Value = serde_json::from_str(&excluded.stdout).unwrap();
    assert!(!super::result_ids(&page).contains(&"pdf-tables".to_owned()), "{page}");
    let nothing = skills(&data, &["search", "zzzzzz"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (Some(0), "No skill matches.\n"));
    let near = skills(&data, &["search", "pfd-tables"]);
    assert!(near.stderr.contains("did you mean"), "{near:?}");
    let refused = skills(&data, &["search", "pdf", "--cursor", "x", "--json"]);
    let error: Value = serde_json::from_str(&refused.stderr).unwrap();
    assert_eq!(error["error"]["code"], "invalid_cursor");
}

#[test]
fn matched_words_are_bold_on_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let data = data_dir(dir.path());
    let output = on_terminal(&["--data-dir", &data, "search", "camelot"]);
    assert!(output.contains("\u{1b}[1mcamelot\u{1b}[0m"), "{output:?}");
}

#[test]
fn the_index_of_a_query_fits_its_budget() {
    let dir = tempfile::tempdir().unwrap();
    let data = data_dir(dir.path());
    let index = skills(&data, &["index", "--query", "deploy a site", "--budget", "60"]).stdout;
    assert!(index.starts_with("# Skills\n\n- [Deploy](iii://deploy-web)"), "{index}");
    assert!(index.contains("more skills do not fit the budget"), "{index}");
    let all = skills(&data, &["index"]).stdout;
    assert_eq!(all.matches("iii://").count(), SKILLS.len(), "{all}");
}

#[test]
fn weak_routing_is_reported_for_files_and_for_a_registry() {
    let dir = tempfile::tempdir().unwrap();
    let data = data_dir(dir.path());
    let folder = dir.path().join("skills");
    let ran = skills(&data, &["validate", "--routing", "--json", folder.to_str().unwrap()]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let findings = answer["routing"].as_array().unwrap();
    let has = |id: &str, code: &str| {
        findings.iter().any(|finding| finding["id"] == id && finding["code"] == code)
    };
    assert!(has("secret-pdf", "short-description"), "{answer}");
    assert!(!findings.iter().any(|finding| finding["id"] == "deploy-web"), "{answer}");
    assert!(
        findings.iter().all(|finding| finding["hint"].is_string() && finding["path"].is_string())
    );
    let ran = skills(&data, &["doctor", "search"]);
    assert!(ran.stdout.contains("secret-pdf: warning[short-description]: "), "{ran:?}");
    assert!(ran.stdout.contains("  hint: "), "{ran:?}");
}
