//! `skills-lock.json`: written, installed, verified and updated.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use serde_json::Value;
use skills_testkit::{Process, program};

use super::{Project, commit, document, git};
use crate::support::{BINARY, TestServer};

const LOCK: &str = "project/skills-lock.json";

fn lock(project: &Project) -> Value {
    serde_json::from_str(&project.read(LOCK)).unwrap()
}

/// Creates a project whose lockfile has the skills of a repository, and which has them installed.
fn installed() -> (Project, String) {
    let project = Project::new();
    let url = project.repository("host/acme/skills", &["pdf", "xlsx"]);
    project.ok(&["add", &url]);
    project.ok(&["sync"]);
    project.ok(&["lock"]);
    (project, url)
}

#[test]
fn what_is_installed_is_locked_and_restored() {
    let (project, url) = installed();
    let entry = &lock(&project)["skills"]["pdf"];
    assert_eq!(entry["source"], url.as_str());
    assert_eq!(entry["sourceType"], "git");
    assert_eq!(entry["skillPath"], "skills/pdf/SKILL.md");
    assert_eq!(entry["computedHash"].as_str().unwrap().len(), 64);
    let text = project.read(LOCK);
    assert!(text.starts_with("{\n  \"version\": 1,\n  \"skills\": {\n    \"pdf\": {\n"), "{text}");
    project.ok(&["lock"]);
    assert_eq!(project.read(LOCK), text, "nothing changed");

    // Another machine has the project without the folder and without a registry.
    fs::remove_dir_all(project.path("project/.agents")).unwrap();
    fs::remove_dir_all(project.path("data")).unwrap();
    assert_eq!(project.error_code(&["verify"]), "lock_mismatch");
    let installed = project.ok(&["install", "--frozen"]);
    assert!(installed.contains("written .agents/skills/pdf (2 files)"), "{installed}");
    assert_eq!(project.read("project/.agents/skills/pdf/notes/a.md"), "# Notes of pdf\n");
    project.ok(&["verify"]);
    assert_eq!(project.read(LOCK), text, "a frozen install does not change the file");
    let again = project.ok(&["install"]);
    assert!(again.contains("written 0, updated 0"), "{again}");
    assert!(project.json(&["outdated"])["skills"][0]["status"] == "current");
}

#[test]
fn an_edited_file_is_never_overwritten_silently() {
    let (project, _) = installed();
    fs::remove_dir_all(project.path("project/.agents")).unwrap();
    project.ok(&["install"]);
    let edited = "project/.agents/skills/pdf/notes/a.md";
    project.put(edited, "Mine.\n");
    project.put("host/acme/skills/skills/pdf/notes/a.md", "Second.\n");
    project.put("host/acme/skills/skills/xlsx/notes/a.md", "Second.\n");
    commit(&project.path("host/acme/skills"), "second");
    let before = project.read(LOCK);

    let plan = project.ok(&["update", "--plan"]);
    assert!(plan.contains("2 skills in skills-lock.json, 2 outdated, 0 failed"), "{plan}");
    assert_eq!(project.read(LOCK), before);
    let asked = project.run(&["update"]);
    assert!(asked.stderr.contains("skills update --yes"), "{}", asked.stderr);
    assert_eq!(project.read(LOCK), before);

    // The unedited skill is updated, the edited one stays, in the folder and in the lockfile.
    assert_eq!(project.error_code(&["update", "--yes"]), "kept");
    assert_eq!(project.read(edited), "Mine.\n");
    assert_eq!(project.read("project/.agents/skills/xlsx/notes/a.md"), "Second.\n");
    let (old, new): (Value, Value) = (serde_json::from_str(&before).unwrap(), lock(&project));
    assert_eq!(old["skills"]["pdf"], new["skills"]["pdf"]);
    assert_ne!(old["skills"]["xlsx"]["computedHash"], new["skills"]["xlsx"]["computedHash"]);
    assert_eq!(project.error_code(&["verify"]), "lock_mismatch");
    assert_eq!(project.error_code(&["install", "--frozen"]), "lock_mismatch");
    assert_eq!(project.read(edited), "Mine.\n");
    assert_eq!(project.error_code(&["install"]), "kept");
    assert_eq!(project.read(edited), "Mine.\n");
    project.ok(&["install", "--force"]);
    assert_eq!(project.read(edited), "Second.\n");
    project.ok(&["verify"]);
}

