//! Too many, and those who vanish.

use std::fs;

use serde_json::json;

use crate::{
    clients::{Listener, Session, Stateless, eventually, session, stateless},
    support::{Home, register},
};

/// What a process has in memory, in bytes.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[tokio::test]
async fn streams_whose_clients_vanish_are_let_go() {
    let home = Home::new();
    let pid = home.server.pid();
    let mut listener = Listener::stream(&home, &["iii://a"]).await;
    let before = open_files(pid);
    let filter = json!({ "resourcesListChanged": true });
    let mut streams = Vec::new();
    for id in 0..50 {
        streams.push(Stateless::listen(&home.server.http, id, &filter).await);
        streams.push(Session::open(&home.server.http, "2025-06-18").await.events().await);
    }
    assert!(open_files(pid) >= before + 100);
    drop(streams);
    let worker = home.worker().await;
    register(&worker, "a", "# A\n").await;
    listener.until("notifications/resources/updated", async |_| true).await;
    eventually("their connections are closed", async || {
        // Who is told something is found to be gone at the latest.
        register(&worker, "a", "# A\n").await;
        open_files(pid) <= before + 10
    })
    .await;
    listener.until("notifications/resources/list_changed", async |_| true).await;
}

#[tokio::test]
async fn a_client_that_opens_sessions_without_end_loses_its_oldest() {
    let home = Home::new();
    register(&home.worker().await, "brain", "# Brain\n").await;
    let listening = Session::open(&home.server.http, "2025-06-18").await;
    let mut events = listening.events().await;
    let mut opened = vec![Session::open(&home.server.http, "2025-06-18").await];
    let before = resident(home.server.pid());
    for _ in 0..1_500 {
        opened.push(Session::open(&home.server.http, "2025-06-18").await);
    }
    let grown = resident(home.server.pid()).saturating_sub(before);
    assert!(grown < 150 << 20, "{} MiB", grown >> 20);
    assert_eq!(opened[0].ping().await, 404, "the oldest is gone");
    assert_eq!(opened[400].ping().await, 404);
    assert_eq!(opened.last().unwrap().ping().await, 200, "the newest is not");
    assert_eq!(opened[opened.len() - 1_000].ping().await, 200);
    assert_eq!(listening.ping().await, 200, "one that listens is in use");
    for mut client in [session(&home).await, stateless(&home)] {
        assert_eq!(client.read("iii://brain").await, "# Brain\n");
    }
    register(&home.worker().await, "brain", "# Again\n").await;
    assert_eq!(events.message().await["method"], "notifications/resources/list_changed");
}
