//! Requests that ask for too much, and handlers that fail.

use std::time::Duration;

use skills_http::Limits;
use skills_testkit::{Answer, Request, exchange};
use tokio::task::spawn_blocking;

use crate::house::{House, patient, read_until};

const MIB: usize = 1 << 20;

fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.refusal(), (status, code.to_owned()));
}

#[tokio::test]
async fn a_body_may_have_four_mebibytes() {
    let house = House::new().await;
    for path in ["/bytes", "/raw"] {
        let answer = house.answer(Request::new("POST", path).body(vec![b'x'; 4 * MIB])).await;
        assert_eq!((answer.status, answer.body), (200, b"4194304".to_vec()), "{path}");
        for size in [4 * MIB + 1, 10 * MIB] {
            let answer = house.answer(Request::new("POST", path).body(vec![b'x'; size])).await;
            refused(&answer, 413, "body_too_large");
        }
    }
}

#[tokio::test]
async fn a_body_that_does_not_say_its_length_is_counted() {
    let house = House::new().await;
    let address = house.address.to_string();
    let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 0x10000], b"\r\n"].concat();
    for path in ["/bytes", "/raw"] {
        for (chunks, status) in [(64, 200), (160, 413)] {
            let head = Request::new("POST", path).header("Transfer-Encoding", "chunked");
            let mut bytes = head.bytes(&address);
            bytes.extend(chunk.repeat(chunks));
            bytes.extend(b"0\r\n\r\n");
            let address = address.clone();
            let said = spawn_blocking(move || exchange(&address, &bytes)).await.unwrap();
            let answer = Answer::parse(&said.unwrap()).unwrap();
            assert_eq!(answer.status, status, "{path}");
            if status == 413 {
                refused(&answer, 413, "body_too_large");
            }
        }
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_gets_431() {
    let house = House::new().await;
    let near = Request::get("/healthz").header("X-Long", &"x".repeat(60 << 10));
    assert_eq!(house.answer(near).await.status, 200);
    let long = Request::get("/healthz").header("X-Long", &"x".repeat(70 << 10));
    assert_eq!(house.answer(long).await.status, 431);
    let many = (0..200)
        .fold(Request::get("/healthz"), |request, n| request.header(&format!("X-{n}"), "x"));
    assert_eq!(house.answer(many).await.status, 431);
}

#[tokio::test]
async fn more_work_than_there_is_room_for_gets_503() {
    let house = House::with(Limits { requests: 2, ..patient() }).await;
    let (one, two) = (house.busy().await, house.busy().await);
    let answer = house.answer(Request::get("/who")).await;
    refused(&answer, 503, "overloaded");
    assert_eq!(answer.header("Retry-After").as_deref(), Some("1"));
    assert_eq!(house.answer(Request::get("/healthz")).await.status, 200);
    house.release();
    house.release();
    for answer in [one, two] {
        assert_eq!(answer.await.unwrap().body, b"done");
    }
    assert_eq!(house.answer(Request::get("/who")).await.status, 200);
}

#[tokio::test]
async fn a_stream_is_not_work_once_its_head_is_sent() {
    let house = House::with(Limits { requests: 1, ..patient() }).await;
    let request = Request::get("/endless").bytes("localhost");
    let streams = [house.connect(&request), house.connect(&request)];
    for stream in streams.map(|stream| read_until(stream, "first ")) {
        stream.await;
    }
    assert_eq!(house.answer(Request::get("/who")).await.status, 200);
}

#[tokio::test]
async fn a_request_that_takes_too_long_gets_504() {
    let limits = Limits { answer_within: Duration::from_secs(1), requests: 1, ..patient() };
    let house = House::with(limits).await;
    refused(&house.answer(Request::get("/wait")).await, 504, "timeout");
    // A body that never arrives in full is the same.
    let half = Request::new("POST", "/bytes").header("Content-Length", "10");
    refused(&house.answer(half).await, 504, "timeout");
    assert_eq!(house.answer(Request::get("/who")).await.status, 200);
}

#[tokio::test]
async fn a_handler_that_panics_gives_500_and_harms_no_one_else() {
    let house = House::with(Limits { requests: 1, ..patient() }).await;
    for _ in 0..3 {
        let page = Request::get("/panic").header("Origin", "http://localhost");
        let answer = house.answer(page).await;
        refused(&answer, 500, "internal");
        assert!(answer.header("Access-Control-Allow-Origin").is_some(), "a page can read it");
    }
    // An answer that has begun can only be broken off.
    let address = house.address.to_string();
    let broken = Request::get("/broken").bytes(&address);
    let said = spawn_blocking(move || exchange(&address, &broken)).await.unwrap();
    assert!(!said.is_some_and(|said| said.ends_with(b"0\r\n\r\n")), "that would be complete");
    assert_eq!(house.answer(Request::get("/who")).await.body, b"Credential(none)");
}
