//! Connections that say nothing, too little, or are too many.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use skills_http::Limits;
use skills_testkit::Request;

use crate::house::{House, is_silent, patient, read_to_end, read_until};

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let head_within = Duration::from_millis(500);
    let house = House::with(Limits { head_within, ..patient() }).await;
    for begun in ["", "GET", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "] {
        let started = Instant::now();
        assert_eq!(read_to_end(house.connect(begun.as_bytes())).await, b"", "{begun}");
        assert!(started.elapsed() >= head_within, "{begun}");
    }
    // One that says a little all the time is no better.
    let mut trickle = house.connect(b"GET / HTTP/1.1\r\n");
    while is_silent(&trickle, Duration::from_millis(10)).await {
        // It may be closed by now, which the next look tells.
        let _ = trickle.write_all(b"x: y\r\n");
    }
    assert_eq!(house.answer(Request::get("/healthz")).await.status, 200);
}

#[tokio::test]
async fn a_head_that_has_come_is_not_waited_for() {
    let head_within = Duration::from_millis(300);
    let house = House::with(Limits { head_within, ..patient() }).await;
    let waiting = house.connect(&Request::get("/wait").bytes("localhost"));
    let stream = house.connect(&Request::get("/endless").bytes("localhost"));
    let stream = read_until(stream, "first ").await;
    assert!(is_silent(&waiting, 3 * head_within).await);
    assert!(is_silent(&stream, 3 * head_within).await);
    house.release();
    read_until(waiting, "done").await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_that_does_not_read_loses_its_connection() {
    let unread_within = Duration::from_millis(300);
    let house = House::with(Limits { unread_within, connections: 1, ..patient() }).await;
    let deaf = house.connect(&Request::get("/flood").bytes("localhost"));
    // It has the only slot, until it is dropped.
    assert_eq!(house.answer(Request::get("/healthz")).await.status, 200);
    drop(deaf);
}

#[tokio::test]
async fn a_connection_without_a_slot_waits_for_one() {
    let house = House::with(Limits { connections: 2, ..patient() }).await;
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (one, two) = (house.connect(request), house.connect(request));
    // Both are served, and stay open.
    let one = read_until(one, "\"ok\"").await;
    let two = read_until(two, "\"ok\"").await;
    let three = house.connect(request);
    assert!(is_silent(&three, Duration::from_millis(200)).await);
    drop(one);
    let three = read_until(three, "\"ok\"").await;
    drop((two, three));
    assert_eq!(house.answer(Request::get("/healthz")).await.status, 200);
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let house = House::new().await;
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut stream = house.connect(request);
    for _ in 0..10 {
        stream = read_until(stream, "\"ok\"").await;
        stream.write_all(request).unwrap();
    }
}

#[tokio::test]
async fn what_is_not_http_harms_no_one() {
    let house = House::new().await;
    for nonsense in [
        b"\x16\x03\x01\x02\x00\x01\x00".repeat(10),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"POST /raw HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n".to_vec(),
        b"POST /raw HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
            .to_vec(),
    ] {
        let stream = house.connect(&nonsense);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let said = read_to_end(stream).await;
        assert!(!said.starts_with(b"HTTP/1.1 2"), "{nonsense:?}");
        assert_eq!(house.answer(Request::get("/healthz")).await.status, 200);
    }
}
