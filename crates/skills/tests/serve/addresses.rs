//! Where the server listens, and what it says of it.

use std::net::TcpListener;

use serde_json::{Value, json};
use skills_testkit::{Ran, Request, Server, program, run};

use crate::support::{BINARY, Home, register};

/// Asks for a path over plain HTTP: status and body.
fn get(http: &str, path: &str) -> (u16, Value) {
    let answer = Request::get(path).send(http);
    (answer.status, answer.json())
}

/// `skills serve` with addresses of the test's choice, which must not work.
fn refused(bus: &str, http: &str) -> (Ran, bool) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut command = program(BINARY);
    command.args(["serve", "--bus", bus, "--http", http, "--data-dir"]).arg(&data);
    let ran = run(&mut command);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    (ran, data.exists())
}

#[test]
fn health_and_readiness_are_answered() {
    let home = Home::new();
    assert_eq!(get(&home.server.http, "/healthz"), (200, json!({ "status": "ok" })));
    assert_eq!(get(&home.server.http, "/readyz"), (200, json!({ "status": "ready" })));
    let (status, body) = get(&home.server.http, "/nothing");
    assert_eq!((status, &body["error"]["code"]), (404, &json!("not_found")));
}

#[tokio::test]
async fn the_banner_names_the_real_addresses_and_what_is_there() {
    let home = Home::new();
    let said = home.server.stderr.so_far();
    assert!(said.starts_with(&format!("skills {} is serving\n", env!("CARGO_PKG_VERSION"))));
    assert!(said.ends_with("data (0 skills, 0 prompts)\n"), "{said}");
    assert!(!said.contains(":0\n"), "{said}");
    let worker = home.worker().await;
    register(&worker, "a", "# A").await;
    register(&worker, "b", "# B").await;
    let prompt = json!({ "name": "p", "description": "d", "function_id": "a::b" });
    worker.ok("prompts::register", prompt).await;
    drop(worker);
    let home = home.restart();
    let said = home.server.stderr.so_far();
    assert!(said.ends_with("data (2 skills, 1 prompt)\n"), "{said}");
}

#[test]
fn two_servers_side_by_side_have_ports_of_their_own() {
    let (one, two) = (Home::new(), Home::new());
    assert_ne!(one.server.url, two.server.url);
    assert_ne!(one.server.http, two.server.http);
}

#[test]
fn a_taken_bus_port_is_explained() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (ran, made_data) = refused(&address, "127.0.0.1:0");
    assert!(ran.stderr.contains(&format!("{address} is taken")), "{}", ran.stderr);
    assert!(ran.stderr.contains("iii engine"), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("--url ws://{address}")), "{}", ran.stderr);
    assert!(ran.stderr.contains("--bus 127.0.0.1:0"), "{}", ran.stderr);
    assert!(!made_data, "a server that does not start leaves nothing behind");
}

#[test]
fn a_taken_http_port_is_explained() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (ran, _) = refused("127.0.0.1:0", &address);
    assert!(ran.stderr.contains(&format!("cannot listen on {address}")), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: ") && ran.stderr.contains("--http"), "{}", ran.stderr);
}

#[test]
fn an_address_that_is_none_is_explained() {
    for (bus, http, flag) in
        [("nonsense", "127.0.0.1:0", "--bus"), ("127.0.0.1:0", "127.0.0.1:99999", "--http")]
    {
        let (ran, made_data) = refused(bus, http);
        assert!(ran.stderr.contains(&format!("{flag} ")), "{}", ran.stderr);
        assert!(ran.stderr.contains("is not an address"), "{}", ran.stderr);
        assert!(!made_data);
    }
}

#[test]
fn other_machines_are_let_in_only_with_a_token() {
    let (ran, made_data) = refused("0.0.0.0:0", "127.0.0.1:0");
    assert!(ran.stderr.contains("no token is set"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: give one with --token or III_TOKEN"), "{}", ran.stderr);
    assert!(!made_data);
    // An empty token is none.
    let mut command = program(BINARY);
    command.args(["serve", "--bus", "0.0.0.0:0", "--http", "127.0.0.1:0"]).env("III_TOKEN", "");
    let ran = run(command.current_dir(tempfile::tempdir().unwrap().path()));
    assert!(ran.stderr.contains("no token is set"), "{}", ran.stderr);

    let dir = tempfile::tempdir().unwrap();
    let mut command = program(BINARY);
    command.args(["serve", "--bus", "0.0.0.0:0", "--http", "127.0.0.1:0", "--data-dir"]);
    let server = Server::spawn(command.arg(dir.path()).env("III_TOKEN", "s3cret"));
    assert!(server.url.starts_with("ws://0.0.0.0:"), "{}", server.url);
    assert!(!server.stderr.so_far().contains("s3cret"), "a secret is not shown");
}
