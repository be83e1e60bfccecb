use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::{Value, json};
use skills_testkit::{CallFailure, program};

use super::{skills, text};

use crate::support::{BINARY, TestServer, register, terminal::on_terminal};

/// Control sequences that set clipboard and title, clear the screen and hide text.
const ATTACK: &str = "\u{1b}]52;c;aGk=\u{7}\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}2J\u{1b}[8m";

/// Prefixes of these sequences.
const STEERING: [&str; 5] = ["\u{1b}]", "\u{1b}[2J", "\u{7}", "\u{9b}", "\u{1b}[8m"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_text_and_errors_cannot_control_a_terminal() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let body = format!("# Evil{ATTACK}\n\nDoes{ATTACK} harm.\n");
    register(&worker, "evil", &body).await;
    let prompt =
        json!({ "name": "p", "description": format!("d{ATTACK}"), "function_id": "evil::prompt" });
    worker.ok("prompts::register", prompt).await;
    worker.serve("evil::prompt", |_| Some(Ok(json!(format!("say{ATTACK}"))))).await;
    let failed = || CallFailure { code: "x".into(), message: format!("no{ATTACK}") };
    worker.serve("evil::fails", move |_| Some(Err(failed()))).await;
    let url = ["--url", server.process.url.as_str()];
    for arguments in [
        &["list"] as &[&str],
        &["search", "evil"],
        &["show", "evil"],
        &["show", "evil", "--json"],
        &["read", "iii://evil"],
        &["read", "iii://evil", "--json"],
        &["prompt", "list"],
        &["prompt", "get", "p"],
        &["prompt", "get", "p", "--json"],
        &["read", "iii://evil/evil::fails"],
        &["read", "iii://evil/evil::fails", "--json"],
    ] {
        let sent = on_terminal(&[&url[..], arguments].concat());
        assert!(!sent.is_empty(), "{arguments:?}");
        for steering in STEERING {
            assert!(!sent.contains(steering), "{arguments:?}: {sent:?}");
        }
    }
    assert!(on_terminal(&[&url as &[&str], &["read", "iii://evil"]].concat()).contains("␛]52;c;"));
    let failing = ["read", "iii://evil/evil::fails", "--json"];
    let sent = on_terminal(&[&url as &[&str], &failing].concat());
    assert!(sent.contains("\\u009b2J"), "JSON says the same: {sent:?}");
    // A pipe gets every byte.
    assert_eq!(skills(&[&url as &[&str], &["read", "iii://evil"]].concat()).stdout, body);
    let got = skills(&[&url as &[&str], &["prompt", "get", "p"]].concat());
    assert_eq!(got.stdout, format!("say{ATTACK}\n"));
}

#[test]
fn keyspace_export_cannot_control_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let (data, document) = (dir.path().join("data"), dir.path().join("evil.md"));
    fs::write(&document, format!("# Evil{ATTACK}\n\nDoes harm.\n")).unwrap();
    let added = skills(&["--data-dir", text(&data), "add", text(&document)]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    let export = ["--data-dir", text(&data), "export", "--kv"];
    let sent = on_terminal(&export);
    assert!(sent.contains("\\u009b2J"), "{sent:?}");
    for steering in STEERING {
        assert!(!sent.contains(steering), "{sent:?}");
    }
    let line = |text: &str| serde_json::from_str::<Value>(text.lines().next().unwrap()).unwrap();
    let piped = skills(&export).stdout;
    assert!(piped.contains("\u{9b}2J"), "a pipe gets every byte: {piped:?}");
    assert_eq!(line(&sent), line(&piped));
}

#[test]
fn keyspace_export_into_a_closed_pipe_ends_quietly() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // More than a pipe buffer holds.
    for number in 0..4 {
        let path = dir.path().join(format!("d{number}.md"));
        fs::write(&path, format!("# D\n\n{}\n", "x".repeat(200_000))).unwrap();
        let added = skills(&["--data-dir", text(&data), "add", text(&path)]);
        assert_eq!(added.code, Some(0), "{}", added.stderr);
    }
    let mut command = program(BINARY);
    command.args(["--data-dir", text(&data), "export", "--kv"]);
    skills_testkit::select_store(&mut command);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut first).unwrap();
    assert!(first.starts_with('{'), "{first:.80}");
    drop(reader);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    assert!(ended.status.success(), "{:?}", ended.status);
}
