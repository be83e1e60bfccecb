//! Requests over the limits, and handlers that fail.

use std::time::Duration;

use skills_core::MemoryBudget;
use skills_http::HttpLimits;
use skills_testkit::{Request, Response, exchange};
use tokio::task::spawn_blocking;

use crate::test_server::{TestServer, read_to_end, read_until, without_timeouts};

const MIB: usize = 1 << 20;

fn refused(answer: &Response, status: u16, code: &str) {
    assert_eq!(answer.refusal(), (status, code.to_owned()));
}

fn with_key(path: &str, key: &str) -> Request {
    Request::get(path).header("Authorization", &format!("Bearer {key}"))
}

#[tokio::test]
async fn a_body_may_have_four_mebibytes() {
    let server = TestServer::new().await;
    for path in ["/bytes", "/raw"] {
        let answer = server.answer(Request::new("POST", path).body(vec![b'x'; 4 * MIB])).await;
        assert_eq!((answer.status, answer.body), (200, b"4194304".to_vec()), "{path}");
        for size in [4 * MIB + 1, 10 * MIB] {
            let answer = server.answer(Request::new("POST", path).body(vec![b'x'; size])).await;
            refused(&answer, 413, "body_too_large");
        }
    }
}

#[tokio::test]
async fn a_body_without_a_declared_length_is_limited() {
    let server = TestServer::new().await;
    let address = server.address.to_string();
    let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 0x10000], b"\r\n"].concat();
    for path in ["/bytes", "/raw"] {
        for (chunks, status) in [(64, 200), (160, 413)] {
            let head = Request::new("POST", path).header("Transfer-Encoding", "chunked");
            let mut bytes = head.bytes(&address);
            bytes.extend(chunk.repeat(chunks));
            bytes.extend(b"0\r\n\r\n");
            let address = address.clone();
            let output = spawn_blocking(move || exchange(&address, &bytes)).await.unwrap();
            let answer = Response::parse(&output.unwrap()).unwrap();
            assert_eq!(answer.status, status, "{path}");
            if status == 413 {
                refused(&answer, 413, "body_too_large");
            }
        }
    }
}

#[tokio::test]
async fn a_request_head_that_is_too_large_gets_431() {
    let server = TestServer::new().await;
    let near = Request::get("/healthz").header("X-Long", &"x".repeat(28 << 10));
    assert_eq!(server.answer(near).await.status, 200);
    let long = Request::get("/healthz").header("X-Long", &"x".repeat(36 << 10));
    assert_eq!(server.answer(long).await.status, 431);
    let many = (0..200)
        .fold(Request::get("/healthz"), |request, n| request.header(&format!("X-{n}"), "x"));
    assert_eq!(server.answer(many).await.status, 431);
}

#[tokio::test]
async fn requests_over_the_concurrency_limit_get_503() {
    let server = TestServer::with(HttpLimits { requests: 2, ..without_timeouts() }).await;
    let (one, two) =
        (server.start_waiting_request().await, server.ask(with_key("/wait", "us-ann")));
    server.until_arrived(1).await;
    let answer = server.answer(with_key("/who", "us-admin")).await;
    refused(&answer, 503, "overloaded");
    assert_eq!(answer.header("Retry-After").as_deref(), Some("1"));
    assert_eq!(server.answer(Request::get("/healthz")).await.status, 200);
    server.release();
    server.release();
    for answer in [one, two] {
        assert_eq!(answer.await.unwrap().body, b"done");
    }
    assert_eq!(server.answer(Request::get("/who")).await.status, 200);
}

#[tokio::test]
async fn a_stream_frees_its_permit_once_its_head_is_sent() {
    let server = TestServer::with(HttpLimits { requests: 1, ..without_timeouts() }).await;
    let request = Request::get("/endless").bytes("localhost");
    let streams = [server.connect(&request), server.connect(&request)];
    for stream in streams.map(|stream| read_until(stream, "first ")) {
        stream.await;
    }
    assert_eq!(server.answer(Request::get("/who")).await.status, 200);
}

#[tokio::test]
async fn a_slow_request_gets_504() {
    let limits =
        HttpLimits { response_timeout: Duration::from_secs(1), requests: 1, ..without_timeouts() };
    let server = TestServer::with(limits).await;
    refused(&server.answer(Request::get("/wait")).await, 504, "timeout");
    assert_eq!(server.answer(Request::get("/who")).await.status, 200);
}

#[tokio::test]
async fn an_unfinished_body_gets_408_and_blocks_no_other_client() {
    let server = TestServer::with(HttpLimits { requests: 1, ..without_timeouts() }).await;
    let half = Request::new("POST", "/bytes").header("Content-Length", "10").bytes("localhost");
    let unfinished: Vec<_> = (0..9).map(|_| server.connect(&half)).collect();
    assert_eq!(server.answer(Request::get("/who")).await.status, 200);
    drop(unfinished);
    let limits =
        HttpLimits { body_timeout: Duration::from_secs(1), requests: 1, ..without_timeouts() };
    let server = TestServer::with(limits).await;
    let half = Request::new("POST", "/bytes").header("Content-Length", "10");
    refused(&server.answer(half).await, 408, "body_timeout");
}

