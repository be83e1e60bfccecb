use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use skills_testkit::{CommandOutput, Process, ServerProcess, Worker, program, run};

use super::{answer, document, put, put_bundles, skills, surfaces::ask, text, tree};

use crate::support::{BINARY, TestServer, free_address, register, serve_at, wait::eventually};

const RECORD: &str = ".skills-sync.json";

/// Runs `skills sync` in a project with its own home directory.
fn sync(dir: &Path, target: &[&str], arguments: &[&str]) -> CommandOutput {
    let mut command = program(BINARY);
    command.args(target).arg("sync").args(arguments).env("HOME", dir.join("home"));
    let ran = run(command.current_dir(dir.join("project")));
    assert!(!format!("{ran:?}").contains("\\u{1b}"), "colours without a terminal: {ran:?}");
    ran
}

fn summary(ran: &CommandOutput) -> &str {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.stdout.lines().last().unwrap()
}

/// Creates a project and a home directory.
fn create_project(server: &TestServer) -> &Path {
    for name in ["project", "home"] {
        fs::create_dir(server.dir().join(name)).unwrap();
    }
    server.dir()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sync_writes_to_agent_folders_with_the_digests_served_over_mcp() {
    let server = TestServer::new();
    let dir = create_project(&server);
    let url = ["--url", server.process.url.as_str()];
    put_bundles(&dir.join("from"), &["one", "two"]);
    answer(&["--url", &server.process.url, "add", text(&dir.join("from"))]);
    let worker = server.worker().await;
    register(&worker, "plain_notes", "# Plain\n\nNo frontmatter: \"none\".\n").await;
    // Without any agent folder, the folder that most agents read is used.
    assert_eq!(
        summary(&sync(dir, &url, &["--dry-run"])),
        "written 3, updated 0, unchanged 0, removed 0, kept 0, failed 0 (nothing was written)"
    );
    assert!(tree(&dir.join("project")).is_empty());
    assert!(summary(&sync(dir, &url, &[])).starts_with("written 3, "));
    let folder = dir.join("project/.agents/skills");
    let mut synced = tree(&folder);
    assert!(synced.remove(Path::new(RECORD)).is_some());
    let plain = synced.remove(Path::new("plain-notes/SKILL.md")).unwrap();
    assert_eq!(synced, tree(&dir.join("from")));
    assert_eq!(
        String::from_utf8(plain).unwrap(),
        "---\nname: \"plain-notes\"\ndescription: \"No frontmatter: \\\"none\\\".\"\n---\n\n\
         # Plain\n\nNo frontmatter: \"none\".\n"
    );
    let strict = skills(&["validate", text(&folder)]);
    assert_eq!(strict.code, Some(0), "{}", strict.stdout);
    // A verifying host gets the same digests over MCP.
    let record: Value = serde_json::from_slice(&fs::read(folder.join(RECORD)).unwrap()).unwrap();
    for skill in ask(&server, "skills/list", json!({}))["skills"].as_array().unwrap() {
        let name = skill["frontmatter"]["name"].as_str().unwrap();
        let files = record["skills"][name]["files"].as_object().unwrap();
        let digests = skill["resources"].as_array().unwrap();
        assert_eq!(files.len(), digests.len(), "{name}");
        for resource in digests {
            let path =
                resource["uri"].as_str().unwrap().rsplit_once(&format!("{name}/")).unwrap().1;
            assert_eq!(resource["digest"], format!("sha256:{}", files[path].as_str().unwrap()));
        }
    }

    assert!(summary(&sync(dir, &url, &[])).starts_with("written 0, updated 0, unchanged 3, "));
    worker.ok("skills::unregister", json!({ "id": "one" })).await;
    register(&worker, "two", &document("two", "Of one file now.")).await;
    let ran = sync(dir, &url, &[]);
    assert_eq!(summary(&ran), "written 0, updated 1, unchanged 1, removed 1, kept 0, failed 0");
    assert!(ran.stdout.contains("updated .agents/skills/two\n"), "{}", ran.stdout);
    let left: Vec<_> = tree(&folder).into_keys().collect();
    assert_eq!(left, [RECORD, "plain-notes/SKILL.md", "two/SKILL.md"].map(PathBuf::from));
}

#[test]
fn sync_chooses_the_agent_folders() {
    if skills_testkit::needs_embedded_store("expects that an empty data directory has no store") {
        return;
    }
    let server = TestServer::new();
    let dir = create_project(&server);
    let url = ["--url", server.process.url.as_str()];
    put_bundles(&dir.join("from"), &["one"]);
    answer(&["--url", &server.process.url, "add", text(&dir.join("from"))]);
    let has = |folder: &str| dir.join(folder).join("one/SKILL.md").exists();
    fs::create_dir(dir.join("project/.claude")).unwrap();
    assert!(summary(&sync(dir, &url, &[])).starts_with("written 1, "));
    assert!(has("project/.claude/skills") && !has("project/.agents/skills"));
    assert!(summary(&sync(dir, &url, &["--to", "agents"])).starts_with("written 1, "));
    assert!(has("project/.agents/skills"));
    assert!(summary(&sync(dir, &url, &[])).starts_with("written 0, updated 0, unchanged 2, "));
    assert!(summary(&sync(dir, &url, &["--user", "--to", "both"])).starts_with("written 2, "));
    assert!(has("home/.claude/skills") && has("home/.agents/skills"));
    assert!(summary(&sync(dir, &url, &["../x/y", "../z", "../z/"])).starts_with("written 2, "));
    assert!(has("x/y") && has("z"));

    // A link to the other folder is the same folder.
    fs::remove_dir_all(dir.join("project/.claude/skills")).unwrap();
    std::os::unix::fs::symlink("../.agents/skills", dir.join("project/.claude/skills")).unwrap();
    assert!(summary(&sync(dir, &url, &[])).starts_with("written 0, updated 0, unchanged 1, "));
    // A link out of the project is followed only if named.
    fs::remove_file(dir.join("project/.claude/skills")).unwrap();
    std::os::unix::fs::symlink(dir.join("z"), dir.join("project/.claude/skills")).unwrap();
    let ran = sync(dir, &url, &["--json"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("leads_elsewhere"), "{}", ran.stderr);
    assert!(summary(&sync(dir, &url, &[".claude/skills"])).contains("unchanged 1"));

    for wrong in [&["x", "--user"] as &[&str], &["x", "--to", "claude"], &["--to", "nobody"]] {
        assert_eq!(sync(dir, &url, wrong).code, Some(2), "{wrong:?}");
    }
    let nothing = text(&dir.join("nothing")).to_owned();
    let ran = sync(dir, &["--data-dir", &nothing], &["../z", "--json"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("nothing_to_open"), "{}", ran.stderr);
}

#[test]
fn edited_skills_are_kept_and_change_the_exit_status() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let data = text(&dir.join("data")).to_owned();
    fs::create_dir(dir.join("project")).unwrap();
    put_bundles(&dir.join("from"), &["one", "two", "three"]);
    answer(&["--data-dir", &data, "add", text(&dir.join("from"))]);
    put(dir, "project/.agents/skills/three/SKILL.md", "# Mine\n");
    let at = |arguments: &[&str]| sync(dir, &["--data-dir", &data], arguments);
    let ran = at(&[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("three/SKILL.md was not written by a sync"), "{}", ran.stderr);
    put(dir, "project/.agents/skills/one/assets/raw.bin", "edited");
    answer(&["--data-dir", &data, "remove", "one"]);
    let ran = at(&["--json"]);
    assert_eq!(ran.code, Some(1));
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        shown["summary"],
        json!({ "written": 0, "updated": 0, "unchanged": 1, "removed": 0, "kept": 2, "failed": 0 })
    );
    let one = &shown["skills"][0];
    assert_eq!(
        (&one["name"], &one["status"], &one["id"]),
        (&json!("one"), &json!("kept"), &Value::Null)
    );
    assert!(
        one["reason"]
            .as_str()
            .unwrap()
            .ends_with("one/assets/raw.bin was edited since it was written")
    );
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["error"]["code"], "kept");
    assert!(error["error"]["hint"].as_str().unwrap().contains("--force"));

    let forced = at(&["--force"]);
    assert_eq!(summary(&forced), "written 1, updated 0, unchanged 1, removed 1, kept 0, failed 0");
    let mut left = tree(&dir.join("project/.agents/skills"));
    left.remove(Path::new(RECORD)).unwrap();
    fs::remove_dir_all(dir.join("from/one")).unwrap();
    assert_eq!(left, tree(&dir.join("from")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_skills_of_one_folder_name_are_not_mixed() {
    let server = TestServer::new();
    let dir = create_project(&server);
    let worker = server.worker().await;
    register(&worker, "a-pdf", &document("pdf", "Another.")).await;
    register(&worker, "pdf", &document("pdf", "Its own.")).await;
    let ran = sync(dir, &["--url", &server.process.url], &[]);
    assert!(summary(&ran).starts_with("written 1, "));
    assert!(
        ran.stderr.contains("left out: a-pdf: another skill has the same name, pdf"),
        "{}",
        ran.stderr
    );
    let there = fs::read_to_string(dir.join("project/.agents/skills/pdf/SKILL.md")).unwrap();
    assert!(there.contains("Its own."), "{there}");
}

/// Starts `skills sync --watch` and waits for its first sync.
fn start_sync(server: &ServerProcess, folder: &Path) -> Process {
    let mut command = program(BINARY);
    command.args(["--url", &server.url, "sync", "--watch", "--json", text(folder)]);
    let process = Process::start(command.current_dir(std::env::temp_dir()));
    process.stdout.wait_for("\"watching\"");
    process
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_follow_the_registry() {
    let home = tempfile::tempdir().unwrap();
    let (data, folder) = (home.path().join("data"), home.path().join("skills"));
    let bus = free_address().to_string();
    let server = serve_at(&bus, &data);
    let worker = Worker::connect(&server.url).await;
    register(&worker, "one", &document("one", "First.")).await;
    let watch = start_sync(&server, &folder);
    let has = |path: &str, words: &str| {
        fs::read_to_string(folder.join(path)).is_ok_and(|text| text.contains(words))
    };
    assert!(has("one/SKILL.md", "First."), "what is there is written before it says so");
    register(&worker, "two", &document("two", "")).await;
    eventually("the new one", async || has("two/SKILL.md", "two")).await;
    register(&worker, "one", &document("one", "Second.")).await;
    eventually("the new version", async || has("one/SKILL.md", "Second.")).await;
    put(&folder, "one/SKILL.md", "mine");
    worker.ok("skills::unregister", json!({ "id": "two" })).await;
    eventually("the removal", async || !folder.join("two").exists()).await;
    watch.stdout.wait_for("was edited since");

    // A lost registry removes nothing.
    let (code, _, output) = server.stop();
    assert_eq!(code, Some(0), "{output}");
    let server = serve_at(&bus, &data);
    let worker = Worker::connect(&server.url).await;
    register(&worker, "three", &document("three", "")).await;
    eventually("the one after the restart", async || has("three/SKILL.md", "three")).await;
    assert!(has("one/SKILL.md", "mine"));
    watch.signal("TERM");
    let (code, output) = watch.wait();
    assert_eq!(code, Some(0), "{output}");

    // Through the data directory, first with a server and then without one.
    let mut command = program(BINARY);
    command.args(["--data-dir", text(&data), "sync", "--watch", "--json", text(&folder)]);
    let watch = Process::start(command.current_dir(std::env::temp_dir()));
    watch.stdout.wait_for("\"watching\"");
    register(&worker, "four", &document("four", "")).await;
    eventually("the fourth", async || has("four/SKILL.md", "four")).await;
    let (code, _, output) = server.stop();
    assert_eq!(code, Some(0), "{output}");
    put(home.path(), "five/SKILL.md", document("five", ""));
    answer(&["--data-dir", text(&data), "add", text(&home.path().join("five"))]);
    eventually("the fifth", async || has("five/SKILL.md", "five")).await;
}
