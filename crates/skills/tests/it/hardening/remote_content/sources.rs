//! Sources that a registry or a worker names: `update` runs no program, reads no file and enters no local network for them.

use std::{
    fs,
    net::TcpListener as Listener,
    path::Path,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use skills_bus::{Hub, HubConfig};
use skills_core::Digest;
use skills_testkit::{CommandOutput, Worker, program, run};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{skills, text};
use crate::support::{BINARY, TestServer, read};

const BODY: &str = "---\nname: a\ndescription: A.\n---\n# A\n";
const SECRET: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n";

/// A registry whose only skill, `a`, has the given provenance.
struct NamingRegistry {
    url: String,
    /// Payloads of `skills::register`.
    registered: Arc<Mutex<Vec<Value>>>,
    _worker: Worker,
}

impl NamingRegistry {
    async fn start(source: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let hub = Hub::new(HubConfig::default());
        tokio::spawn(async move { hub.serve(listener, CancellationToken::new()).await });
        let worker = Worker::connect(&url).await;
        worker.identify().await;
        let digest = format!("sha256:{}", Digest::of(BODY.as_bytes()));
        let row = json!({
            "id": "a", "bytes": BODY.len(), "registered_at": "2026-01-01T00:00:00.000000Z",
            "files": [{ "path": "SKILL.md", "size": BODY.len(), "digest": digest }], "source": source,
        });
        let registered = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&registered);
        for (function, answer) in [
            ("skills::list", json!({ "skills": [row] })),
            ("prompts::list", json!({ "prompts": [] })),
            ("prompts::mcp-list", json!({ "prompts": [] })),
            ("skills::capabilities", json!({ "functions": ["skills::catalog", "skills::files"] })),
            ("skills::catalog", json!({ "skills": [row], "next": null })),
        ] {
            worker.serve(function, move |_| Some(Ok(answer.clone()))).await;
        }
        let register = move |data: Value| {
            noted.lock().unwrap().push(data);
            Some(Ok(json!({ "id": "a", "registered_at": "2026-01-01T00:00:00.000000Z" })))
        };
        worker.serve("skills::register", register).await;
        Self { url, registered, _worker: worker }
    }

    /// Runs `update` in every form, none of which may register anything.
    fn update(&self, home: &Path) -> Vec<CommandOutput> {
        let forms: [&[&str]; 4] =
            [&["update"], &["update", "--yes"], &["update", "a"], &["update", "a", "--yes"]];
        let ran = forms.map(|form| {
            let mut command = program(BINARY);
            command.args(["--url", &self.url]).args(form).env("HOME", home).current_dir(home);
            run(&mut command)
        });
        assert!(self.registered.lock().unwrap().is_empty(), "{:?}", self.registered);
        ran.into()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_location_of_a_registry_starts_no_program() {
    let home = tempfile::tempdir().unwrap();
    let mark = home.path().join("mark");
    let touch = format!("touch% {}", text(&mark));
    for location in [
        format!("ext::sh -c {touch} x://y"),
        format!("ext::sh -c {touch}"),
        format!("https:ext::sh -c {touch} ://y"),
        format!("ssh://-oProxyCommand=touch {}/y", text(&mark)),
        format!("git@-oProxyCommand=touch {}:y", text(&mark)),
        format!("--upload-pack=touch {}", text(&mark)),
    ] {
        let registry = NamingRegistry::start(json!({ "kind": "git", "location": location })).await;
        registry.update(home.path());
        assert!(!mark.exists(), "{location} started a program");
    }
    let server = TestServer::new();
    let worker = server.worker().await;
    for source in [
        json!({ "kind": "git", "location": format!("ext::sh -c {touch} x://y") }),
        json!({ "kind": "git", "location": "https://example.com/a", "ref": "--upload-pack=x" }),
        json!({ "kind": "url", "location": "file:///etc/passwd" }),
    ] {
        let input = json!({ "id": "a", "skill": BODY, "source": source });
        assert_eq!(worker.fails("skills::register", input).await.code, "invalid_input", "{source}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_a_registry_names_are_not_read() {
    let home = tempfile::tempdir().unwrap();
    let secret = home.path().join("id_rsa");
    fs::write(&secret, SECRET).unwrap();
    let path = text(&secret).to_owned();
    for source in [
        json!({ "kind": "path", "location": path }),
        json!({ "kind": "path", "location": text(home.path()) }),
        json!({ "kind": "git", "location": format!("file://{}", text(home.path())) }),
    ] {
        let registry = NamingRegistry::start(source.clone()).await;
        let ran = registry.update(home.path()).pop().unwrap();
        assert!(ran.stderr.contains("not added on this machine"), "{source}: {}", ran.stderr);
    }
    // A worker on the bus of the user's own server is no more trusted.
    let server = TestServer::new();
    let worker = server.worker().await;
    let source = json!({ "kind": "path", "location": path });
    worker.ok("skills::register", json!({ "id": "a", "skill": BODY, "source": source })).await;
    let data = server.data_dir();
    for target in [["--url", &server.process.url], ["--data-dir", text(&data)]] {
        let ran = skills(&[&target[..], &["update", "a", "--yes", "--json"]].concat());
        let output = format!("{}{}", ran.stdout, ran.stderr);
        assert!(output.contains("untrusted_source"), "{target:?}: {output}");
        assert_eq!(read(&worker, "iii://a").await, BODY);
    }
}

#[test]
fn files_that_the_user_added_are_read_again_for_the_same_registry() {
    if skills_testkit::needs_embedded_store("copies the file") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (data, other) = (dir.path().join("data"), dir.path().join("other"));
    let document = dir.path().join("a.md");
    fs::write(&document, "# First\n").unwrap();
    let ran = skills(&["--data-dir", text(&data), "add", text(&document)]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    fs::write(&document, "# Second\n").unwrap();
    let ran = skills(&["--data-dir", text(&data), "update", "a", "--yes"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = skills(&["--data-dir", text(&data), "read", "iii://a"]);
    assert_eq!(ran.stdout, "# Second\n");
    // A copy of the store is another registry, for which the user has added nothing.
    fs::create_dir(&other).unwrap();
    for entry in fs::read_dir(&data).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), other.join(entry.file_name())).unwrap();
        }
    }
    fs::write(&document, "# Third\n").unwrap();
    let ran = skills(&["--data-dir", text(&other), "update", "a", "--yes"]);
    assert!(ran.stderr.contains("not added on this machine"), "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_networks_that_a_registry_names_are_not_entered() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let home = tempfile::tempdir().unwrap();
    for source in [
        json!({ "kind": "url", "location": format!("http://{address}/a.zip") }),
        json!({ "kind": "url", "location": format!("https://{address}/a.zip") }),
        json!({ "kind": "url", "location": format!("https://localhost:{}/a.zip", address.port()) }),
        json!({ "kind": "git", "location": format!("http://{address}/a") }),
        json!({ "kind": "git", "location": format!("https://{address}/a") }),
        json!({ "kind": "git", "location": format!("ssh://git@{address}/a") }),
        json!({ "kind": "git", "location": format!("ssh://127.1:{}/a", address.port()) }),
        json!({ "kind": "git", "location": format!("ssh://git@0177.0.0.1:{}/a", address.port()) }),
    ] {
        NamingRegistry::start(source.clone()).await.update(home.path());
        let accepted = listener.accept().map(|_| ()).map_err(|error| error.kind());
        assert_eq!(accepted, Err(std::io::ErrorKind::WouldBlock), "{source}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_location_that_the_user_did_not_add_is_shown_before_it_is_fetched() {
    let home = tempfile::tempdir().unwrap();
    let location = "https://git.invalid/a";
    let registry = NamingRegistry::start(json!({ "kind": "git", "location": location })).await;
    let [asked, agreed, ..] = <[CommandOutput; 4]>::try_from(registry.update(home.path())).unwrap();
    assert!(asked.stderr.contains("not added on this machine"), "{}", asked.stderr);
    assert!(asked.stderr.contains("--yes"), "{}", asked.stderr);
    let shown = format!("fetching: {location}, which the registry names");
    assert!(agreed.stderr.contains(&shown), "{}", agreed.stderr);
}
