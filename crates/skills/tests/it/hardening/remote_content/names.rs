use std::fs;

use serde_json::{Value, json};

use super::{skills, text, tree};

use crate::support::{TestServer, read};

const ROOT: &str = "---\nname: old\ndescription: Old.\n---\n# Old\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_folders_and_reserved_names_are_refused_on_every_import_path() {
    let server = TestServer::new();
    let worker = server.worker().await;
    for path in [
        ".git/config",
        ".GIT/config",
        "a/.g\u{200c}it/config",
        "git~1/config",
        "CON",
        "nul.txt",
        "a:b",
        "a\u{202e}b",
        &"x".repeat(256),
    ] {
        let files = json!({ path: "x" });
        let skill = json!({ "id": "evil", "skill": ROOT, "files": files });
        let failure = worker.fails("skills::register", skill).await;
        assert_eq!(failure.code, "invalid_path", "{path}: {}", failure.message);
    }
    let bundle = server.dir().join("bundle");
    fs::create_dir_all(bundle.join(".Git")).unwrap();
    fs::write(bundle.join("SKILL.md"), ROOT).unwrap();
    fs::write(bundle.join(".Git/config"), "[core]\n\tfsmonitor = id\n").unwrap();
    let added = skills(&["--url", &server.process.url, "add", text(&bundle)]);
    assert_eq!(added.code, Some(1));
    assert!(added.stderr.contains(".Git/config"), "{}", added.stderr);
    let validated = skills(&["validate", text(&bundle), "--json"]);
    assert!(validated.stdout.contains("file-path"), "{}", validated.stdout);
    // A skill id may be a device name; a folder name may not.
    let skill = json!({ "id": "con", "skill": "# Con\n" });
    worker.ok("skills::register", skill).await;
    let folder = server.dir().join("synced");
    let synced = skills(&["--url", &server.process.url, "sync", text(&folder)]);
    assert_eq!(synced.code, Some(0), "{}", synced.stderr);
    assert!(synced.stderr.contains("con"), "{}", synced.stderr);
    assert!(!folder.join("con").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_content_with_a_git_folder_is_readable_and_never_exported() {
    if skills_testkit::needs_embedded_store("changes a row of the file") {
        return;
    }
    let server = TestServer::new();
    let worker = server.worker().await;
    let files = json!({ "xgit/config": "[core]\n", "ok.md": "# Ok\n" });
    worker.ok("skills::register", json!({ "id": "old", "skill": ROOT, "files": files })).await;
    drop(worker);
    // Stores it as an earlier version did.
    let database = server.data_dir().join("skills.db");
    let server = server.restart_after(|| {
        let database = rusqlite::Connection::open(&database).unwrap();
        let sql = "UPDATE version SET content = replace(content, 'xgit/config', '.git/config')";
        assert_eq!(database.execute(sql, []).unwrap(), 1);
    });
    server.process.stderr.wait_for(".git/config");
    let worker = server.worker().await;
    assert_eq!(read(&worker, "iii://old/.git/config").await, "[core]\n");
    let into = server.dir().join("out");
    let exported = skills(&["--url", &server.process.url, "export", "old", text(&into)]);
    assert_eq!(exported.code, Some(0), "{}", exported.stderr);
    assert!(exported.stderr.contains(".git/config"), "{}", exported.stderr);
    let paths = |dir| tree(dir).into_keys().map(|path| text(&path).to_owned()).collect::<Vec<_>>();
    assert_eq!(paths(&into), ["SKILL.md", "ok.md"]);
    let folder = server.dir().join("synced");
    for _ in 0..2 {
        let synced = skills(&["--url", &server.process.url, "sync", text(&folder)]);
        assert_eq!(synced.code, Some(0), "{}", synced.stderr);
        assert!(synced.stderr.contains(".git/config"), "{}", synced.stderr);
        assert_eq!(paths(&folder), [".skills-sync.json", "old/SKILL.md", "old/ok.md"]);
    }
    let json = skills(&["--url", &server.process.url, "export", "old", text(&into), "--json"]);
    let answer: Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(answer["left_out"][0].as_str().unwrap().contains(".git/config"), "{answer}");
}
