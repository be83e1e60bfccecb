//! `skills add` from sites, servers, marketplaces and repositories over http.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    os::unix::fs::symlink,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::json;
use skills_testkit::program;

use super::{Project, commit, document, git};
use crate::support::{BINARY, TestServer, static_site::StaticSite};

#[test]
fn a_repository_is_fetched_over_http_at_a_reference() {
    let project = Project::new();
    project.repository("site/acme.git", &["pdf"]);
    let first = git(&project.path("site/acme.git"), &["rev-parse", "HEAD"]);
    git(&project.path("site/acme.git"), &["tag", "v1"]);
    project.put("site/acme.git/skills/pdf/SKILL.md", document("pdf", "Second."));
    commit(&project.path("site/acme.git"), "second");
    let site = StaticSite::start(&project.path("site"));
    // The repository is not bare: its git directory is served.
    let url = format!("{}/acme.git", site.origin);
    project.ok(&["add", &format!("{url}@v1")]);
    let shown = project.json(&["show", "pdf"]);
    assert_eq!(shown["source"]["commit"], first.as_str());
    assert_eq!(
        (&shown["source"]["location"], &shown["source"]["ref"]),
        (&url.clone().into(), &"v1".into())
    );
    project.ok(&["add", &url]);
    assert!(project.json(&["show", "pdf"])["skill"].as_str().unwrap().contains("Second."));
}

#[test]
fn a_site_is_added_with_all_its_skills() {
    let server = TestServer::new();
    let project = Project::new();
    project.put("own/pdf/SKILL.md", document("pdf", "First."));
    project.put("own/pdf/run.sh", "#!/bin/sh\n");
    project.put("own/one/SKILL.md", document("one", "First."));
    let own = project.path("own");
    project.ok(&["--url", &server.process.url, "add", own.to_str().unwrap()]);
    let added = project.ok(&["add", &server.process.http]);
    assert!(added.contains("added 2, changed 0"), "{added}");
    let shown = project.json(&["show", "pdf"]);
    assert_eq!(shown["source"]["kind"], "url");
    assert_eq!(shown["source"]["location"], format!("{}/", server.process.http));
    assert_eq!(shown["source"]["path"], "pdf");
    // Updates know the site again.
    project.put("own/one/SKILL.md", document("one", "Second."));
    project.ok(&["--url", &server.process.url, "add", own.to_str().unwrap()]);
    let updated = project.ok(&["update", "--yes"]);
    assert!(updated.contains("changed 1, unchanged 1"), "{updated}");
    assert!(project.json(&["show", "one"])["skill"].as_str().unwrap().contains("Second."));
}

