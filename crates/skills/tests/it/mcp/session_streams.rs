//! The event stream of a session: one at a time, and nothing is lost without one.

use std::collections::BTreeSet;

use serde_json::json;
use skills_testkit::Request;

use crate::support::{
    TestServer,
    mcp_clients::{Session, send},
    register,
};

const VERSION: &str = "2025-06-18";

#[tokio::test]
async fn a_new_stream_replaces_the_previous_one() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let session = Session::open(&server.process.http, VERSION).await;
    let mut first = session.events().await;
    register(&worker, "a", "# A\n").await;
    assert_eq!(first.message().await["method"], "notifications/resources/list_changed");
    let mut second = session.events().await;
    assert_eq!(first.next().await, None, "the first ends");
    // The last message to the first stream may not have arrived.
    let mut methods = BTreeSet::new();
    while methods.len() < 3 {
        methods.insert(second.message().await["method"].as_str().unwrap().to_owned());
    }
    drop(first);
    register(&worker, "b", "# B\n").await;
    assert_eq!(second.message().await["method"], "notifications/resources/list_changed");
}

#[tokio::test]
async fn changes_without_a_stream_are_sent_on_the_next_one() {
    let server = TestServer::new();
    let worker = server.worker().await;
    let mut session = Session::open(&server.process.http, VERSION).await;
    let uris: BTreeSet<String> = (0..40).map(|number| format!("iii://s{number}")).collect();
    for uri in &uris {
        let answer = session.ask("resources/subscribe", &json!({ "uri": uri })).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    for number in 0..40 {
        register(&worker, &format!("s{number}"), "# S\n").await;
    }
    let mut events = session.events().await;
    let mut updated = BTreeSet::new();
    while updated.len() < 40 {
        let message = events.message().await;
        if let Some(uri) = message["params"]["uri"].as_str() {
            assert!(updated.insert(uri.to_owned()), "{uri} is notified once");
        }
    }
    assert_eq!(updated, uris);
}

#[tokio::test]
async fn a_session_ends_only_when_it_is_deleted() {
    let server = TestServer::new();
    let session = Session::open(&server.process.http, VERSION).await;
    for version in ["2026-07-28", "1999-01-01"] {
        let request = Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &session.id);
        let request = request.header("MCP-Protocol-Version", version);
        let status = send(&server.process.http, &request).await.status;
        assert!((400..500).contains(&status), "{version}: {status}");
        assert_eq!(session.ping().await, 200, "{version}");
    }
    assert_eq!(session.delete().await, 204);
    assert_eq!(session.ping().await, 404);
}
