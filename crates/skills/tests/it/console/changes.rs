//! The stream of changes.

use serde_json::Value;
use skills_testkit::{DEADLINE, Request};
use tokio::time::timeout;

use super::visitor::Visitor;
use crate::support::{TestServer, mcp_clients::EventStream, register};

async fn stream(server: &TestServer, visitor: &Visitor) -> EventStream {
    let request = Request::get("/ui/events").header("Cookie", visitor.cookie());
    EventStream::open(&server.process.http, &request).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_on_the_bus_reaches_an_open_page() {
    let server = TestServer::new();
    let visitor = Visitor::new(&server);
    let mut events = stream(&server, &visitor).await;
    let worker = server.worker().await;
    register(&worker, "weather", "# Weather").await;
    let is_it = |event: &Value| event["kind"] == "skill" && event["id"] == "weather";
    let arrives = async { while !is_it(&events.message().await) {} };
    timeout(DEADLINE, arrives).await.expect("the change does not arrive");
}

/// Waits for the event about a skill, and returns the ids of the events before it.
async fn ids_until(events: &mut EventStream, id: &str) -> Vec<Value> {
    let mut ids = Vec::new();
    let arrives = async {
        loop {
            let event = events.message().await;
            if event["id"] == id {
                return;
            }
            ids.push(event["id"].clone());
        }
    };
    timeout(DEADLINE, arrives).await.expect("the change does not arrive");
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_change_reaches_its_owner_alone() {
    let server = TestServer::with_admin();
    let [ann, bob] =
        ["ann", "bob"].map(|uid| Visitor::signed_in(&server, &server.create_key(uid).0));
    let local = Visitor::new(&server);
    let mut of_ann = stream(&server, &ann).await;
    let mut of_others = [stream(&server, &bob).await, stream(&server, &local).await];
    server.add_tool("ann", "private", "plan");
    ids_until(&mut of_ann, "plan").await;
    // The change that all of them see comes later on each stream, so nothing can still be on its way.
    server.add_tool("ann", "official", "shared");
    ids_until(&mut of_ann, "shared").await;
    for events in &mut of_others {
        let ids = ids_until(events, "shared").await;
        assert!(!ids.contains(&Value::from("plan")), "{ids:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signing_out_ends_the_stream() {
    let server = TestServer::with_admin();
    let (key, _) = server.create_key("ann");
    let (mut visitor, other) =
        (Visitor::signed_in(&server, &key), Visitor::signed_in(&server, &key));
    let mut events = stream(&server, &visitor).await;
    let mut of_other_session = stream(&server, &other).await;
    visitor.open("/ui");
    assert_eq!(visitor.submit("/ui/sign-out", &[]).status, 303);
    let ends = async { while events.next().await.is_some() {} };
    timeout(DEADLINE, ends).await.expect("the stream does not end");
    server.add_tool("ann", "private", "plan");
    ids_until(&mut of_other_session, "plan").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_ends_the_stream_and_the_session() {
    let server = TestServer::with_admin();
    let (key, id) = server.create_key("ann");
    let mut visitor = Visitor::signed_in(&server, &key);
    let mut events = stream(&server, &visitor).await;
    server.administer("DELETE", &format!("/v1/admin/keys/{id}"), &Value::Null);
    let ends = async { while events.next().await.is_some() {} };
    timeout(DEADLINE, ends).await.expect("the stream does not end");
    assert!(visitor.open("/ui").contains("This machine"));
}