#[tokio::test]
async fn a_body_with_broken_chunked_encoding_gets_400() {
    let server = TestServer::new().await;
    for encoded in
        ["zz\r\nx\r\n0\r\n\r\n".to_owned(), format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(20 << 10))]
    {
        let head = Request::new("POST", "/bytes").header("Transfer-Encoding", "chunked");
        let mut bytes = head.bytes("localhost");
        bytes.extend(encoded.into_bytes());
        let output = read_to_end(server.connect(&bytes)).await;
        refused(&Response::parse(&output).unwrap(), 400, "unreadable_body");
    }
}

#[tokio::test]
async fn one_client_cannot_use_all_permits() {
    let server = TestServer::with(HttpLimits { requests: 4, ..without_timeouts() }).await;
    let busy = [server.start_waiting_request().await, server.start_waiting_request().await];
    let answer = server.answer(Request::get("/who")).await;
    refused(&answer, 503, "overloaded");
    assert_eq!(server.answer(with_key("/who", "us-ann")).await.status, 200);
    for answer in busy {
        server.release();
        assert_eq!(answer.await.unwrap().body, b"done");
    }
}

#[tokio::test]
async fn a_client_with_and_without_a_key_cannot_use_all_permits() {
    let server = TestServer::with(HttpLimits { requests: 8, ..without_timeouts() }).await;
    let mut busy = vec![];
    for _ in 0..3 {
        busy.push(server.start_waiting_request().await);
        busy.push(server.ask(with_key("/wait", "us-ann")));
        server.until_arrived(1).await;
    }
    refused(&server.answer(Request::get("/who")).await, 503, "overloaded");
    refused(&server.answer(with_key("/who", "us-ann")).await, 503, "overloaded");
    assert_eq!(server.answer(with_key("/who", "us-admin")).await.status, 200);
    for answer in busy {
        server.release();
        assert_eq!(answer.await.unwrap().body, b"done");
    }
}

#[tokio::test]
async fn a_handler_that_outlives_its_client_keeps_its_permit() {
    let server = TestServer::with(HttpLimits { requests: 1, ..without_timeouts() }).await;
    let stream = server.connect(&Request::get("/detached").bytes("localhost"));
    server.until_arrived(1).await;
    drop(stream);
    // The listener has dropped the request.
    server.until_arrived(1).await;
    refused(&server.answer(Request::get("/who")).await, 503, "overloaded");
    server.release();
    while server.answer(Request::get("/who")).await.status != 200 {}
}

#[tokio::test]
async fn request_heads_count_against_the_clients_memory_share() {
    let budget = MemoryBudget::new(128 << 10);
    let server = TestServer::with_budget(without_timeouts(), budget.clone()).await;
    let long = "x".repeat(24 << 10);
    let begun =
        Request::new("POST", "/bytes").header("X-Long", &long).header("Content-Length", "9");
    let begun = server.connect(&begun.bytes("localhost"));
    while budget.reserved() < long.len() {
        tokio::task::yield_now().await;
    }
    refused(&server.answer(Request::get("/who")).await, 503, "overloaded");
    drop(begun);
    while server.answer(Request::get("/who")).await.status != 200 {}
}

#[tokio::test]
async fn a_body_of_too_many_values_gets_413() {
    let server = TestServer::new().await;
    let body = format!("[{}0]", "[0],".repeat(60_000));
    let answer = server.answer(Request::new("POST", "/bytes").body(body.into_bytes())).await;
    refused(&answer, 413, "body_too_large");
    let text = format!("\"{}\"", "[0],".repeat(60_000));
    assert_eq!(
        server.answer(Request::new("POST", "/bytes").body(text.into_bytes())).await.status,
        200
    );
}

#[tokio::test]
async fn a_panicking_handler_answers_500_and_affects_no_other_request() {
    let server = TestServer::with(HttpLimits { requests: 1, ..without_timeouts() }).await;
    for _ in 0..3 {
        let page = Request::get("/panic").header("Origin", "http://localhost");
        let answer = server.answer(page).await;
        refused(&answer, 500, "internal");
        assert!(answer.header("Access-Control-Allow-Origin").is_some(), "a page can read it");
    }
    // A response that has begun can only be aborted.
    let address = server.address.to_string();
    let broken = Request::get("/broken").bytes(&address);
    let output = spawn_blocking(move || exchange(&address, &broken)).await.unwrap();
    assert!(!output.is_some_and(|output| output.ends_with(b"0\r\n\r\n")), "that would be complete");
    assert_eq!(server.answer(Request::get("/who")).await.body, b"Credential(none)");
}