#[test]
fn a_site_below_a_path_is_added_and_updated() {
    let server = TestServer::new();
    let project = Project::new();
    project.put("own/pdf/SKILL.md", document("pdf", "First."));
    project.put("own/one/SKILL.md", document("one", "First."));
    let own = project.path("own");
    let publish = || project.ok(&["--url", &server.process.url, "add", own.to_str().unwrap()]);
    publish();
    let http = &server.process.http;
    let added = project.ok(&["add", &format!("{http}/skill/pdf")]);
    assert!(added.contains("registered iii://pdf"), "{added}");
    assert_eq!(project.json(&["show", "pdf"])["source"]["location"], format!("{http}/skill/pdf/"));
    let index = format!("{http}/official/.well-known/agent-skills/index.json");
    project.ok(&["add", &index, "--on-conflict", "skip"]);
    assert_eq!(project.json(&["list"])["skills"].as_array().map(Vec::len), Some(2));
    for id in ["pdf", "one"] {
        project.put(&format!("own/{id}/SKILL.md"), document(id, "Second."));
    }
    publish();
    let updated = project.ok(&["update", "--yes"]);
    assert!(updated.contains("changed 2"), "{updated}");
    // What is neither keeps the message of git.
    let ran = project.run(&["add", &format!("{http}/absent")]);
    assert!(
        ran.stderr.contains("cannot fetch") && ran.stderr.contains("repository"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_site_that_lists_its_files_obeys_the_exclusions_of_folders() {
    let project = Project::new();
    let files = ["SKILL.md", "a.md", "node_modules/x/index.js", "sub/.git/config", "__MACOSX/._a"];
    for path in files {
        project.put(&format!("site/.well-known/skills/pdf/{path}"), "x");
    }
    project.put("site/.well-known/skills/pdf/SKILL.md", document("pdf", "First."));
    let index = json!({"skills": [{"name": "pdf", "description": "d", "files": files}]});
    project.put("site/.well-known/skills/index.json", index.to_string());
    let site = StaticSite::start(&project.path("site"));
    let added = project.ok(&["add", &format!("{}/.well-known/skills/index.json", site.origin)]);
    assert!(added.contains("registered iii://pdf (2 files"), "{added}");
}

#[test]
fn copies_in_generated_folders_are_not_preferred() {
    let server = TestServer::new();
    let project = Project::new();
    project.put("own/pdf/SKILL.md", document("pdf", "First."));
    let own = project.path("own");
    project.ok(&["--url", &server.process.url, "add", own.to_str().unwrap()]);
    project.ok(&["add", &format!("{}/git/all.git", server.process.http)]);
    assert_eq!(project.json(&["show", "pdf"])["source"]["path"], "skills/pdf");
}

#[test]
fn a_skill_of_another_server_is_added_in_a_version() {
    let server = TestServer::new();
    let project = Project::new();
    let own = project.path("own");
    let add = |body: &str| {
        project.put("own/one/SKILL.md", document("one", body));
        project.ok(&["--url", &server.process.url, "add", own.to_str().unwrap()]);
    };
    add("First.");
    project.ok(&["--url", &server.process.url, "label", "one@1", "stable"]);
    add("Second.");
    let address = format!("skills+{}/one", server.process.http);
    project.ok(&["add", &format!("{address}@stable")]);
    assert!(project.json(&["show", "one"])["skill"].as_str().unwrap().contains("First."));
    project.ok(&["add", &format!("{address}@2")]);
    let shown = project.json(&["show", "one"]);
    assert!(shown["skill"].as_str().unwrap().contains("Second."), "{shown}");
    assert_eq!(shown["source"]["ref"], "2");
    project.ok(&["add", &address]);
    for absent in ["absent", "one@9", "one@absent"] {
        let url = format!("skills+{}/{absent}", server.process.http);
        assert_eq!(project.error_code(&["add", &url]), "fetch_failed", "{absent}");
    }
}

#[test]
fn a_marketplace_is_added_with_its_repositories_and_archives() {
    let project = Project::new();
    project.repository("site/plugins.git", &["pdf", "xlsx", "other"]);
    let server = TestServer::new();
    project.put("own/web/SKILL.md", document("web", "First."));
    project.put("own/web/a.md", "A.\n");
    let own = project.path("own");
    project.ok(&["--url", &server.process.url, "add", own.to_str().unwrap()]);
    let archive = skills_testkit::Request::get("/.well-known/agent-skills/web.tar.gz")
        .send(&server.process.http);
    fs::write(project.path("site/web.tar.gz"), &archive.body).unwrap();
    let digest = skills_core::Digest::of(&archive.body).to_string();
    let site = StaticSite::start(&project.path("site"));
    let repository = format!("{}/plugins.git", site.origin);
    let subdir = |path: &str| json!({"source": "git-subdir", "url": repository, "path": path});
    let market = |sha256: &str| {
        json!({
            "name": "acme", "owner": {"name": "Acme"},
            "plugins": [
                {"name": "pdf", "source": subdir("skills/pdf")},
                {"name": "xlsx", "source": subdir("./skills/xlsx")},
                {"name": "web", "source": {"source": "archive", "url": format!("{}/web.tar.gz", site.origin), "sha256": sha256}},
                {"name": "here", "source": "./skills/here"},
            ],
        })
    };
    let url = format!("{}/.claude-plugin/marketplace.json", site.origin);
    project.put("site/.claude-plugin/marketplace.json", market(&digest).to_string());
    let ran = project.run(&["add", &url]);
    assert!(ran.stdout.contains("added 3, "), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("plugin \"here\""), "{}", ran.stderr);
    let listed = project.json(&["list"]);
    assert_eq!(listed["skills"].as_array().map(Vec::len), Some(3), "{listed}");
    let fetches = site.requests();
    let fetches = fetches.iter().filter(|path| path.contains("info/refs")).count();
    assert_eq!(fetches, 1, "a repository is fetched once");
    project.put("site/.claude-plugin/marketplace.json", market(&"0".repeat(64)).to_string());
    let ran = project.run(&["add", &url]);
    assert!(ran.stderr.contains("its SHA-256 is"), "{}", ran.stderr);
    project.put("site/.claude-plugin/marketplace.json", "{}");
    assert_eq!(project.error_code(&["add", &url]), "fetch_failed");
}

#[test]
fn http_is_for_this_machine_unless_it_is_allowed() {
    let project = Project::new();
    for source in ["http://192.0.2.1/a.git", "http://192.0.2.1", "skills+http://192.0.2.1/a"] {
        assert_eq!(project.error_code(&["add", source]), "bad_argument", "{source}");
    }
    let hint = project.run(&["add", "http://192.0.2.1/a.git"]);
    assert!(hint.stderr.contains("--insecure"), "{}", hint.stderr);
}

#[test]
fn the_configuration_sets_the_host_of_repositories() {
    let project = Project::new();
    project.repository("host/acme/skills", &["pdf"]);
    project.put(
        "project/config.yaml",
        format!("git_host: file://{}\n", project.path("host").display()),
    );
    project.ok(&["add", "acme/skills"]);
    project.put("project/config.yaml", "git_host: \"-x\"\n");
    assert_eq!(project.error_code(&["--config", "config.yaml", "list"]), "bad_setting");
}

#[test]
fn path_tricks_in_a_repository_do_not_leave_it() {
    let project = Project::new();
    let url = project.repository("host/acme/skills", &["good"]);
    let skills = project.path("host/acme/skills/skills");
    project.put("secret", "s3cret");
    for (name, link) in [("link", "../../../../../secret"), ("absolute", "/etc/passwd")] {
        project.put(&format!("host/acme/skills/skills/{name}/SKILL.md"), document(name, "x"));
        symlink(link, skills.join(name).join("file")).unwrap();
    }
    fs::create_dir_all(skills.join("linked")).unwrap();
    symlink("../../../../../secret", skills.join("linked/SKILL.md")).unwrap();
    for (name, file) in [("case", "A.md"), ("case", "a.md"), ("device", "nul.txt"), ("dots", "a ")]
    {
        project.put(&format!("host/acme/skills/skills/{name}/SKILL.md"), document(name, "x"));
        project.put(&format!("host/acme/skills/skills/{name}/{file}"), "x");
    }
    commit(&project.path("host/acme/skills"), "tricks");
    let ran = project.run(&["add", &url, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["summary"]["added"], 1, "{report}");
    assert!(!ran.stdout.contains("s3cret") && !ran.stdout.contains("root:"), "{report}");
    assert_eq!(project.json(&["list"])["skills"][0]["id"], "good");
}

#[test]
fn an_interrupted_fetch_leaves_nothing_behind() {
    let project = Project::new();
    // A server that accepts a connection and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a.git", listener.local_addr().unwrap());
    let temporary = project.path("tmp");
    fs::create_dir(&temporary).unwrap();
    let mut command = program(BINARY);
    command.args(["add", &url]).current_dir(project.path("project"));
    command.env("SKILLS_DATA_DIR", project.path("data")).env("TMPDIR", &temporary);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _connection = listener.accept().unwrap();
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 1, "the repository");
    let pid = child.id().to_string();
    assert!(
        std::process::Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success()
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("interrupted"), "{stderr}");
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "the repository is removed");
    assert!(!project.path("data/skills.sqlite").exists());
}

#[test]
fn names_that_git_would_not_check_out_stay_out() {
    let project = Project::new();
    let url = project.repository("host/acme/skills", &["good"]);
    let repository = project.path("host/acme/skills");
    let object = |kind: &str, text: &str| {
        project.put("object", text);
        let path = project.path("object");
        let arguments = ["hash-object", "-w", "-t", kind, "--literally", path.to_str().unwrap()];
        git(&repository, &arguments)
    };
    let tree = |entries: &[(&str, &str, &str)]| {
        project.put("tree", "");
        let mut lines = String::new();
        for (kind, id, name) in entries {
            let mode = if *kind == "tree" { "040000" } else { "100644" };
            lines.push_str(&format!("{mode} {kind} {id}\t{name}\n"));
        }
        project.put("tree", lines);
        let list = fs::File::open(project.path("tree")).unwrap();
        let mut mktree = std::process::Command::new("git");
        let output = mktree.arg("mktree").current_dir(&repository).stdin(list).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let file = object("blob", "[core]\nfsmonitor = touch owned\n");
    let below = tree(&[("blob", &file, "config")]);
    let climb = object("blob", &document("climb", "x"));
    let climb = tree(&[("tree", &below, ".."), ("blob", &climb, "SKILL.md")]);
    let hidden = object("blob", &document("hidden", "x"));
    let hidden = tree(&[("tree", &below, ".git"), ("blob", &hidden, "SKILL.md")]);
    let root = tree(&[("tree", &climb, "climb"), ("tree", &hidden, "hidden")]);
    let head = git(&repository, &["commit-tree", "-p", "HEAD", "-m", "tricks", &root]);
    git(&repository, &["update-ref", "HEAD", &head]);
    let ran = project.run(&["add", &url, "--json"]);
    assert!(!ran.stdout.is_empty(), "{}", ran.stderr);
    for row in project.json(&["list"])["skills"].as_array().unwrap() {
        let shown = project.json(&["show", row["id"].as_str().unwrap()]);
        let files = shown["files"].as_array().unwrap().iter();
        let paths: Vec<&str> = files.map(|file| file["path"].as_str().unwrap()).collect();
        assert_eq!(paths, ["SKILL.md"], "{shown}");
    }
    assert!(!project.path("project/owned").exists() && !repository.join("owned").exists());
}

#[test]
fn an_import_through_a_server_is_one_commit() {
    let server = TestServer::new();
    let project = Project::new();
    let names: Vec<String> = (0..60).map(|number| format!("skill-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let url = project.repository("host/acme/skills", &names);
    project.ok(&["--url", &server.process.url, "add", &url]);
    let remote = format!("{}/git/all.git", server.process.http);
    let clone = project.path("clone");
    git(&project.path("project"), &["clone", "--quiet", &remote, clone.to_str().unwrap()]);
    assert_eq!(git(&clone, &["rev-list", "--count", "HEAD"]), "1");
    assert_eq!(fs::read_dir(clone.join("skills")).unwrap().count(), 60);
    // A source of the configuration that changes is one more.
    for name in &names[..5] {
        let path = format!("host/acme/skills/skills/{name}/SKILL.md");
        project.put(&path, document(name, "Second."));
    }
    commit(&project.path("host/acme/skills"), "second");
    let source = serde_json::json!({ "sources": [
        { "name": "acme", "from": url, "tier": "official", "label": "stable" },
    ] });
    project.put("project/config.yaml", source.to_string());
    let data = server.data_dir();
    project.ok(&["--data-dir", data.to_str().unwrap(), "source", "sync"]);
    git(&clone, &["pull", "--quiet", "--ff-only"]);
    assert_eq!(git(&clone, &["rev-list", "--count", "HEAD"]), "2");
    let text = fs::read_to_string(clone.join("skills/skill-0/SKILL.md")).unwrap();
    assert!(text.contains("Second."), "{text}");
}

/// Spellings of addresses of this machine that some program resolves.
const SPELLINGS_OF_THIS_MACHINE: [&str; 20] = [
    "127.0.0.1",
    "127.1",
    "0x7f.1",
    "0x7f000001",
    "0177.0.0.1",
    "0177.1",
    "2130706433",
    "017700000001",
    "%31%32%37.0.0.1",
    "127.0.0.1.",
    "127.1.",
    "0",
    "0.0.0.0",
    "localhost",
    "LOCALHOST.",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[64:ff9b::127.0.0.1]",
    "[::]",
];

/// Listener that closes every connection and counts it.
struct CountingListener {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl CountingListener {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // IPv6 may be off.
        let listener_v6 = TcpListener::bind(("::1", port)).ok();
        let connections = Arc::new(AtomicUsize::new(0));
        for listener in [Some(listener), listener_v6].into_iter().flatten() {
            let counted = Arc::clone(&connections);
            thread::spawn(move || {
                for _connection in listener.incoming().flatten() {
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        Self { port, connections }
    }
}

#[test]
fn a_marketplace_cannot_redirect_git_to_another_server() {
    let project = Project::new();
    let (market, other) = (TcpListener::bind("127.0.0.1:0").unwrap(), CountingListener::start());
    let origin = format!("http://{}", market.local_addr().unwrap());
    let source = json!({"source": "url", "url": format!("{origin}/x.git")});
    let listing = json!({"plugins": [{"name": "x", "source": source}]}).to_string();
    let listing = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{listing}", listing.len());
    let redirect = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{}/x.git/info/refs?service=git-upload-pack\r\n\
         Content-Length: 0\r\n\r\n",
        other.port
    );
    thread::spawn(move || {
        for mut stream in market.incoming().flatten() {
            // Reads the whole head, so that closing the connection resets nothing.
            let head: Vec<String> = BufReader::new(&stream)
                .lines()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let is_listing = head.iter().any(|line| line.contains("marketplace.json"));
            let _ = stream.write_all(if is_listing { &listing } else { &redirect }.as_bytes());
        }
    });
    let code = project.error_code(&["add", &format!("{origin}/marketplace.json")]);
    assert_eq!(code, "fetch_failed");
    assert_eq!(other.connections.load(Ordering::SeqCst), 0);
}

#[test]
fn a_marketplace_cannot_reach_this_machine_by_any_spelling_of_its_address() {
    let project = Project::new();
    fs::create_dir_all(project.path("site/.claude-plugin")).unwrap();
    let site = StaticSite::start(&project.path("site"));
    let (mut plugins, mut listeners, mut ssh_config) = (vec![], vec![], String::new());
    let mut add = |repository: String, listener: CountingListener| {
        plugins.push(json!({"name": "x", "source": {"source": "url", "url": repository}}));
        listeners.push((repository, listener));
    };
    for host in SPELLINGS_OF_THIS_MACHINE {
        for scheme in ["ssh://git@", "https://"] {
            let listener = CountingListener::start();
            add(format!("{scheme}{host}:{}/x.git", listener.port), listener);
        }
        if !host.contains(['%', '[']) {
            // This form has no port.
            let listener = CountingListener::start();
            ssh_config.push_str(&format!("Host {host}\n  Port {}\n", listener.port));
            add(format!("git@{host}:x"), listener);
        }
    }
    project.put("ssh_config", ssh_config);
    let market = json!({"name": "acme", "owner": {"name": "Acme"}, "plugins": plugins});
    project.put("site/.claude-plugin/marketplace.json", market.to_string());
    let mut command = project.command(&["add"]);
    command.arg(format!("{}/.claude-plugin/marketplace.json", site.origin));
    let ssh =
        format!("ssh -o StrictHostKeyChecking=no -F {}", project.path("ssh_config").display());
    let ran = skills_testkit::run(command.env("GIT_SSH_COMMAND", ssh));
    assert_eq!(ran.code, Some(1), "{}{}", ran.stdout, ran.stderr);
    let reached: Vec<&str> = listeners
        .iter()
        .filter(|(_, listener)| listener.connections.load(Ordering::SeqCst) > 0)
        .map(|(repository, _)| repository.as_str())
        .collect();
    assert_eq!(reached, Vec::<&str>::new());
}
