//! The stream of a session: one at a time, and nothing is lost without one.

use std::collections::BTreeSet;

use serde_json::json;
use skills_testkit::Request;

use crate::{
    clients::{Session, send},
    support::{Home, register},
};

const VERSION: &str = "2025-06-18";

#[tokio::test]
async fn a_new_stream_takes_the_place_of_the_one_before() {
    let home = Home::new();
    let worker = home.worker().await;
    let session = Session::open(&home.server.http, VERSION).await;
    let mut first = session.events().await;
    register(&worker, "a", "# A\n").await;
    assert_eq!(first.message().await["method"], "notifications/resources/list_changed");
    let mut second = session.events().await;
    assert_eq!(first.next().await, None, "the first ends");
    // What the first was told last may not have arrived.
    let mut told = BTreeSet::new();
    while told.len() < 3 {
        told.insert(second.message().await["method"].as_str().unwrap().to_owned());
    }
    drop(first);
    register(&worker, "b", "# B\n").await;
    assert_eq!(second.message().await["method"], "notifications/resources/list_changed");
}

#[tokio::test]
async fn what_happens_without_a_stream_is_told_when_there_is_one() {
    let home = Home::new();
    let worker = home.worker().await;
    let mut session = Session::open(&home.server.http, VERSION).await;
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
            assert!(updated.insert(uri.to_owned()), "{uri} is told once");
        }
    }
    assert_eq!(updated, uris);
}

#[tokio::test]
async fn a_session_ends_when_it_is_deleted_and_only_then() {
    let home = Home::new();
    let session = Session::open(&home.server.http, VERSION).await;
    for version in ["2026-07-28", "1999-01-01"] {
        let request = Request::new("DELETE", "/mcp").header("Mcp-Session-Id", &session.id);
        let request = request.header("MCP-Protocol-Version", version);
        let status = send(&home.server.http, &request).await.status;
        assert!((400..500).contains(&status), "{version}: {status}");
        assert_eq!(session.ping().await, 200, "{version}");
    }
    assert_eq!(session.delete().await, 204);
    assert_eq!(session.ping().await, 404);
}