#[test]
fn a_frozen_install_writes_nothing_if_a_source_has_changed() {
    let (project, _) = installed();
    fs::remove_dir_all(project.path("project/.agents")).unwrap();
    project.put("host/acme/skills/skills/pdf/SKILL.md", document("pdf", "Second."));
    commit(&project.path("host/acme/skills"), "second");
    let before = project.read(LOCK);
    assert_eq!(project.error_code(&["install", "--frozen"]), "lock_mismatch");
    assert!(!project.path("project/.agents/skills/xlsx").exists(), "nothing is written");
    let ran = project.run(&["install"]);
    assert!(ran.stderr.contains("pdf has other content"), "{}", ran.stderr);
    assert_ne!(project.read(LOCK), before);
    project.ok(&["verify"]);
    project.ok(&["install", "--frozen"]);
}

#[test]
fn sync_and_install_leave_the_skills_of_each_other() {
    let (project, _) = installed();
    fs::remove_dir_all(project.path("project/.agents")).unwrap();
    project.ok(&["install"]);
    // The registry loses one skill and gets another.
    project.ok(&["remove", "pdf", "--yes"]);
    project.put("own/notes/SKILL.md", document("notes", "Own."));
    project.ok(&["add", project.path("own").to_str().unwrap()]);
    project.ok(&["sync"]);
    assert!(project.path("project/.agents/skills/pdf/SKILL.md").exists(), "installed");
    assert!(project.path("project/.agents/skills/notes/SKILL.md").exists(), "synced");
    project.ok(&["install"]);
    assert!(project.path("project/.agents/skills/notes/SKILL.md").exists(), "synced");
    // A skill that leaves the lockfile is removed by the next install.
    let mut value = lock(&project);
    value["skills"].as_object_mut().unwrap().remove("xlsx");
    project.put(LOCK, value.to_string());
    project.ok(&["install"]);
    assert!(!project.path("project/.agents/skills/xlsx").exists());
}

#[test]
fn skills_of_a_site_are_locked_with_the_digest_of_their_artifact() {
    let server = TestServer::new();
    let project = Project::new();
    project.put("own/pdf/SKILL.md", document("pdf", "First."));
    project.put("own/pdf/a.md", "A.\n");
    project.put("own/one/SKILL.md", document("one", "First."));
    let own = project.path("own");
    project.ok(&["--url", &server.process.url, "add", own.to_str().unwrap()]);
    let http = &server.process.http;
    project.ok(&["--url", &server.process.url, "sync"]);
    project.ok(&["--url", &server.process.url, "lock", "--from", http]);
    let entry = &lock(&project)["skills"]["pdf"];
    assert_eq!(
        (&entry["source"], &entry["sourceType"]),
        (&"127.0.0.1".into(), &"well-known".into())
    );
    fs::remove_dir_all(project.path("project/.agents")).unwrap();
    project.ok(&["install", "--frozen"]);
    project.ok(&["verify"]);

    project.put("own/pdf/a.md", "B.\n");
    project.ok(&["--url", &server.process.url, "add", own.to_str().unwrap()]);
    let outdated = project.json(&["outdated"]);
    assert_eq!(outdated["skills"][0]["status"], "current", "{outdated}");
    assert_eq!(outdated["skills"][1]["status"], "outdated", "{outdated}");
    project.ok(&["update", "--yes"]);
    assert_eq!(project.read("project/.agents/skills/pdf/a.md"), "B.\n");
    let digest = lock(&project)["skills"]["pdf"]["wellKnownDigest"].as_str().unwrap().to_owned();
    assert!(digest.starts_with("sha256:"), "{digest}");
}

