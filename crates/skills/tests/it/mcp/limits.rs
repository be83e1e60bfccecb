//! Limits of sessions and streams.

use std::fs;

use serde_json::json;

use crate::support::{
    TestServer,
    mcp_clients::{Listener, Session, Stateless, session, stateless},
    register,
    wait::eventually,
};

/// Returns the resident memory of a process in bytes.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[tokio::test]
async fn streams_of_vanished_clients_are_closed() {
    let server = TestServer::new();
    let pid = server.process.pid();
    let mut listener = Listener::stream(&server, &["iii://a"]).await;
    let before = open_files(pid);
    let filter = json!({ "resourcesListChanged": true });
    let mut streams = Vec::new();
    for id in 0..50 {
        streams.push(Stateless::listen(&server.process.http, id, &filter).await);
        streams.push(Session::open(&server.process.http, "2025-06-18").await.events().await);
    }
    assert!(open_files(pid) >= before + 100);
    drop(streams);
    let worker = server.worker().await;
    register(&worker, "a", "# A\n").await;
    listener.until("notifications/resources/updated", async |_| true).await;
    eventually("their connections are closed", async || {
        // A notification detects closed streams at the latest.
        register(&worker, "a", "# A\n").await;
        open_files(pid) <= before + 10
    })
    .await;
    listener.until("notifications/resources/list_changed", async |_| true).await;
}

#[tokio::test]
async fn a_client_over_its_session_share_loses_its_oldest_session() {
    let server = TestServer::new();
    register(&server.worker().await, "brain", "# Brain\n").await;
    let listening = Session::open(&server.process.http, "2025-06-18").await;
    let mut events = listening.events().await;
    let mut opened = vec![Session::open(&server.process.http, "2025-06-18").await];
    let before = resident(server.process.pid());
    for _ in 0..1_500 {
        opened.push(Session::open(&server.process.http, "2025-06-18").await);
    }
    let grown = resident(server.process.pid()).saturating_sub(before);
    assert!(grown < 150 << 20, "{} MiB", grown >> 20);
    assert_eq!(opened[0].ping().await, 404, "the oldest is gone");
    assert_eq!(opened[400].ping().await, 404);
    assert_eq!(opened.last().unwrap().ping().await, 200, "the newest is not");
    assert_eq!(opened[opened.len() - 500].ping().await, 200);
    assert_eq!(listening.ping().await, 200, "one that listens is in use");
    for mut client in [session(&server).await, stateless(&server)] {
        assert_eq!(client.read("iii://brain").await, "# Brain\n");
    }
    register(&server.worker().await, "brain", "# Again\n").await;
    assert_eq!(events.message().await["method"], "notifications/resources/list_changed");
}
