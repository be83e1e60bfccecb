//! The end: what is under way is finished, for a while.

use std::{net::TcpStream, time::Duration};

use skills_http::Limits;
use skills_testkit::{DEADLINE, Request};

use crate::house::{House, patient, read_until};

/// Waits until nobody can connect any more.
async fn closed(house: &House) {
    let waits = async {
        while TcpStream::connect(house.address).is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, waits).await.unwrap();
}

#[tokio::test]
async fn a_request_under_way_is_answered() {
    let house = House::with(Limits { drain: DEADLINE, ..patient() }).await;
    let idle = house.connect(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let _idle = read_until(idle, "\"ok\"").await;
    let answer = house.busy().await;
    house.shutdown.cancel();
    closed(&house).await;
    house.release();
    assert_eq!(answer.await.unwrap().body, b"done");
    house.ended().await;
}

#[tokio::test]
async fn what_does_not_end_does_not_keep_it() {
    let house = House::with(Limits { drain: Duration::from_millis(100), ..patient() }).await;
    let stream = house.connect(&Request::get("/endless").bytes("localhost"));
    let _stream = read_until(stream, "first ").await;
    let _half = house.connect(b"GET / HTTP/1.1\r\nHost: ");
    house.shutdown.cancel();
    house.ended().await;
}
