//! Bus connections with a token.

use serde_json::json;
use skills_testkit::{Peer, Worker};

use crate::support::{TestServer, register};

#[tokio::test]
async fn a_worker_without_the_token_gets_401() {
    let server = TestServer::with_args(&["--token", "s3cret-of-16-bytes"]);
    let url = server.process.url.as_str();
    for path in ["/", "/otel", "/?token=wrong", "/?token=", "/?other=s3cret-of-16-bytes"] {
        assert_eq!(
            Peer::connect_with(&format!("{url}{path}"), &[]).await.err(),
            Some(401),
            "{path}"
        );
    }
    for header in [
        "Bearer wrong",
        "Bearer",
        "Bearer s3cret-of-16-bytesly",
        "Basic s3cret-of-16-bytes",
        "s3cret-of-16-bytes",
    ] {
        let refused = Peer::connect_with(url, &[("authorization", header)]).await;
        assert_eq!(refused.err(), Some(401), "{header}");
    }
}

#[tokio::test]
async fn the_token_is_accepted_as_header_and_query_parameter() {
    let server = TestServer::with_args(&["--token", "s3cret-of-16-bytes"]);
    let url = server.process.url.as_str();
    let header = Peer::connect_with(url, &[("authorization", "Bearer s3cret-of-16-bytes")]).await;
    let query = Peer::connect_with(&format!("{url}/?token=s3cret-of-16-bytes"), &[]).await;
    for (id, peer) in [("header", header), ("query", query)] {
        let worker = Worker::from_peer(peer.unwrap_or_else(|status| panic!("{id}: {status}")));
        register(&worker, id, "x").await;
    }
    let otel = Peer::connect_with(&format!("{url}/otel?token=s3cret-of-16-bytes"), &[]).await;
    assert!(otel.is_ok());
}

#[tokio::test]
async fn without_a_token_local_workers_may_connect_but_not_web_pages() {
    let server = TestServer::new();
    let url = server.process.url.as_str();
    let page = Peer::connect_with(url, &[("origin", "https://evil.example")]).await;
    assert_eq!(page.err(), Some(403));
    let local = Peer::connect_with(url, &[("origin", "http://localhost:3000")]).await;
    let worker = Worker::from_peer(local.unwrap_or_else(|status| panic!("{status}")));
    assert_eq!(worker.ok("skills::list", json!({})).await, json!({ "skills": [] }));
}
