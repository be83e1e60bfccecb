//! `skills validate` as a person or a script meets it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};
use skills_core::validate::{Level, Mode, RULES};
use skills_testkit::{Ran, program, restricted, run};
use support::{BINARY, keys};
use tempfile::TempDir;

const GOOD: &str = "---\nname: NAME\ndescription: Reads PDF. Use when asked.\n---\n# PDF\n";

/// Runs in a folder, so that paths are short and the same everywhere.
fn validate(folder: &Path, arguments: &[&str]) -> Ran {
    let ran = run(program(BINARY).arg("validate").args(arguments).current_dir(folder));
    let steers = ran.stdout.contains('\u{1b}') || ran.stderr.contains('\u{1b}');
    assert!(!steers, "colours without a terminal: {ran:?}");
    ran
}

fn json_of(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

fn write(folder: &Path, path: &str, content: &str) {
    let file = folder.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
}

fn good(folder: &Path, path: &str) {
    let name = Path::new(path).file_name().unwrap().to_str().unwrap();
    write(folder, &format!("{path}/SKILL.md"), &GOOD.replace("NAME", name));
}

#[test]
fn a_good_skill_by_any_path() {
    let dir = TempDir::new().unwrap();
    good(dir.path(), "pdf");
    for path in ["pdf", "pdf/", "pdf/SKILL.md", ".", "./pdf/../pdf"] {
        let ran = validate(dir.path(), &[path]);
        let summary = "1 skill, all valid: 0 errors, 0 warnings, 0 advice\n";
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), summary, ""));
    }
    for path in [".", "SKILL.md", "../pdf", "./SKILL.md"] {
        assert_eq!(validate(&dir.path().join("pdf"), &[path]).code, Some(0), "{path}");
    }
}

#[test]
fn findings_have_a_place_a_code_and_a_hint() {
    let dir = TempDir::new().unwrap();
    write(dir.path(), "pdf/SKILL.md", &GOOD.replace("NAME", "PDF"));
    let ran = validate(dir.path(), &["pdf"]);
    assert_eq!(
        ran.stdout,
        "pdf/SKILL.md:2:7: error[name-lowercase]: the name \"PDF\" is not in lower case\n  \
         hint: use lower case letters only\n\
         pdf/SKILL.md:2:7: error[name-directory]: the name \"PDF\" is not that of the folder, \"pdf\"\n  \
         hint: give the folder and the skill the same name\n"
    );
    let summary = "error: 1 of 1 skill not valid: 2 errors, 0 warnings, 0 advice\n";
    assert!(ran.stderr.starts_with(summary) && ran.stderr.contains("hint: "), "{}", ran.stderr);
    assert_eq!(ran.code, Some(1));

    let lenient = validate(dir.path(), &["--lenient", "pdf"]);
    assert_eq!((lenient.code, lenient.stderr.as_str()), (Some(0), ""));
    assert!(lenient.stdout.contains("pdf/SKILL.md:2:7: warning[name-directory]: "));
    assert!(lenient.stdout.ends_with("1 skill, all valid: 0 errors, 2 warnings, 0 advice\n"));
}

#[test]
fn json_for_machines() {
    let dir = TempDir::new().unwrap();
    good(dir.path(), "good");
    write(dir.path(), "bad/SKILL.md", "no frontmatter");
    let ran = validate(dir.path(), &["--json", "good", "bad"]);
    assert_eq!(ran.code, Some(1));
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["error"]["code"], "invalid_skills");
    let answer = json_of(&ran);
    assert_eq!(
        answer["summary"],
        json!({"skills": 2, "invalid": 1, "errors": 1, "warnings": 0, "advice": 0})
    );
    let skills = answer["skills"].as_array().unwrap();
    assert_eq!(skills[1], json!({"path": "good/SKILL.md", "valid": true, "findings": []}));
    assert_eq!((&skills[0]["path"], &skills[0]["valid"]), (&json!("bad/SKILL.md"), &json!(false)));
    let finding = &skills[0]["findings"][0];
    assert_eq!(keys(finding), ["code", "column", "hint", "level", "line", "message"]);
    assert_eq!(
        (&finding["code"], &finding["level"]),
        (&json!("frontmatter-missing"), &json!("error"))
    );

    let ran = validate(dir.path(), &["--json", "good"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
}

#[test]
fn names_of_other_scripts() {
    let dir = TempDir::new().unwrap();
    good(dir.path(), "技能");
    assert_eq!(validate(dir.path(), &["."]).code, Some(1));
    assert_eq!(validate(dir.path(), &["--unicode", "."]).code, Some(0));
}

#[test]
fn folders_of_folders() {
    let dir = TempDir::new().unwrap();
    for path in ["a", "team/b", "team/deep/er/c", "a/nested"] {
        good(dir.path(), path);
    }
    good(dir.path(), ".git/x");
    good(dir.path(), "team/node_modules/y");
    write(dir.path(), "a/references/r.md", "text");
    write(dir.path(), "README.md", "no skill");
    let link = "[r](references/r.md) [n](nested/SKILL.md) [x](gone.md)\n";
    fs::write(dir.path().join("a/SKILL.md"), format!("{}{link}", GOOD.replace("NAME", "a")))
        .unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("team/circle")).unwrap();
    let answer = json_of(&validate(dir.path(), &["--json", ".", "./a"]));
    let skills = answer["skills"].as_array().unwrap();
    let paths: Vec<&str> = skills.iter().map(|skill| skill["path"].as_str().unwrap()).collect();
    let expected =
        ["a/SKILL.md", "a/nested/SKILL.md", "team/b/SKILL.md", "team/deep/er/c/SKILL.md"];
    assert_eq!(paths, expected.map(|path| format!("./{path}")));
    let codes = |skill: &Value| skill["findings"].as_array().unwrap().len();
    assert_eq!(skills.iter().map(codes).collect::<Vec<_>>(), [1, 0, 0, 0]);
    assert_eq!(skills[0]["findings"][0]["code"], "link-missing");
}