#[test]
fn broken_and_hostile_lockfiles_are_refused() {
    let project = Project::new();
    for command in [&["install"][..], &["verify"], &["outdated"]] {
        assert_eq!(project.error_code(command), "not_found", "{command:?}");
    }
    for text in ["", "{", "[]", r#"{"version":3,"skills":{}}"#, r#"{"version":1,"skills":[]}"#] {
        project.put(LOCK, text);
        for command in [&["install"][..], &["verify"], &["outdated"], &["lock"], &["update"]] {
            assert_eq!(project.error_code(command), "bad_lockfile", "{command:?} {text}");
        }
        assert_eq!(project.read(LOCK), text, "it is left as it is");
    }
    let entry = |name: &str, entry: &str| {
        project.put(LOCK, format!(r#"{{"version":1,"skills":{{"{name}":{entry}}}}}"#));
    };
    let local = r#"{"source":"./x","sourceType":"local","computedHash":"0"}"#;
    for name in ["../x", "/etc", "a/b", ".git", "con", "UPPER"] {
        entry(name, local);
        assert_eq!(project.error_code(&["install"]), "not_all_synced", "{name}");
        assert!(!project.path("project/x").exists() && !project.path("x").exists());
    }
    for source in [
        r#"{"source":"x","sourceType":"node_modules","computedHash":"0"}"#,
        r#"{"source":"ext::sh -c touch% x","sourceType":"git","computedHash":"0"}"#,
        r#"{"source":"http://example.com/a.git","sourceType":"git","computedHash":"0"}"#,
        r#"{"source":"example.com","sourceUrl":"http://example.com","sourceType":"well-known"}"#,
        r#"{"source":"x","sourceType":"git","ref":"--upload-pack=x","sourceUrl":"file:///x"}"#,
        "{}",
    ] {
        entry("a", source);
        assert_eq!(project.error_code(&["install"]), "not_all_synced", "{source}");
    }
}

#[test]
fn files_that_npx_leaves_out_are_added_by_an_install() {
    let project = Project::new();
    let url = project.repository("host/acme/skills", &["pdf"]);
    project.put("host/acme/skills/skills/pdf/metadata.json", "{}\n");
    project.put("host/acme/skills/skills/pdf/lib/__pycache__/a.pyc", "x");
    commit(&project.path("host/acme/skills"), "second");
    project.ok(&["add", &url]);
    project.ok(&["sync"]);
    project.ok(&["lock"]);
    let text = project.read(LOCK);
    // As `npx skills` writes it.
    let folder = project.path("project/.agents/skills/pdf");
    fs::remove_dir_all(project.path("project/.agents")).unwrap();
    project.put("project/.agents/skills/pdf/SKILL.md", document("pdf", "First."));
    project.put("project/.agents/skills/pdf/notes/a.md", "Edited.\n");
    assert_eq!(project.error_code(&["install", "--frozen"]), "kept", "an edited file");
    project.put("project/.agents/skills/pdf/notes/a.md", "# Notes of pdf\n");
    assert_eq!(project.error_code(&["verify"]), "lock_mismatch");
    project.ok(&["install", "--frozen"]);
    assert!(folder.join("metadata.json").exists() && folder.join("lib/__pycache__/a.pyc").exists());
    project.ok(&["verify"]);
    project.ok(&["lock"]);
    assert_eq!(project.read(LOCK), text, "the lockfile stays as it is");
}

/// Starts a command of a project that ends with a signal.
fn start(project: &Project, arguments: &[&str]) -> Process {
    let mut command = program(BINARY);
    command.args(arguments).current_dir(project.path("project"));
    command.env("SKILLS_DATA_DIR", project.path("data")).env("HOME", project.path("home"));
    Process::start(&mut command)
}

#[test]
fn an_interrupted_fetch_changes_neither_folders_nor_the_lockfile() {
    let (project, url) = installed();
    fs::remove_dir_all(project.path("project/.agents")).unwrap();
    // A server that accepts a connection and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let slow = format!("http://{}/a.git", listener.local_addr().unwrap());
    let mut value = lock(&project);
    value["skills"]["xlsx"]["source"] = slow.as_str().into();
    value["skills"]["xlsx"]["sourceUrl"] = slow.as_str().into();
    assert_eq!(value["skills"]["pdf"]["source"], url.as_str());
    project.put(LOCK, value.to_string());
    for arguments in [&["install"][..], &["install", "--frozen"], &["update", "--yes"]] {
        let process = start(&project, arguments);
        let _connection = listener.accept().unwrap();
        process.signal("INT");
        let (code, output) = process.wait();
        assert_eq!(code, Some(1), "{arguments:?}: {output}");
        assert!(!project.path("project/.agents").exists(), "{arguments:?}");
        assert_eq!(project.read(LOCK), value.to_string(), "{arguments:?}");
    }
}

#[test]
fn an_install_that_writes_is_completed() {
    let project = Project::new();
    let names: Vec<String> = (0..200).map(|number| format!("skill-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let url = project.repository("host/acme/skills", &names);
    project.ok(&["add", &url]);
    project.ok(&["sync"]);
    project.ok(&["lock"]);
    fs::remove_dir_all(project.path("project/.agents")).unwrap();
    // A changed source makes the install write the lockfile too.
    project.put("host/acme/skills/skills/skill-7/SKILL.md", document("skill-7", "Second."));
    commit(&project.path("host/acme/skills"), "second");
    let mut process = start(&project, &["install"]);
    let folder = project.path("project/.agents/skills");
    let has_begun = || fs::read_dir(&folder).is_ok_and(|entries| entries.count() > 0);
    while process.is_running() && !has_begun() {
        std::thread::yield_now();
    }
    assert!(process.is_running() && has_begun(), "it ended before it could be interrupted");
    process.signal("INT");
    let (code, output) = process.wait();
    assert_eq!(code, Some(0), "{output}");
    project.ok(&["verify"]);
    project.ok(&["install", "--frozen"]);
}

#[test]
fn a_link_that_another_installer_made_counts_as_installed() {
    let (project, _) = installed();
    fs::create_dir_all(project.path("project/.claude/skills")).unwrap();
    for name in ["pdf", "xlsx"] {
        symlink(
            format!("../../.agents/skills/{name}"),
            project.path(&format!("project/.claude/skills/{name}")),
        )
        .unwrap();
    }
    project.ok(&["verify"]);
    project.ok(&["install", "--frozen"]);
    let link = fs::symlink_metadata(project.path("project/.claude/skills/pdf")).unwrap();
    assert!(link.is_symlink(), "it stays a link");
}

/// Text of `o.txt` that can be split into a text and a script with the same hash of `npx skills`.
const WHOLE: &str = "Read run.sh#!/bin/sh\necho evil\n";

/// Splits a script out of the text of a skill.
fn split_script(project: &Project, folder: &str) {
    project.put(&format!("{folder}/o.txt"), "Read ");
    project.put(&format!("{folder}/run.sh"), "#!/bin/sh\necho evil\n");
}

/// Creates a project with a locked and installed skill whose text can be split.
fn installed_text() -> Project {
    let project = Project::new();
    let url = project.repository("host/acme/skills", &["pdf"]);
    project.put("host/acme/skills/skills/pdf/o.txt", WHOLE);
    commit(&project.path("host/acme/skills"), "second");
    project.ok(&["add", &url]);
    project.ok(&["sync"]);
    project.ok(&["lock"]);
    project
}

/// Removes the digests of the lockfile, as if `npx skills` had written it.
fn remove_digests(project: &Project) {
    let text = project.read(LOCK);
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("bundleDigest")).collect();
    let text = lines.join("\n") + "\n";
    // The field is the last one of an entry.
    project.put(LOCK, text.replace("\",\n    }", "\"\n    }"));
}

#[test]
fn a_script_split_out_of_a_text_is_not_what_is_locked() {
    let project = installed_text();
    let text = project.read(LOCK);
    let folder = "project/.agents/skills/pdf";
    // In the folder.
    split_script(&project, folder);
    let verified = project.run(&["verify"]);
    assert!(verified.stdout.contains("modified .agents/skills/pdf\n"), "{}", verified.stdout);
    project.ok(&["install", "--frozen"]);
    assert_eq!(project.read(&format!("{folder}/o.txt")), WHOLE);
    assert!(!project.path(&format!("{folder}/run.sh")).exists(), "the script is removed");
    project.ok(&["verify"]);

    // In the source: nothing is written.
    split_script(&project, "host/acme/skills/skills/pdf");
    commit(&project.path("host/acme/skills"), "third");
    fs::remove_dir_all(project.path("project/.agents")).unwrap();
    assert_eq!(project.error_code(&["install", "--frozen"]), "lock_mismatch");
    assert!(!project.path(folder).exists());
    let row = &project.json(&["outdated"])["skills"][0];
    assert_eq!(row["status"], "outdated");
    assert_eq!(row["locked"], row["available"], "the hash of npx skills is the same");
    let changed = project.run(&["install"]);
    assert!(changed.stderr.contains("pdf has other content"), "{}", changed.stderr);
    assert_ne!(project.read(LOCK), text);
    project.ok(&["verify"]);
}

#[test]
fn executable_bits_are_locked() {
    let project = installed_text();
    let file = project.path("project/.agents/skills/pdf/o.txt");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(project.error_code(&["verify"]), "lock_mismatch");
    project.ok(&["install", "--frozen"]);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o100, 0);
    project.ok(&["verify"]);
}

#[test]
fn entries_of_npx_are_named_and_get_a_digest_by_an_install() {
    let project = installed_text();
    let with_digest = project.read(LOCK);
    remove_digests(&project);
    let text = project.read(LOCK);
    let words = "1 skill pinned by the hash of npx skills only";
    for arguments in [&["verify"][..], &["install", "--frozen"], &["lock"]] {
        let ran = project.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
        assert_eq!(project.read(LOCK), text, "{arguments:?}");
    }
    assert_eq!(project.json(&["verify"])["skills"][0]["pinned_by"], "npx_hash");

    // A source with other content gives no digest, and is not installed.
    split_script(&project, "host/acme/skills/skills/pdf");
    project.put("host/acme/skills/skills/pdf/b.txt", "B.");
    commit(&project.path("host/acme/skills"), "third");
    let ran = project.run(&["install"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("no digest for pdf: its source has other content"),
        "{}",
        ran.stderr
    );
    assert_eq!(project.read(LOCK), text);
    git(&project.path("host/acme/skills"), &["reset", "--quiet", "--hard", "HEAD~1"]);

    project.ok(&["install"]);
    assert_eq!(project.read(LOCK), with_digest);
    let ran = project.run(&["verify", "--json"]);
    assert!(ran.stdout.contains("\"pinned_by\": \"digest\"") && ran.stderr.is_empty(), "{ran:?}");
}

#[test]
fn an_install_restores_the_executable_bits_that_npx_lost_from_a_site() {
    let server = TestServer::new();
    let project = Project::new();
    project.put("own/pdf/SKILL.md", document("pdf", "First."));
    project.put("own/pdf/metadata.json", "{}\n");
    let script = project.path("own/pdf/tool");
    project.put("own/pdf/tool", "tool\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let (own, url) = (project.path("own"), &server.process.url);
    project.ok(&["--url", url, "add", own.to_str().unwrap()]);
    project.ok(&["--url", url, "sync"]);
    project.ok(&["--url", url, "lock", "--from", &server.process.http]);
    let with_digest = project.read(LOCK);
    remove_digests(&project);
    let copy = project.path("project/.agents/skills/pdf/tool");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
    project.ok(&["verify"]);
    project.ok(&["install"]);
    assert_ne!(fs::metadata(&copy).unwrap().permissions().mode() & 0o100, 0);
    assert_eq!(project.read(LOCK), with_digest);
    project.ok(&["verify"]);
}

#[test]
fn a_digest_that_is_not_one_is_never_ignored() {
    let project = installed_text();
    let text = project.read(LOCK);
    let digest = lock(&project)["skills"]["pdf"]["bundleDigest"].to_string();
    for other in ["null", "1", "\"\"", "\"sha512:0\"", "[]"] {
        project.put(LOCK, text.replace(&digest, other));
        assert_eq!(project.error_code(&["verify"]), "lock_mismatch", "{other}");
        assert_eq!(project.error_code(&["install", "--frozen"]), "lock_mismatch", "{other}");
    }
}

#[test]
fn verify_reports_files_that_nobody_installed() {
    let project = installed_text();
    let folder = "project/.agents/skills/pdf";
    project.put(&format!("{folder}/notes/json.py"), "evil");
    project.put(&format!("{folder}/node_modules/x/index.js"), "evil");
    symlink("/etc/passwd", project.path(&format!("{folder}/link"))).unwrap();
    let ran = project.run(&["verify"]);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            "extra .agents/skills/pdf/link",
            "extra .agents/skills/pdf/node_modules/",
            "extra .agents/skills/pdf/notes/json.py",
            "1 skill in skills-lock.json, 1 problem",
        ]
    );
    assert!(ran.stderr.contains("remove the files that nobody installed"), "{}", ran.stderr);
    assert_eq!(project.error_code(&["verify"]), "lock_mismatch");
    let json: Value = serde_json::from_str(&project.run(&["verify", "--json"]).stdout).unwrap();
    assert_eq!(json["skills"][0]["status"], "extra");
    assert_eq!(json["skills"][0]["extra"].as_array().map(Vec::len), Some(3));
    // An install leaves them, and says so.
    let installed = project.run(&["install", "--frozen"]);
    let words = "nobody installed .agents/skills/pdf/notes/json.py";
    assert!(installed.stderr.contains(words), "{}", installed.stderr);
    // An edited file is no matter of more files.
    project.put(&format!("{folder}/o.txt"), "Edited.");
    let ran = project.run(&["verify"]);
    assert!(ran.stdout.starts_with("modified .agents/skills/pdf\nextra "), "{}", ran.stdout);
}

#[test]
fn a_link_to_a_skill_elsewhere_is_not_what_is_locked() {
    let project = installed_text();
    project.put("elsewhere/pdf/SKILL.md", document("pdf", "Evil."));
    fs::create_dir_all(project.path("project/.claude/skills")).unwrap();
    symlink(project.path("elsewhere/pdf"), project.path("project/.claude/skills/pdf")).unwrap();
    let ran = project.run(&["verify"]);
    assert!(ran.stdout.contains("modified .claude/skills/pdf\n"), "{}", ran.stdout);
}
