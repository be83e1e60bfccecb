//! Who may connect when a token is set.

use serde_json::json;
use skills_testkit::{Peer, Worker};

use crate::support::{Home, register};

#[tokio::test]
async fn a_worker_without_the_token_is_turned_away_with_401() {
    let home = Home::with(&["--token", "s3cret"]);
    let url = home.server.url.as_str();
    for path in ["/", "/otel", "/?token=wrong", "/?token=", "/?other=s3cret"] {
        assert_eq!(
            Peer::connect_with(&format!("{url}{path}"), &[]).await.err(),
            Some(401),
            "{path}"
        );
    }
    for header in ["Bearer wrong", "Bearer", "Bearer s3cretly", "Basic s3cret", "s3cret"] {
        let refused = Peer::connect_with(url, &[("authorization", header)]).await;
        assert_eq!(refused.err(), Some(401), "{header}");
    }
}

#[tokio::test]
async fn the_token_opens_the_door_as_header_and_in_the_address() {
    let home = Home::with(&["--token", "s3cret"]);
    let url = home.server.url.as_str();
    let header = Peer::connect_with(url, &[("authorization", "Bearer s3cret")]).await;
    let query = Peer::connect_with(&format!("{url}/?token=s3cret"), &[]).await;
    for (id, peer) in [("header", header), ("query", query)] {
        let worker = Worker::of(peer.unwrap_or_else(|status| panic!("{id}: {status}")));
        register(&worker, id, "x").await;
    }
    let otel = Peer::connect_with(&format!("{url}/otel?token=s3cret"), &[]).await;
    assert!(otel.is_ok());
}

#[tokio::test]
async fn without_a_token_anyone_on_this_machine_may_connect_except_web_pages() {
    let home = Home::new();
    let url = home.server.url.as_str();
    let page = Peer::connect_with(url, &[("origin", "https://evil.example")]).await;
    assert_eq!(page.err(), Some(403));
    let local = Peer::connect_with(url, &[("origin", "http://localhost:3000")]).await;
    let worker = Worker::of(local.unwrap_or_else(|status| panic!("{status}")));
    assert_eq!(worker.ok("skills::list", json!({})).await, json!({ "skills": [] }));
}
