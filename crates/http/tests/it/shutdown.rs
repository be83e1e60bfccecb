//! Graceful shutdown with a deadline.

use std::{net::TcpStream, time::Duration};

use skills_http::HttpLimits;
use skills_testkit::{DEADLINE, Request};

use crate::test_server::{TestServer, read_until, without_timeouts};

/// Waits until the port refuses connections.
async fn wait_until_refused(server: &TestServer) {
    let waits = async {
        while TcpStream::connect(server.address).is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, waits).await.unwrap();
}

#[tokio::test]
async fn shutdown_answers_running_requests() {
    let server = TestServer::with(HttpLimits { drain: DEADLINE, ..without_timeouts() }).await;
    let idle = server.connect(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let _idle = read_until(idle, "\"ok\"").await;
    let answer = server.start_waiting_request().await;
    server.shutdown.cancel();
    wait_until_refused(&server).await;
    server.release();
    assert_eq!(answer.await.unwrap().body, b"done");
    server.wait_until_stopped().await;
}

#[tokio::test]
async fn shutdown_does_not_wait_for_endless_requests() {
    let server =
        TestServer::with(HttpLimits { drain: Duration::from_millis(100), ..without_timeouts() })
            .await;
    let stream = server.connect(&Request::get("/endless").bytes("localhost"));
    let _stream = read_until(stream, "first ").await;
    let _half = server.connect(b"GET / HTTP/1.1\r\nHost: ");
    server.shutdown.cancel();
    server.wait_until_stopped().await;
}
