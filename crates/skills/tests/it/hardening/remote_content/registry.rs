use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use skills_bus::{Hub, HubConfig};
use skills_core::{
    Digest,
    limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES},
};
use skills_testkit::{CommandOutput, Worker};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{skills, text, tree};

const PAYLOAD: &str = "ssh-ed25519 attacker";
/// Size declared by files named `huge…` and sent for those named `liar…`.
const HUGE: usize = MAX_BUNDLE_BYTES + 1;
const LIE: usize = 1 << 20;
const GOOD: &str = "---\nname: good\ndescription: Good.\n---\n# Good\n";

/// A bus with a registry that gives hostile answers.
struct HostileRegistry {
    url: String,
    /// URIs that were read.
    reads: Arc<Mutex<Vec<String>>>,
    _worker: Worker,
}

impl HostileRegistry {
    /// Serves skills with these ids and file paths. `is_ours` makes it claim the functions beyond the contract.
    async fn start(rows: &[(String, &[&str])], is_ours: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let hub = Hub::new(HubConfig::default());
        tokio::spawn(async move { hub.serve(listener, CancellationToken::new()).await });
        let worker = Worker::connect(&url).await;
        worker.identify().await;
        let file = |path: &&str| {
            let body = if *path == "SKILL.md" { GOOD } else { PAYLOAD };
            let size = if path.starts_with("huge") { HUGE } else { body.len() };
            json!({ "path": path, "size": size, "digest": format!("sha256:{}", Digest::of(body.as_bytes())) })
        };
        let row = |(id, paths): &(String, &[&str])| {
            json!({
                "id": id, "bytes": GOOD.len(), "registered_at": "2026-01-01T00:00:00.000000Z",
                "files": paths.iter().map(file).collect::<Vec<_>>(),
            })
        };
        let rows: Vec<Value> = rows.iter().map(row).collect();
        let prompts = json!([{ "name": "../p", "function_id": "a::b", "registered_at": "" }]);
        let mut answers = BTreeMap::from([
            ("skills::list", json!({ "skills": rows })),
            ("skills::resources-list", json!({ "resources": [] })),
            ("prompts::list", json!({ "prompts": prompts })),
            ("prompts::mcp-list", json!({ "prompts": [] })),
        ]);
        if is_ours {
            let functions = ["skills::catalog", "skills::files"];
            answers.insert("skills::capabilities", json!({ "functions": functions }));
            answers.insert("skills::catalog", json!({ "skills": rows, "next": null }));
        }
        for (function, answer) in answers {
            worker.serve(function, move |_| Some(Ok(answer.clone()))).await;
        }
        let reads = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&reads);
        let read = move |data: Value| {
            let uri = data["uri"].as_str().unwrap_or_default().to_owned();
            noted.lock().unwrap().push(uri.clone());
            let is_root =
                uri.ends_with("SKILL.md") || !uri.trim_start_matches("iii://good").contains('/');
            let body = match is_root {
                true => GOOD.to_owned(),
                false if uri.contains("/liar") => "x".repeat(LIE),
                false => PAYLOAD.to_owned(),
            };
            let content = json!({ "uri": uri, "mimeType": "text/markdown", "text": body });
            Some(Ok(json!({ "contents": [content] })))
        };
        worker.serve("skills::resources-read", read).await;
        Self { url, reads, _worker: worker }
    }
}

/// Creates a home directory with a file to protect and a project in it.
fn victim() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("home/.ssh")).unwrap();
    fs::create_dir_all(dir.path().join("project/.agents/skills")).unwrap();
    fs::write(dir.path().join("home/.bashrc"), "mine").unwrap();
    fs::write(dir.path().join("home/.ssh/authorized_keys"), "mine").unwrap();
    dir
}

/// Ids that resolve outside of `project/.agents/skills` or to nothing.
fn hostile_ids(dir: &Path) -> Vec<String> {
    let mut ids: Vec<String> = [
        "../../../home/.ssh2",
        "../../../../home/.ssh2",
        "../../../home",
        "/etc/x",
        "a/../b",
        "..",
        ".",
        "",
        "a\\..\\b",
    ]
    .map(str::to_owned)
    .into();
    ids.push(text(&dir.join("home/absolute")).to_owned());
    ids
}

fn assert_named(ran: &CommandOutput, ids: &[String]) {
    for id in ids.iter().filter(|id| !id.is_empty()) {
        let shown = id.replace('\\', "\\\\");
        let is_named = ran.stderr.contains(id.as_str()) || ran.stderr.contains(&shown);
        assert!(is_named, "{id:?} is not named: {}", ran.stderr);
    }
}

