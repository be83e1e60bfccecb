//! Listening addresses and the banner.

use std::net::TcpListener;

use serde_json::{Value, json};
use skills_testkit::{CommandOutput, Request, ServerProcess, program, run};

use crate::support::{BINARY, TestServer, register, wait::eventually};

/// Requests a path and returns status and body.
fn get(http: &str, path: &str) -> (u16, Value) {
    let answer = Request::get(path).send(http);
    (answer.status, answer.json())
}

/// Runs `skills serve` with addresses that must fail, and returns whether it created data.
fn refused(bus: &str, http: &str) -> (CommandOutput, bool) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut command = program(BINARY);
    command.args(["serve", "--bus", bus, "--http", http, "--data-dir"]).arg(&data);
    let ran = run(&mut command);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    (ran, data.exists())
}

#[tokio::test]
async fn health_and_readiness_are_answered() {
    let server = TestServer::new();
    assert_eq!(get(&server.process.http, "/healthz"), (200, json!({ "status": "ok" })));
    // The search index of an empty registry is built in no time, and yet later.
    let ready = (200, json!({ "status": "ready" }));
    eventually("it is ready", async || get(&server.process.http, "/readyz") == ready).await;
    let (status, body) = get(&server.process.http, "/nothing");
    assert_eq!((status, &body["error"]["code"]), (404, &json!("not_found")));
}

#[tokio::test]
async fn the_banner_shows_addresses_and_entry_counts() {
    if skills_testkit::needs_embedded_store("expects the data directory in the banner") {
        return;
    }
    let server = TestServer::new();
    let output = server.process.stderr.contents();
    assert!(output.starts_with(&format!("skills {} is serving\n", env!("CARGO_PKG_VERSION"))));
    assert!(output.ends_with("data (0 skills, 0 prompts)\n"), "{output}");
    assert!(!output.contains(":0\n"), "{output}");
    let worker = server.worker().await;
    register(&worker, "a", "# A").await;
    register(&worker, "b", "# B").await;
    let prompt = json!({ "name": "p", "description": "d", "function_id": "a::b" });
    worker.ok("prompts::register", prompt).await;
    drop(worker);
    let server = server.restart();
    let output = server.process.stderr.contents();
    assert!(output.ends_with("data (2 skills, 1 prompt)\n"), "{output}");
}

#[test]
fn two_servers_use_different_ports() {
    let (one, two) = (TestServer::new(), TestServer::new());
    assert_ne!(one.process.url, two.process.url);
    assert_ne!(one.process.http, two.process.http);
}

#[test]
fn a_taken_bus_port_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (ran, made_data) = refused(&address, "127.0.0.1:0");
    assert!(ran.stderr.contains(&format!("{address} is in use")), "{}", ran.stderr);
    assert!(ran.stderr.contains("iii engine"), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("--url ws://{address}")), "{}", ran.stderr);
    assert!(ran.stderr.contains("--bus 127.0.0.1:0"), "{}", ran.stderr);
    assert!(!made_data, "a server that does not start leaves nothing behind");
}

#[test]
fn a_taken_http_port_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (ran, _) = refused("127.0.0.1:0", &address);
    assert!(ran.stderr.contains(&format!("cannot listen on {address}")), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: ") && ran.stderr.contains("--http"), "{}", ran.stderr);
}

#[test]
fn an_invalid_address_is_reported() {
    for (bus, http, flag) in
        [("nonsense", "127.0.0.1:0", "--bus"), ("127.0.0.1:0", "127.0.0.1:99999", "--http")]
    {
        let (ran, made_data) = refused(bus, http);
        assert!(ran.stderr.contains(&format!("{flag} ")), "{}", ran.stderr);
        assert!(ran.stderr.contains("is not an address"), "{}", ran.stderr);
        assert!(!made_data, "{bus}");
    }
}

#[test]
fn a_public_bus_address_requires_a_token() {
    let (ran, made_data) = refused("0.0.0.0:0", "127.0.0.1:0");
    assert!(ran.stderr.contains("no token is set"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: give one with --token or III_TOKEN"), "{}", ran.stderr);
    assert!(!made_data);
    // An empty token is an error.
    let mut command = program(BINARY);
    command.args(["serve", "--bus", "0.0.0.0:0", "--http", "127.0.0.1:0"]).env("III_TOKEN", "");
    let ran = run(command.current_dir(tempfile::tempdir().unwrap().path()));
    assert!(ran.stderr.contains("III_TOKEN is set but empty"), "{}", ran.stderr);

    let dir = tempfile::tempdir().unwrap();
    let mut command = program(BINARY);
    command.args(["serve", "--bus", "0.0.0.0:0", "--http", "127.0.0.1:0", "--data-dir"]);
    let server =
        ServerProcess::spawn(command.arg(dir.path()).env("III_TOKEN", "s3cret-of-16-bytes"));
    assert!(server.url.starts_with("ws://0.0.0.0:"), "{}", server.url);
    assert!(!server.stderr.contents().contains("s3cret-of-16-bytes"), "a secret is not shown");
}
