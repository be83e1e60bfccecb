//! Half-open connections.

use std::time::Duration;

use futures_util::StreamExt as _;
use skills_bus::client::{Keepalive, WorkerOptions};
use tokio_tungstenite::tungstenite::Message;

use super::{FakeServer, Worker, options};
use crate::test_hub::DEADLINE;

#[tokio::test]
async fn a_silent_server_is_found_and_replaced() {
    let server = FakeServer::start().await;
    let keepalive = Keepalive {
        ping_interval: Duration::from_millis(20),
        idle_timeout: Duration::from_millis(300),
        ..Keepalive::default()
    };
    let worker = Worker::start(WorkerOptions { keepalive, ..options(&server.url()) });
    // Reads nothing, so it answers no ping.
    let _silent = server.greet().await;
    let reason = worker.lost().await;
    assert!(reason.contains("not even a pong"), "{reason}");
    // The state is no proof: it changes again as soon as this connection is silent, too.
    let mut next = server.greet().await;
    assert_eq!(next.recv().await["type"], "reattach");
    worker.client.shutdown().await;
}

#[tokio::test]
async fn pings_keep_an_idle_connection() {
    let server = FakeServer::start().await;
    let keepalive = Keepalive {
        ping_interval: Duration::from_millis(10),
        idle_timeout: DEADLINE,
        ..Keepalive::default()
    };
    let worker = Worker::start(WorkerOptions { keepalive, ..options(&server.url()) });
    let mut link = server.greet().await;
    let pings = async {
        let mut count = 0;
        while count < 20 {
            // Reading answers a ping.
            count += usize::from(matches!(link.0.next().await, Some(Ok(Message::Ping(_)))));
        }
    };
    tokio::time::timeout(DEADLINE, pings).await.expect("pings in time");
    assert_eq!(worker.client.epoch(), Some(1));
    worker.client.shutdown().await;
}
