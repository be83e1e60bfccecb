//! Silent, slow and too many connections.

use std::{
    io::{Read as _, Write as _},
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use skills_http::HttpLimits;
use skills_testkit::Request;

use crate::test_server::{LARGE, TestServer, is_silent, read_to_end, read_until, without_timeouts};

/// Address of another client.
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

#[tokio::test]
async fn a_late_request_head_ends_the_connection() {
    // Long enough for the complete request at the end, on a busy machine.
    let head_timeout = Duration::from_secs(2);
    let server = TestServer::with(HttpLimits { head_timeout, ..without_timeouts() }).await;
    let started = Instant::now();
    let begun = ["", "GET", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "];
    for (begun, stream) in begun.map(|begun| (begun, server.connect(begun.as_bytes()))) {
        assert_eq!(read_to_end(stream).await, b"", "{begun}");
        assert!(started.elapsed() >= head_timeout, "{begun}");
    }
    // A client that sends the head byte by byte is disconnected too.
    let mut trickle = server.connect(b"GET / HTTP/1.1\r\n");
    while is_silent(&trickle, Duration::from_millis(10)).await {
        // The connection may be closed already, which the next read shows.
        let _ = trickle.write_all(b"x: y\r\n");
    }
    assert_eq!(server.answer(Request::get("/healthz")).await.status, 200);
}

#[tokio::test]
async fn the_head_deadline_ends_when_the_head_has_arrived() {
    let head_timeout = Duration::from_millis(300);
    let server = TestServer::with(HttpLimits { head_timeout, ..without_timeouts() }).await;
    let waiting = server.connect(&Request::get("/wait").bytes("localhost"));
    let stream = server.connect(&Request::get("/endless").bytes("localhost"));
    let stream = read_until(stream, "first ").await;
    assert!(is_silent(&waiting, 3 * head_timeout).await);
    assert!(is_silent(&stream, 3 * head_timeout).await);
    server.release();
    read_until(waiting, "done").await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_that_does_not_read_loses_its_connection() {
    let unread_timeout = Duration::from_millis(300);
    let server =
        TestServer::with(HttpLimits { unread_timeout, connections: 1, ..without_timeouts() }).await;
    let deaf = server.connect(&Request::get("/flood").bytes("localhost"));
    while is_silent(&deaf, Duration::from_millis(10)).await {}
    // The stream holds the only slot until it is dropped.
    let address = server.address.to_string();
    assert_eq!(Request::get("/healthz").send_from(OTHER, &address).await.status, 200);
    drop(deaf);
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_loses_its_connection() {
    let unread_timeout = Duration::from_millis(500);
    let server = TestServer::with(HttpLimits {
        unread_timeout,
        unread_rate: usize::MAX,
        ..without_timeouts()
    })
    .await;
    let mut slow = server.connect(&Request::get("/large").bytes("localhost"));
    let read = move || {
        let (mut total, mut part) = (0, [0; 16 << 10]);
        while let Ok(bytes) = slow.read(&mut part)
            && bytes > 0
        {
            total += bytes;
            std::thread::sleep(Duration::from_millis(5));
        }
        total
    };
    let total = tokio::task::spawn_blocking(read).await.unwrap();
    assert!(total < LARGE, "all was sent to a client that takes it slowly");
}

#[tokio::test]
async fn a_connection_waits_while_all_others_have_a_request_in_progress() {
    let server = TestServer::with(HttpLimits { connections: 2, ..without_timeouts() }).await;
    let waiting = [server.start_waiting_request().await, server.start_waiting_request().await];
    // Beyond the share of an address a connection is closed.
    assert_eq!(read_to_end(server.connect(b"")).await, b"");
    let address = server.address.to_string();
    let third =
        tokio::spawn(
            async move { Request::get("/healthz").send_from(OTHER, &address).await.status },
        );
    tokio::task::yield_now().await;
    assert!(!third.is_finished());
    server.release();
    assert_eq!(third.await.unwrap(), 200);
    server.release();
    for answer in waiting {
        assert_eq!(answer.await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn connections_without_a_request_do_not_delay_other_clients() {
    const LIMIT: usize = 8;
    let server = TestServer::with(HttpLimits { connections: LIMIT, ..without_timeouts() }).await;
    let address = server.address.to_string();
    for begun in [
        "",
        "GET /healthz HTTP/1.1\r\nHost: l",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /bytes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nbegun",
    ] {
        // More than the server accepts, from the address of the client and from another one.
        let silent: Vec<_> = (0..3 * LIMIT).map(|_| server.connect(begun.as_bytes())).collect();
        for source in [Ipv4Addr::LOCALHOST, OTHER] {
            let answer = Request::get("/healthz").send_from(source, &address).await;
            assert_eq!(answer.status, 200, "{begun:?} {source}");
        }
        drop(silent);
    }
}

#[tokio::test]
async fn a_request_in_progress_survives_a_burst_of_connections() {
    const LIMIT: usize = 8;
    let server = TestServer::with(HttpLimits { connections: LIMIT, ..without_timeouts() }).await;
    let waiting = server.start_waiting_request().await;
    let stream = server.connect(&Request::get("/endless").bytes("localhost"));
    let stream = read_until(stream, "first ").await;
    let burst: Vec<_> = (0..4 * LIMIT).map(|_| server.connect(b"GET")).collect();
    assert_eq!(server.answer(Request::get("/healthz")).await.status, 200);
    assert!(is_silent(&stream, Duration::from_millis(10)).await, "the stream is open");
    server.release();
    assert_eq!(waiting.await.unwrap().status, 200);
    drop(burst);
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let server = TestServer::new().await;
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut stream = server.connect(request);
    for _ in 0..10 {
        stream = read_until(stream, "\"ok\"").await;
        stream.write_all(request).unwrap();
    }
}

#[tokio::test]
async fn input_that_is_not_http_does_not_affect_other_connections() {
    let server = TestServer::new().await;
    for nonsense in [
        b"\x16\x03\x01\x02\x00\x01\x00".repeat(10),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"POST /raw HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n".to_vec(),
        b"POST /raw HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
            .to_vec(),
    ] {
        let stream = server.connect(&nonsense);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let output = read_to_end(stream).await;
        assert!(!output.starts_with(b"HTTP/1.1 2"), "{nonsense:?}");
        assert_eq!(server.answer(Request::get("/healthz")).await.status, 200, "{nonsense:?}");
    }
}
