//! `skills validate` for people and scripts.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};
use skills_agent_skills::validate::{FindingLevel, RULES, ValidationMode};
use skills_testkit::{CommandOutput, program, run, unprivileged_program};
use tempfile::TempDir;

use crate::support::{BINARY, keys};

const GOOD: &str = "---\nname: NAME\ndescription: Reads PDF. Use when asked.\n---\n# PDF\n";

/// Runs in a folder, so that paths are short and stable.
fn validate(folder: &Path, arguments: &[&str]) -> CommandOutput {
    let ran = run(program(BINARY).arg("validate").args(arguments).current_dir(folder));
    let steers = ran.stdout.contains('\u{1b}') || ran.stderr.contains('\u{1b}');
    assert!(!steers, "colours without a terminal: {ran:?}");
    ran
}

fn json_of(ran: &CommandOutput) -> Value {
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
fn a_valid_skill_is_accepted_by_any_path() {
    let dir = TempDir::new().unwrap();
    good(dir.path(), "pdf");
    for path in ["pdf", "pdf/", "pdf/SKILL.md", ".", "./pdf/../pdf"] {
        let ran = validate(dir.path(), &[path]);
        let summary = "1 skill, all valid: 0 errors, 0 warnings, 0 advice\n";
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(0), summary, ""),
            "{path}"
        );
    }
    for path in [".", "SKILL.md", "../pdf", "./SKILL.md"] {
        assert_eq!(validate(&dir.path().join("pdf"), &[path]).code, Some(0), "{path}");
    }
}

