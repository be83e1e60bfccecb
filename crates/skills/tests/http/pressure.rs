//! Too large, too many, and the end.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use skills_testkit::{DEADLINE, Request, Server};

use crate::support::{BINARY, Home};

#[test]
fn a_head_that_is_too_large_gets_431() {
    let home = Home::new();
    let long = Request::get("/healthz").header("X-Long", &"x".repeat(70 << 10));
    assert_eq!(long.send(&home.server.http).status, 431);
    let near = Request::get("/healthz").header("X-Long", &"x".repeat(60 << 10));
    assert_eq!(near.send(&home.server.http).status, 200);
}

#[test]
fn an_answer_is_seen_also_by_who_still_sends() {
    let home = Home::with(&["--token", "s3cret"]);
    let request = Request::new("POST", "/mcp").body(vec![b'x'; 10 << 20]);
    assert_eq!(request.send(&home.server.http).refusal(), (401, "unauthorized".to_owned()));
}

#[test]
fn connections_that_say_nothing_do_not_keep_others_out() {
    let home = Home::new();
    let address = home.server.http.strip_prefix("http://").unwrap();
    let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(Request::get("/healthz").send(address).status, 200);
    drop(silent);
}

#[test]
fn it_lives_through_a_lack_of_file_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::command(BINARY, &dir.path().join("data"));
    let mut limited = skills_testkit::program("sh");
    limited.args(["-c", "ulimit -n 60 && exec \"$0\" \"$@\"", BINARY]).args(server.get_args());
    let home = Home::of(Server::spawn(&mut limited), dir);
    let address = home.server.http.strip_prefix("http://").unwrap();
    let many: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    home.server.stderr.wait_for("cannot accept connections");
    drop(many);
    assert_eq!(Request::get("/healthz").send(address).status, 200);
    let said = home.server.stderr.so_far();
    assert_eq!(said.matches("cannot accept connections").count(), 1, "{said}");
}

#[test]
fn idle_connections_do_not_delay_the_end() {
    let home = Home::new();
    let address = home.server.http.strip_prefix("http://").unwrap();
    let mut idle = TcpStream::connect(address).unwrap();
    idle.set_read_timeout(Some(DEADLINE)).unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut said = [0; 1024];
    assert!(idle.read(&mut said).unwrap() > 0);
    let started = Instant::now();
    let (code, _, said) = home.server.stop();
    assert_eq!(code, Some(0), "{said}");
    // They would be closed after ten seconds by themselves.
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
}