async fn sync_against(is_ours: bool) {
    let dir = victim();
    let ids = hostile_ids(dir.path());
    let bodies: &[&str] = &["SKILL.md", "authorized_keys", ".bashrc"];
    let bodies = if is_ours { bodies } else { &[] };
    let mut rows: Vec<(String, &[&str])> = ids.iter().map(|id| (id.clone(), bodies)).collect();
    rows.push(("good".to_owned(), if is_ours { &["SKILL.md", "notes.md"] } else { &[] }));
    if is_ours {
        rows.push(("leaks".to_owned(), &["SKILL.md", "../../../../home/.bashrc"]));
        rows.push(("absolute".to_owned(), &["SKILL.md", "/tmp/x"]));
    }
    let registry = HostileRegistry::start(&rows, is_ours).await;
    let before = tree(dir.path());
    let folder = dir.path().join("project/.agents/skills");
    for force in [&[] as &[&str], &["--force"], &["--dry-run"]] {
        let mut arguments = vec!["--url", &registry.url, "sync", text(&folder)];
        arguments.extend(force);
        let ran = skills(&arguments);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_named(&ran, &ids);
        if is_ours {
            assert_named(&ran, &["leaks".to_owned(), "absolute".to_owned()]);
        }
        let mut after = tree(dir.path());
        after.retain(|path, _| !path.starts_with("project/.agents/skills"));
        assert_eq!(after, before, "{force:?}");
        let synced: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(synced.len(), 2, "the record and one skill: {synced:?}");
        assert!(folder.join("good/SKILL.md").is_file(), "{force:?}");
    }
    let ran = skills(&["--url", &registry.url, "sync", text(&folder), "--json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let left_out = answer["left_out"].as_array().unwrap();
    assert!(left_out.iter().any(|row| row["id"] == "../../../home/.ssh2"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sync_with_a_hostile_registry_writes_nothing_outside_its_folder() {
    sync_against(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sync_with_a_hostile_third_party_registry_writes_nothing_outside_its_folder() {
    sync_against(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn export_and_list_of_a_hostile_registry_report_dropped_entries() {
    let dir = victim();
    let ids = hostile_ids(dir.path());
    let mut rows: Vec<(String, &[&str])> =
        ids.iter().map(|id| (id.clone(), &["SKILL.md"] as &[&str])).collect();
    rows.push(("good".to_owned(), &["SKILL.md", "notes.md", ".git/config", "nul.txt"]));
    rows.push(("leaks".to_owned(), &["SKILL.md", "../x"]));
    let registry = HostileRegistry::start(&rows, true).await;
    let before = tree(dir.path());
    let into = dir.path().join("out");
    for id in ids.iter().filter(|id| !id.is_empty()).map(String::as_str).chain(["leaks"]) {
        let ran = skills(&["--url", &registry.url, "export", id, text(&into)]);
        assert_eq!(ran.code, Some(1), "{id}: {}", ran.stdout);
        assert_eq!(tree(dir.path()), before, "{id}");
    }
    let ran = skills(&["--url", &registry.url, "export", "good", text(&into)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_named(&ran, &ids);
    assert!(ran.stderr.contains(".git/config") && ran.stderr.contains("nul.txt"), "{}", ran.stderr);
    let written = tree(&into);
    let written: Vec<&str> = written.keys().map(|path| text(path)).collect();
    assert_eq!(written, ["SKILL.md", "notes.md"]);
    let ran = skills(&["--url", &registry.url, "list"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("good") && !ran.stdout.contains(".."), "{}", ran.stdout);
    assert_named(&ran, &ids);
    assert!(ran.stderr.contains("../p"), "prompts too: {}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bundles_over_the_limits_are_not_read_from_a_hostile_registry() {
    let names = |prefix: &str, count: usize| -> Vec<String> {
        (0..count).map(|number| format!("{prefix}{number}.md")).collect()
    };
    let with_root = |names: &[String]| -> Vec<String> {
        std::iter::once("SKILL.md".to_owned()).chain(names.iter().cloned()).collect()
    };
    let (many, liar) = (with_root(&names("f", MAX_BUNDLE_FILES)), with_root(&names("liar", 100)));
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let liar: Vec<&str> = liar.iter().map(String::as_str).collect();
    let rows: Vec<(String, &[&str])> = vec![
        ("good".to_owned(), &["SKILL.md"]),
        ("many".to_owned(), &many),
        ("twice".to_owned(), &["SKILL.md", "a.md", "a.md"]),
        ("huge".to_owned(), &["SKILL.md", "huge.md"]),
    ];
    let registry = HostileRegistry::start(&rows, true).await;
    let dir = victim();
    let folder = dir.path().join("project/.agents/skills");
    let ran = skills(&["--url", &registry.url, "sync", text(&folder)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_named(&ran, &["many", "twice", "huge"].map(str::to_owned));
    assert!(folder.join("good/SKILL.md").is_file());
    let reads = registry.reads.lock().unwrap().clone();
    assert!(reads.iter().all(|uri| uri == "iii://good"), "of dropped rows: {reads:?}");
    let registry = HostileRegistry::start(&[("good".to_owned(), &liar)], true).await;
    let into = dir.path().join("out");
    let ran = skills(&["--url", &registry.url, "export", "good", text(&into)]);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    let reads = registry.reads.lock().unwrap().len();
    assert!(reads <= 1 + MAX_BUNDLE_BYTES / LIE + 1, "{reads} files were read");
    assert!(!into.exists());
}
