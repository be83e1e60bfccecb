//! A key revoked while its user is connected: streams, listings and calls end.

use serde_json::{Value, json};
use skills_testkit::{DEADLINE, Request, Worker, program, run};
use tokio::time::timeout;

use crate::support::{
    BINARY, TestServer,
    mcp_clients::{Client, EventStream, Pipe, Session, Stateless, stateless_request},
    wait::eventually,
};

const VERSION: &str = "2025-11-25";
const LIST_CHANGED: &str = "notifications/resources/list_changed";

/// Starts a server with a user, and returns her key and its id.
fn server() -> (TestServer, String, String) {
    let server = TestServer::with_admin();
    let (ann, id) = server.create_key("ann");
    (server, ann, id)
}

fn revoke(server: &TestServer, id: &str) {
    server.administer("DELETE", &format!("/v1/admin/keys/{id}"), &Value::Null);
}

async fn wait_for_notification(events: &mut EventStream, method: &str) {
    let received = async { while events.message().await["method"] != method {} };
    timeout(DEADLINE, received).await.expect("it is not received");
}

/// Reads the rest of a stream, which must end.
async fn read_rest(mut events: EventStream) -> Vec<Value> {
    let mut rest = vec![];
    let ended = async {
        while let Some(message) = events.next().await {
            rest.push(message);
        }
    };
    // A keep-alive is no end.
    timeout(DEADLINE, ended).await.expect("it does not end");
    rest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_ends_http_streams_without_further_events() {
    let (server, ann, id) = server();
    let session = Session::open_as(&server.process.http, VERSION, Some(&ann)).await;
    let mut events = session.events().await;
    let params =
        json!({ "notifications": { "resourcesListChanged": true, "toolsListChanged": true } });
    let listen = Stateless::post(&stateless_request(7, "subscriptions/listen", &params));
    let listen = listen.header("Authorization", &format!("Bearer {ann}"));
    let mut stream = EventStream::open(&server.process.http, &listen).await;
    stream.message().await;
    // Both streams receive the private change.
    server.add_tool("ann", "private", "first_plan");
    wait_for_notification(&mut events, LIST_CHANGED).await;
    wait_for_notification(&mut stream, LIST_CHANGED).await;
    revoke(&server, &id);
    server.add_tool("ann", "private", "second_plan");
    for (what, events) in [("session", events), ("stream", stream)] {
        // Notifications of the first change may still arrive.
        let received = read_rest(events).await;
        assert!(!received.iter().any(|it| it["method"] == LIST_CHANGED), "{what}: {received:?}");
    }
    assert_eq!(session.ping().await, 401);
    let again = session.within(Request::get("/mcp").header("Accept", "text/event-stream"));
    assert_eq!(again.send(&server.process.http).status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_lists_nothing_private_over_a_bus() {
    let (server, ann, id) = server();
    server.add_tool("ann", "private", "first_plan");
    let arguments = ["--url", &server.process.url, "--key", &ann];
    let mut client = Client::Pipe(Pipe::session(&arguments, VERSION).await);
    assert!(client.tools().await.contains(&"first_plan".to_owned()));
    revoke(&server, &id);
    let refused = client.fails("resources/read", json!({ "uri": "iii://first_plan" })).await;
    assert_eq!(refused.data["code"], "unknown_key", "{refused:?}");
    eventually("what was known is forgotten", async || {
        let listed = client.ask("resources/list", json!({})).await;
        listed["error"]["data"]["code"] == "unknown_key"
    })
    .await;
    assert!(!client.tools().await.contains(&"first_plan".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_client_with_a_revoked_key_is_refused_at_once() {
    if skills_testkit::needs_embedded_store("through a database it is within a second") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let skills = |arguments: &[&str]| {
        let mut command = program(BINARY);
        command.arg("--data-dir").arg(&data).args(arguments);
        let ran = run(&mut command);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        ran.stdout.trim().to_owned()
    };
    let key = skills(&["key", "create", "--uid", "ann"]);
    let note = dir.path().join("note.md");
    std::fs::write(&note, "# Note").unwrap();
    skills(&["--key", &key, "add", note.to_str().unwrap(), "--tier", "private"]);
    let arguments = ["--data-dir", data.to_str().unwrap(), "--key", &key];
    let mut client = Client::Pipe(Pipe::session(&arguments, VERSION).await);
    assert_eq!(client.read("iii://note").await, "# Note");
    skills(&["key", "revoke", "--uid", "ann"]);
    for (method, params) in
        [("resources/read", json!({ "uri": "iii://note" })), ("resources/list", json!({}))]
    {
        let refused = client.fails(method, params).await;
        assert_eq!(refused.data["code"], "unknown_key", "{method}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_key_of_the_same_user_keeps_working() {
    let (server, ann, id) = server();
    let (other, _) = server.create_key("ann");
    let gone = Session::open_as(&server.process.http, VERSION, Some(&ann)).await;
    let stays = Session::open_as(&server.process.http, VERSION, Some(&other)).await;
    let mut events = stays.events().await;
    revoke(&server, &id);
    server.add_tool("ann", "private", "plan");
    wait_for_notification(&mut events, LIST_CHANGED).await;
    assert_eq!((gone.ping().await, stays.ping().await), (401, 200));
    let worker = Worker::connect(&server.process.url).await;
    let refused = worker.fails("skills::resolve", json!({ "id": "plan", "key": ann })).await;
    assert_eq!(refused.code, "unknown_key");
}
