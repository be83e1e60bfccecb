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