#[test]
fn what_git_ignores_is_passed_by_unless_it_is_named() {
    let dir = TempDir::new().unwrap();
    good(dir.path(), "good");
    good(dir.path(), "build/made");
    write(dir.path(), ".gitignore", "/build/\nnotes.md\n");
    write(dir.path(), "good/notes.md", "");
    write(dir.path(), "good/SKILL.md", &format!("{}[n](notes.md)\n", GOOD.replace("NAME", "good")));
    let answer = json_of(&validate(dir.path(), &["--json", "."]));
    let skills = answer["skills"].as_array().unwrap();
    assert_eq!((skills.len(), &skills[0]["path"]), (1, &json!("./good/SKILL.md")));
    // The link is to a file that would not travel with the skill.
    assert_eq!(skills[0]["findings"][0]["code"], "link-missing");
    for path in ["build", "build/made", "build/made/SKILL.md"] {
        assert_eq!(validate(dir.path(), &[path]).code, Some(0), "{path}");
    }
}

#[test]
fn another_spelling_of_the_file_is_pointed_out() {
    let dir = TempDir::new().unwrap();
    write(dir.path(), "pdf/skill.md", &GOOD.replace("NAME", "pdf"));
    for path in [".", "pdf/skill.md"] {
        let ran = validate(dir.path(), &[path]);
        assert!(ran.stdout.contains("error[file-name]"), "{ran:?}");
    }
    assert_eq!(validate(dir.path(), &["--lenient", "."]).code, Some(0));
}

#[test]
fn what_cannot_be_read_is_named() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    write(dir.path(), "notes.md", "text");
    for (path, words) in [
        ("gone", "cannot read gone: No such file"),
        ("empty", "there is no SKILL.md in empty"),
        ("notes.md", "notes.md is not a SKILL.md"),
    ] {
        let ran = validate(dir.path(), &[path]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{path}");
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }
    good(dir.path(), "good");
    fs::create_dir_all(dir.path().join("odd/SKILL.md")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("good/SKILL.MD")).unwrap();
    assert_eq!(validate(dir.path(), &["good"]).code, Some(0));
    fs::create_dir(dir.path().join("broken")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("broken/SKILL.md")).unwrap();
    let ran = validate(dir.path(), &["."]);
    assert!(ran.stdout.contains("./broken/SKILL.md:1:1: error[unreadable]: "), "{ran:?}");
    assert!(ran.stderr.contains("1 of 2 skills not valid"), "{ran:?}");
    fs::create_dir(dir.path().join("pipe")).unwrap();
    let pipe = dir.path().join("pipe/SKILL.md");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let ran = validate(dir.path(), &["pipe"]);
    assert!(
        ran.stdout.contains("error[unreadable]: it cannot be read: it is not a regular"),
        "{ran:?}"
    );
}

#[test]
fn a_folder_without_permission_is_an_error_and_the_rest_is_judged() {
    let dir = TempDir::new().unwrap();
    good(dir.path(), "good");
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = restricted(BINARY);
    let ran = run(command.args(["validate", "."]).current_dir(dir.path()));
    assert!(ran.stdout.contains("./closed:1:1: error[unreadable]: "), "{ran:?}");
    assert!(ran.stderr.contains("1 of 2 skills not valid"), "{ran:?}");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn foreign_text_cannot_steer_the_terminal() {
    let dir = TempDir::new().unwrap();
    let document = GOOD
        .replace("NAME", "\"a\\u001b[31m\\u202e\"")
        .replace("---\n#", "\"x\\u001b[31m\": y\n---\n#");
    write(dir.path(), "a\u{1b}[31m/SKILL.md", &document);
    let ran = validate(dir.path(), &["."]);
    assert!(ran.stdout.contains("name-character") && !ran.stdout.contains('\u{202e}'), "{ran:?}");
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let dir = TempDir::new().unwrap();
    for arguments in [&[][..], &["--strict", "."], &["--lenient=1", "."]] {
        assert_eq!(validate(dir.path(), arguments).code, Some(2), "{arguments:?}");
    }
}

/// The page has one row for each rule, with its levels and its hint, and no others.
#[test]
fn the_page_lists_every_rule() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/validate.md"));
    let page = page.unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `") && !line.starts_with("| `--"));
    let rows: Vec<&str> = rows.collect();
    let of = |level: Level| level.as_str();
    for rule in RULES {
        let (strict, lenient) = (of(rule.level(Mode::Strict)), of(rule.level(Mode::Lenient)));
        let begins = format!("| `{}` | {strict} | {lenient} | ", rule.code);
        let ends = format!(" | {} |", rule.hint);
        let found = rows.iter().any(|row| row.starts_with(&begins) && row.ends_with(&ends));
        assert!(found, "docs/validate.md has no row {begins}…{ends}");
    }
    assert_eq!(rows.len(), RULES.len() + 1, "and `unreadable`, which is about disks");
}
