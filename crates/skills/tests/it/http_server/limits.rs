//! Oversized heads, too many connections, and shutdown.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use skills_testkit::{DEADLINE, Request, ServerProcess};

use crate::support::{BINARY, TestServer};

#[test]
fn a_request_head_that_is_too_large_gets_431() {
    let server = TestServer::new();
    let long = Request::get("/healthz").header("X-Long", &"x".repeat(36 << 10));
    assert_eq!(long.send(&server.process.http).status, 431);
    let near = Request::get("/healthz").header("X-Long", &"x".repeat(28 << 10));
    assert_eq!(near.send(&server.process.http).status, 200);
}

#[test]
fn a_client_still_sending_its_body_receives_the_answer() {
    let server = TestServer::with_args(&["--token", "s3cret-of-16-bytes"]);
    let request = Request::new("POST", "/mcp").body(vec![b'x'; 10 << 20]);
    assert_eq!(request.send(&server.process.http).refusal(), (401, "unauthorized".to_owned()));
}

#[test]
fn silent_connections_do_not_block_others() {
    let server = TestServer::new();
    let address = server.process.http.strip_prefix("http://").unwrap();
    let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(Request::get("/healthz").send(address).status, 200);
    drop(silent);
}

#[test]
fn the_server_survives_running_out_of_file_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let server = ServerProcess::command(BINARY, &dir.path().join("data"));
    let mut limited = skills_testkit::program("sh");
    limited.args(["-c", "ulimit -n 60 && exec \"$0\" \"$@\"", BINARY]).args(server.get_args());
    let server = TestServer::from_parts(ServerProcess::spawn(&mut limited), dir);
    let address = server.process.http.strip_prefix("http://").unwrap();
    let many: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    server.process.stderr.wait_for("cannot accept connections");
    drop(many);
    assert_eq!(Request::get("/healthz").send(address).status, 200);
    let output = server.process.stderr.contents();
    assert_eq!(output.matches("cannot accept connections").count(), 1, "{output}");
}

#[test]
fn idle_connections_do_not_delay_shutdown() {
    let server = TestServer::new();
    let address = server.process.http.strip_prefix("http://").unwrap();
    let mut idle = TcpStream::connect(address).unwrap();
    idle.set_read_timeout(Some(DEADLINE)).unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut output = [0; 1024];
    assert!(idle.read(&mut output).unwrap() > 0);
    let started = Instant::now();
    let (code, _, output) = server.process.stop();
    assert_eq!(code, Some(0), "{output}");
    // Idle connections time out after ten seconds by themselves.
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}