#[test]
fn findings_have_a_location_a_code_and_a_hint() {
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
fn json_output_lists_findings() {
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

/// Packs files, and links as `(path, target)`, as `.skill` packages are packed.
fn pack(folder: &Path, archive: &str, names: &[&str], links: &[(&str, &str)]) {
    const PACK: &str = r"
import stat, sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as archive:
    for name in sys.argv[2:]:
        if '=' in name:
            path, target = name.split('=')
            link = zipfile.ZipInfo(path)
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            link.create_system = 3
            archive.writestr(link, target)
        else:
            archive.write(name)
";
    let links = links.iter().map(|(path, target)| format!("{path}={target}"));
    let packed = run(program("python3")
        .args(["-c", PACK, archive])
        .args(names)
        .args(links)
        .current_dir(folder));
    assert_eq!(packed.code, Some(0), "{packed:?}");
}

#[test]
fn packages_are_validated_like_folders() {
    let dir = TempDir::new().unwrap();
    good(dir.path(), "pdf");
    write(dir.path(), "pdf/references/r.md", "text");
    write(
        dir.path(),
        "pdf/SKILL.md",
        &format!("{}[r](references/r.md) [x](gone.md)\n", GOOD.replace("NAME", "pdf")),
    );
    let files = ["pdf/SKILL.md", "pdf/references/r.md"];
    pack(dir.path(), "pdf.skill", &files, &[]);
    let packaged = json_of(&validate(dir.path(), &["--json", "pdf.skill"]));
    let unpacked = json_of(&validate(dir.path(), &["--json", "pdf"]));
    assert_eq!(packaged["skills"][0]["path"], "pdf.skill/pdf/SKILL.md");
    assert_eq!(packaged["skills"][0]["findings"], unpacked["skills"][0]["findings"]);
    assert_eq!(packaged["skills"][0]["findings"][0]["code"], "link-missing");
    assert_eq!(packaged["summary"], unpacked["summary"]);

    // A document at the root has no folder, and one that is a link is read inside the archive only.
    write(dir.path(), "SKILL.md", &GOOD.replace("NAME", "another"));
    write(dir.path(), "bad/SKILL.md", "no frontmatter");
    let links = [("same/SKILL.md", "../pdf/SKILL.md"), ("out/SKILL.md", "/etc/passwd")];
    pack(dir.path(), "many.zip", &["SKILL.md", "pdf/SKILL.md", "bad/SKILL.md"], &links);
    let ran = validate(dir.path(), &["--json", "many.zip"]);
    assert_eq!(ran.code, Some(1));
    let answer = json_of(&ran);
    let codes = |path: &str| {
        let mut skills = answer["skills"].as_array().unwrap().iter();
        let skill = skills.find(|skill| skill["path"] == format!("many.zip/{path}SKILL.md"));
        let skill = skill.unwrap_or_else(|| panic!("{path} is missing: {answer:#}"));
        let findings = skill["findings"].as_array().unwrap().iter();
        findings.map(|it| it["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(codes(""), [""; 0]);
    assert_eq!(codes("bad/"), ["frontmatter-missing"]);
    assert_eq!(codes("same/"), ["name-directory", "link-missing", "link-missing"]);
    assert_eq!(codes("out/"), ["unreadable"]);
    assert_eq!(answer["summary"]["skills"], 5);
}

#[test]
fn files_that_are_no_package_are_refused_by_name() {
    let dir = TempDir::new().unwrap();
    write(dir.path(), "text.skill", "# Not an archive\n");
    write(dir.path(), "notes.md", "text");
    write(dir.path(), "README.md", "no skill");
    pack(dir.path(), "empty.skill", &["README.md"], &[]);
    fs::write(dir.path().join("cut.skill"), b"PK\x03\x04").unwrap();
    for (path, code, words) in [
        ("text.skill", "bad_archive", "neither a text document nor an archive"),
        ("cut.skill", "bad_archive", "cut.skill: the archive cannot be read"),
        ("empty.skill", "no_bundle", "there is no SKILL.md in empty.skill"),
        ("notes.md", "no_bundle", "notes.md is not a SKILL.md"),
    ] {
        let ran = validate(dir.path(), &["--json", path]);
        let error: Value = serde_json::from_str(&ran.stderr).unwrap();
        assert_eq!((ran.code, &error["error"]["code"]), (Some(1), &json!(code)), "{path}");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{path}: {message}");
    }
}

#[test]
fn names_in_other_scripts_are_valid() {
    let dir = TempDir::new().unwrap();
    good(dir.path(), "技能");
    assert_eq!(validate(dir.path(), &["."]).code, Some(1));
    assert_eq!(validate(dir.path(), &["--unicode", "."]).code, Some(0));
}

#[test]
fn nested_folders_are_validated() {
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
fn files_ignored_by_git_are_skipped_unless_named() {
    let dir = TempDir::new().unwrap();
    good(dir.path(), "good");
    good(dir.path(), "build/made");
    write(dir.path(), ".gitignore", "/build/\nnotes.md\n");
    write(dir.path(), "good/notes.md", "");
    write(dir.path(), "good/SKILL.md", &format!("{}[n](notes.md)\n", GOOD.replace("NAME", "good")));
    let answer = json_of(&validate(dir.path(), &["--json", "."]));
    let skills = answer["skills"].as_array().unwrap();
    assert_eq!((skills.len(), &skills[0]["path"]), (1, &json!("./good/SKILL.md")));
    // The link points to a file outside the skill.
    assert_eq!(skills[0]["findings"][0]["code"], "link-missing");
    for path in ["build", "build/made", "build/made/SKILL.md"] {
        assert_eq!(validate(dir.path(), &[path]).code, Some(0), "{path}");
    }
}

#[test]
fn a_misspelt_root_document_is_reported() {
    let dir = TempDir::new().unwrap();
    write(dir.path(), "pdf/skill.md", &GOOD.replace("NAME", "pdf"));
    for path in [".", "pdf/skill.md"] {
        let ran = validate(dir.path(), &[path]);
        assert!(ran.stdout.contains("error[file-name]"), "{ran:?}");
    }
    assert_eq!(validate(dir.path(), &["--lenient", "."]).code, Some(0));
}

#[test]
fn unreadable_paths_are_reported() {
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
        ran.stdout.contains("error[unreadable]: cannot read the file: it is not a regular"),
        "{ran:?}"
    );
}

#[test]
fn an_unreadable_folder_is_an_error_and_the_rest_is_validated() {
    let dir = TempDir::new().unwrap();
    good(dir.path(), "good");
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = unprivileged_program(BINARY);
    let ran = run(command.args(["validate", "."]).current_dir(dir.path()));
    assert!(ran.stdout.contains("./closed:1:1: error[unreadable]: "), "{ran:?}");
    assert!(ran.stderr.contains("1 of 2 skills not valid"), "{ran:?}");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn untrusted_text_cannot_control_the_terminal() {
    let dir = TempDir::new().unwrap();
    let document = GOOD
        .replace("NAME", "\"a\\u001b[31m\\u202e\"")
        .replace("---\n#", "\"x\\u001b[31m\": y\n---\n#");
    write(dir.path(), "a\u{1b}[31m/SKILL.md", &document);
    let ran = validate(dir.path(), &["."]);
    assert!(ran.stdout.contains("name-character") && !ran.stdout.contains('\u{202e}'), "{ran:?}");
}

#[test]
fn a_usage_error_exits_with_code_2() {
    let dir = TempDir::new().unwrap();
    for arguments in [&[][..], &["--strict", "."], &["--lenient=1", "."]] {
        assert_eq!(validate(dir.path(), arguments).code, Some(2), "{arguments:?}");
    }
}

/// The page has exactly one row per rule, with its levels and its hint.
#[test]
fn the_page_lists_every_rule() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/validate.md"));
    let page = page.unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `") && !line.starts_with("| `--"));
    let rows: Vec<&str> = rows.collect();
    let of = |level: FindingLevel| level.as_str();
    for rule in RULES {
        let (strict, lenient) =
            (of(rule.level(ValidationMode::Strict)), of(rule.level(ValidationMode::Lenient)));
        let begins = format!("| `{}` | {strict} | {lenient} | ", rule.code);
        let ends = format!(" | {} |", rule.hint);
        let found = rows.iter().any(|row| row.starts_with(&begins) && row.ends_with(&ends));
        assert!(found, "docs/validate.md has no row {begins}…{ends}");
    }
    assert_eq!(rows.len(), RULES.len() + 1, "and `unreadable`, which is about disks");
}
